"""Pretrain a tiny causal LM on a stream of documents packed into fixed blocks."""

import argparse
import hashlib
import os
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

EOS = 0


def make_corpus(n_docs=400, vocab=48, seed=7):
    rng = random.Random(seed)
    docs = []
    for _ in range(n_docs):
        a, b = rng.randint(1, 9), rng.randint(1, vocab - 1)
        x, doc = rng.randint(1, vocab - 1), []
        for _ in range(rng.randint(5, 60)):
            doc.append(x)
            x = (a * x + b) % (vocab - 1) + 1
        docs.append(doc)
    return docs


class PackedStream:
    """Concatenate documents with EOS and cut the stream into blocks."""

    def __init__(self, docs, block, batch):
        self.docs, self.block, self.batch = docs, block, batch
        self.doc_idx = 0
        self.epoch = 0
        self.tail = []

    def _order(self):
        order = list(range(len(self.docs)))
        random.Random(1000 + self.epoch).shuffle(order)
        return order

    def __iter__(self):
        need = self.batch * (self.block + 1)
        order = self._order()
        while True:
            while len(self.tail) < need:
                if self.doc_idx == len(order):
                    self.epoch += 1
                    self.doc_idx = 0
                    order = self._order()
                self.tail.extend(self.docs[order[self.doc_idx]] + [EOS])
                self.doc_idx += 1
            chunk, self.tail = self.tail[:need], self.tail[need:]
            yield torch.tensor(chunk).view(self.batch, self.block + 1)

    def state_dict(self):
        return {"doc_idx": self.doc_idx, "epoch": self.epoch}

    def load_state_dict(self, sd):
        self.doc_idx = sd["doc_idx"]
        self.epoch = sd["epoch"]


class TinyLM(nn.Module):
    def __init__(self, vocab=48, dim=32, block=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(torch.zeros(block, dim))
        self.attn = nn.MultiheadAttention(dim, 2, batch_first=True)
        self.ff = nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, dim)
        )
        self.head = nn.Linear(dim, vocab)

    def forward(self, x):
        h = self.tok(x) + self.pos[: x.size(1)]
        mask = torch.full((x.size(1), x.size(1)), float("-inf")).triu(1)
        a, _ = self.attn(h, h, h, attn_mask=mask, need_weights=False)
        h = h + a
        return self.head(h + self.ff(h))


def save(path, **state):
    tmp = path + ".tmp"
    torch.save(state, tmp)
    os.replace(tmp, path)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=240)
    p.add_argument("--save-every", type=int, default=20)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--out", default="out")
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    ckpt = os.path.join(args.out, "last.pt")

    torch.manual_seed(0)
    model = TinyLM()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.steps)
    stream = PackedStream(make_corpus(), block=32, batch=8)
    step = 0
    if os.path.exists(ckpt):
        s = torch.load(ckpt)
        model.load_state_dict(s["model"])
        opt.load_state_dict(s["opt"])
        sched.load_state_dict(s["sched"])
        stream.load_state_dict(s["stream"])
        step = s["step"]
        print(f"resumed at step {step}")

    batches = iter(stream)
    while step < args.steps:
        block = next(batches)
        logits = model(block[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), block[:, 1:].flatten())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        step += 1
        if step % 5 == 0:
            print(
                f"step {step} loss {loss.item():.6f} lr {sched.get_last_lr()[0]:.2e} docs {stream.epoch}:{stream.doc_idx}"
            )
        if step % args.save_every == 0 or step == args.steps:
            save(
                ckpt,
                model=model.state_dict(),
                opt=opt.state_dict(),
                sched=sched.state_dict(),
                stream=stream.state_dict(),
                step=step,
            )
    digest = hashlib.sha256(
        b"".join(t.numpy().tobytes() for t in model.state_dict().values())
    ).hexdigest()[:16]
    print(f"done weights {digest}")


if __name__ == "__main__":
    main()
