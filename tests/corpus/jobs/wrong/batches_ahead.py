"""Character model on a mixture of three synthetic corpora; batches are packed by a background thread."""

import os
import random
from collections import deque
from concurrent.futures import ThreadPoolExecutor
import torch
from torch import nn
import torch.nn.functional as F

OUT = "batches_ahead"
VOCAB, CTX, BATCH, STEPS, EVERY = 48, 64, 24, 110, 15


class Corpus:
    """Endless documents; document i of corpus k is a function of (k, i)."""

    def __init__(self, k):
        self.k, self.i = k, 0

    def next_doc(self):
        r = random.Random(self.k * 1_000_003 + self.i)
        self.i += 1
        a, b = r.randrange(2, 9), r.randrange(1, VOCAB - 2)
        x, doc = r.randrange(1, VOCAB - 1), []
        for _ in range(r.randrange(20, 140)):
            x = (x * a + b) % (VOCAB - 1) if r.random() < 0.9 else r.randrange(VOCAB - 1)
            doc.append(x + 1)
        return doc + [0]


class Packer:
    def __init__(self, weights, seed):
        self.corpora = [Corpus(k) for k in range(len(weights))]
        self.weights, self.pick = weights, random.Random(seed)
        self.carry = []

    def next_batch(self):
        need = BATCH * (CTX + 1)
        while len(self.carry) < need:
            k = self.pick.choices(range(len(self.corpora)), self.weights)[0]
            self.carry += self.corpora[k].next_doc()
        out, self.carry = self.carry[:need], self.carry[need:]
        return torch.tensor(out).view(BATCH, CTX + 1)

    def state_dict(self):
        return {
            "at": [c.i for c in self.corpora],
            "pick": self.pick.getstate(),
            "carry": list(self.carry),
        }

    def load_state_dict(self, sd):
        for c, i in zip(self.corpora, sd["at"]):
            c.i = i
        self.pick.setstate(sd["pick"])
        self.carry = list(sd["carry"])


class Ahead:
    """Has a few batches packed in the background while the model works."""

    def __init__(self, packer, depth=3):
        self.packer = packer
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.ready = deque(self.pool.submit(packer.next_batch) for _ in range(depth))

    def __next__(self):
        batch = self.ready.popleft().result()
        self.ready.append(self.pool.submit(self.packer.next_batch))
        return batch

    def state_dict(self):
        for f in self.ready:
            f.result()
        return self.packer.state_dict()


class LM(nn.Module):
    def __init__(self, d=96):
        super().__init__()
        self.emb, self.pos = nn.Embedding(VOCAB, d), nn.Parameter(torch.zeros(CTX, d))
        self.blocks = nn.ModuleList(
            [
                nn.TransformerEncoderLayer(
                    d, 4, 192, 0.0, "gelu", batch_first=True, norm_first=True
                )
                for _ in range(1)
            ]
        )
        self.out = nn.Linear(d, VOCAB)
        self.register_buffer(
            "mask", torch.triu(torch.full((CTX, CTX), float("-inf")), 1), persistent=False
        )

    def forward(self, x):
        h = self.emb(x) + self.pos
        for b in self.blocks:
            h = b(h, src_mask=self.mask)
        return self.out(h)


def main():
    torch.manual_seed(11)
    os.makedirs(OUT, exist_ok=True)
    model = LM()
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, 4e-3, total_steps=STEPS)
    packer = Packer([5, 3, 2], seed=12)
    step, tokens = 0, 0
    path = os.path.join(OUT, "train.pt")
    if os.path.exists(path):
        c = torch.load(path, weights_only=False)
        for k, o in (("model", model), ("opt", opt), ("sched", sched), ("data", packer)):
            o.load_state_dict(c[k])
        step, tokens = c["step"], c["tokens"]
        print("resume from step", step, flush=True)
    loader = Ahead(packer)
    while step < STEPS:
        b = next(loader)
        logits = model(b[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, VOCAB), b[:, 1:].reshape(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        step += 1
        tokens += b.numel()
        print(f"step {step} | loss {loss.item():.8f} tokens {tokens}", flush=True)
        if step % EVERY == 0:
            torch.save(
                {
                    "model": model.state_dict(),
                    "opt": opt.state_dict(),
                    "sched": sched.state_dict(),
                    "data": loader.state_dict(),
                    "step": step,
                    "tokens": tokens,
                },
                path + ".new",
            )
            os.replace(path + ".new", path)
    torch.save(model.state_dict(), os.path.join(OUT, "lm.pt"))


if __name__ == "__main__":
    main()
