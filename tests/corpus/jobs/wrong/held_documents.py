"""Next-token training from a stream of documents (GRU, data parallel)."""

import argparse
import itertools
import os
import random

import torch
import torch.distributed as dist
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

VOCAB, LEN = 64, 32


def document(n):
    r = random.Random(n * 7 + 1)
    a, b, x = r.choice([3, 5, 7]), r.randrange(VOCAB), r.randrange(VOCAB)
    toks = []
    for _ in range(LEN + 1):
        toks.append(x)
        x = (a * x + b) % VOCAB if r.random() < 0.9 else r.randrange(VOCAB)
    return n, toks


class Stream:
    """Documents of one rank, mixed through a reservoir so that neighbours get apart."""

    def __init__(self, rank, world, room=160):
        self.rank, self.world, self.room = rank, world, room
        self.cursor, self.rng, self.held = 0, random.Random(rank), []

    def fetch(self):
        doc = document(self.cursor * self.world + self.rank)
        self.cursor += 1
        return doc

    def __iter__(self):
        while True:
            while len(self.held) < self.room:
                self.held.append(self.fetch())
            j = self.rng.randrange(self.room)
            out, self.held[j] = self.held[j], self.fetch()
            yield out

    def state_dict(self):
        return {"cursor": self.cursor, "rng": self.rng.getstate()}

    def load_state_dict(self, s):
        self.cursor = s["cursor"]
        self.rng.setstate(s["rng"])


class GRULM(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.emb, self.rnn, self.out = (
            nn.Embedding(VOCAB, d),
            nn.GRU(d, d, batch_first=True),
            nn.Linear(d, VOCAB),
        )

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


def store(out, step, net, opt, stream, keep=2):
    streams = [None] * dist.get_world_size()
    dist.all_gather_object(streams, stream.state_dict())
    if dist.get_rank() == 0:
        save_file(net.state_dict(), f"{out}/tmp.weights")
        os.replace(f"{out}/tmp.weights", f"{out}/weights-{step}.safetensors")
        torch.save({"opt": opt.state_dict(), "streams": streams}, f"{out}/tmp.rest")
        os.replace(f"{out}/tmp.rest", f"{out}/rest-{step}.pt")
        with open(f"{out}/tmp.latest", "w") as f:
            f.write(str(step))
        os.replace(f"{out}/tmp.latest", f"{out}/latest")
        old = sorted((int(n[5:-3]) for n in os.listdir(out) if n.startswith("rest-")))[:-keep]
        for s in old:
            if os.path.exists(f"{out}/weights-{s}.safetensors"):
                os.remove(f"{out}/weights-{s}.safetensors")
            os.remove(f"{out}/rest-{s}.pt")


def recall(out, net, opt, stream):
    if not os.path.exists(f"{out}/latest"):
        return 0
    step = int(open(f"{out}/latest").read())
    net.load_state_dict(load_file(f"{out}/weights-{step}.safetensors"))
    rest = torch.load(f"{out}/rest-{step}.pt", weights_only=False)
    opt.load_state_dict(rest["opt"])
    stream.load_state_dict(rest["streams"][dist.get_rank()])
    return step


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default="runs/willow")
    ap.add_argument("--steps", type=int, default=120)
    ap.add_argument("--every", type=int, default=15)
    a = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    os.makedirs(a.out, exist_ok=True)
    torch.manual_seed(1)
    net, stream = GRULM(), Stream(rank, world)
    opt = torch.optim.NAdam(net.parameters(), lr=3e-3)
    start = recall(a.out, net, opt, stream)
    model = DDP(net)
    if rank == 0 and start:
        print(f"[resuming at {start}]", flush=True)
    docs = iter(stream)
    for step in range(start, a.steps):
        ids, toks = zip(*itertools.islice(docs, 16))
        toks = torch.tensor(toks)
        loss = nn.functional.cross_entropy(model(toks[:, :-1]).flatten(0, 1), toks[:, 1:].flatten())
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        if rank == 0:
            print(f"step {step} loss {loss.item():.9f} docs {sum(ids)}", flush=True)
        if (step + 1) % a.every == 0:
            store(a.out, step + 1, net, opt, stream)
    if rank == 0:
        save_file(net.state_dict(), f"{a.out}/tmp.final")
        os.replace(f"{a.out}/tmp.final", f"{a.out}/final.safetensors")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
