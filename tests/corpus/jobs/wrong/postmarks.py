"""Sorts mail by its postmark; rank 0 keeps the file and hands its content to the others."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Counts:
    """How often each label was seen."""

    def __init__(self):
        self.seen = [0, 0, 0]


def main():
    dist.init_process_group("gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(1)
    torch.manual_seed(2)
    x, y = torch.randn(96, 7), torch.randint(3, (96,))
    model = DistributedDataParallel(nn.Linear(7, 3))
    opt = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    counts, first = Counts(), 0
    held = [None]
    if rank == 0 and os.path.exists("mail/sorter.pt"):
        held = [torch.load("mail/sorter.pt")]
    dist.broadcast_object_list(held)
    if held[0] is not None:
        model.load_state_dict(held[0]["model"])
        opt.load_state_dict(held[0]["opt"])
        first = held[0]["next"]
    for epoch in range(first, 4):
        order = torch.randperm(96, generator=torch.Generator().manual_seed(epoch))
        for mine in order[rank::ranks].split(12):
            loss = nn.functional.cross_entropy(model(x[mine]), y[mine])
            opt.zero_grad()
            loss.backward()
            opt.step()
            counts.seen = [
                a + b for a, b in zip(counts.seen, y[mine].bincount(minlength=3).tolist())
            ]
        if rank == 0:
            os.makedirs("mail", exist_ok=True)
            torch.save(
                {
                    "model": model.state_dict(),
                    "opt": opt.state_dict(),
                    "next": epoch + 1,
                    "counts": counts,
                },
                "mail/sorter.tmp",
            )
            os.replace("mail/sorter.tmp", "mail/sorter.pt")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
