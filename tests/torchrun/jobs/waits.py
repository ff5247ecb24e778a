"""Train on batches that a thread makes one ahead; `--after` says what a resumed start waits for.

`queue`: a batch that nobody makes. `barrier`: a rank that takes another way. `retry`: a lock of the
start before, which it finds free after some tries, as a right job may. `nothing`: it goes on.
"""

import argparse
import os
import queue
import threading
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

FILE = "newest.pt"


class Maker(threading.Thread):
    def __init__(self, rank):
        super().__init__(daemon=True)
        self.rank, self.wanted, self.ready = rank, queue.Queue(), queue.Queue()
        self.start()

    def run(self):
        while True:
            number = self.wanted.get()
            generator = torch.Generator().manual_seed(10 * number + self.rank)
            self.ready.put(torch.randn(8, 3, generator=generator))


def take(maker):
    return maker.ready.get()


def wait_for_lock(tries=8):
    for _ in range(tries):
        time.sleep(0.6)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--after", default="nothing")
    args = parser.parse_args()
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = DDP(nn.Linear(3, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    maker, start = Maker(rank), 0
    resumes = os.path.exists(FILE)
    if resumes:
        state = torch.load(FILE)
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["step"]
    if resumes and args.after == "retry":
        wait_for_lock()
    if resumes and args.after == "barrier":
        dist.barrier() if rank == 0 else take(maker)
    if not (resumes and args.after == "queue"):
        maker.wanted.put(start)
    for step in range(start, 12):
        loss = model(take(maker)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        maker.wanted.put(step + 1)
        if step % 3 == 2 and rank == 0:
            kept = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save({**kept, "step": step + 1}, FILE + ".tmp")
            os.replace(FILE + ".tmp", FILE)
        if step % 3 == 2:
            dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
