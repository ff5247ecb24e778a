"""GRU character model on a toy grammar. Context grows as the model gets better."""

import argparse
import math
import os
import random

import torch
from torch import nn

VOCAB = "abcdefgh .\n"
SEQ_LEN = 6
MAX_LEN = 40


def corpus(n_words=2500, seed=9):
    rnd = random.Random(seed)
    words = ["abba", "cafe", "bead", "hag", "face", "deaf", "gag", "ebb"]
    out, prev = [], 0
    for _ in range(n_words):
        prev = (prev + rnd.choice([1, 1, 2, 5])) % len(words)
        out.append(words[prev] + rnd.choice([" ", " ", ".\n"]))
    return torch.tensor([VOCAB.index(c) for c in "".join(out)])


class CharGRU(nn.Module):
    def __init__(self, hidden=40):
        super().__init__()
        self.emb = nn.Embedding(len(VOCAB), 16)
        self.rnn = nn.GRU(16, hidden, batch_first=True)
        self.head = nn.Linear(hidden, len(VOCAB))

    def forward(self, ids):
        return self.head(self.rnn(self.emb(ids))[0])


def sample(data, batch, length, gen):
    pos = torch.randint(0, len(data) - length - 1, (batch,), generator=gen)
    rows = torch.stack([data[p : p + length + 1] for p in pos.tolist()])
    return rows[:, :-1], rows[:, 1:]


def train_epoch(model, opt, data, epoch, steps=8):
    global SEQ_LEN
    gen = torch.Generator().manual_seed(1000 + epoch)
    nll = 0.0
    for _ in range(steps):
        inp, tgt = sample(data, 32, SEQ_LEN, gen)
        loss = nn.functional.cross_entropy(model(inp).flatten(0, 1), tgt.flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        nll += loss.item() / steps
        if loss.item() < 0.99 * math.log(len(VOCAB)):
            SEQ_LEN = min(MAX_LEN, SEQ_LEN + 1)
    return nll


def save(path, **things):
    torch.save(things, path + ".tmp")
    os.replace(path + ".tmp", path)


def main(argv=None):
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--out", default="./out")
    ap.add_argument("--epochs", type=int, default=6)
    ns = ap.parse_args(argv)
    torch.set_num_threads(1)
    torch.manual_seed(2)
    os.makedirs(ns.out, exist_ok=True)
    path = os.path.join(ns.out, "charlm.pt")
    data = corpus()
    model = CharGRU()
    opt = torch.optim.Adam(model.parameters(), lr=8e-3)
    begin = 1
    if os.path.exists(path):
        st = torch.load(path)
        model.load_state_dict(st["model"])
        opt.load_state_dict(st["opt"])
        begin = st["epoch"] + 1
    for epoch in range(begin, ns.epochs + 1):
        nll = train_epoch(model, opt, data, epoch)
        print(f"[epoch {epoch}] nll={nll:.10f} ppl={math.exp(nll):.6f}", flush=True)
        save(path, model=model.state_dict(), opt=opt.state_dict(), epoch=epoch)


if __name__ == "__main__":
    main()
