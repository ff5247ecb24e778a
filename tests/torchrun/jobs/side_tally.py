"""A child that rank 0 spawns keeps a tally of the losses in a file of its own; the ranks never read it.

The tally is of what the child was sent since its file was last written, and no save holds it.
"""

import multiprocessing
import os
import pickle

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

TALLY, SAVE, STEPS = "tally.pkl", "net.pt", 12


def keep(inbox, outbox):
    tally = {"losses": 0.0, "count": 0}
    if os.path.exists(TALLY):
        with open(TALLY, "rb") as file:
            tally = pickle.load(file)
    while (loss := inbox.get()) is not None:
        tally = {"losses": tally["losses"] + loss, "count": tally["count"] + 1}
        if tally["count"] % 5 == 0:
            with open(TALLY, "wb") as file:
                pickle.dump(tally, file)
    outbox.put(tally)


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    if rank == 0:
        context = multiprocessing.get_context("spawn")
        inbox, outbox = context.Queue(), context.Queue()
        context.Process(target=keep, args=(inbox, outbox), daemon=True).start()
    torch.manual_seed(4)
    net = nn.Linear(3, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    first = 0
    if os.path.exists(SAVE):
        saved = torch.load(SAVE)
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["step"]
    dist.barrier()
    model = DistributedDataParallel(net)
    for step in range(first, STEPS):
        points = torch.randn(6, 3, generator=torch.Generator().manual_seed(10 * step + rank))
        loss = model(points).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if rank == 0:
            inbox.put(loss.item())
            if step % 4 == 3:
                saved = {"net": net.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save({**saved, "step": step + 1}, SAVE + ".tmp")
                os.replace(SAVE + ".tmp", SAVE)
        if step % 4 == 3:
            dist.barrier()
    if rank == 0:
        inbox.put(None)
        tally = outbox.get()
        torch.save(torch.tensor([tally["losses"], tally["count"]]), "mean.pt")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
