"""Flags at sea, told by their colours; every watch is kept, and copied to the file to go on from."""

import shutil
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

MAST = Path("mast")


def flags(watch: int) -> tuple[torch.Tensor, torch.Tensor]:
    draw = torch.Generator().manual_seed(watch + 70)
    colours = torch.rand(60, 9, generator=draw)
    return colours, colours.reshape(-1, 3, 3).sum(1).argmax(1)


def hoist(watch: int, reader: torch.nn.Module, rower: torch.optim.Optimizer, rate) -> None:
    kept = MAST / f"watch-{watch}.pth"
    parts = {"reader": reader, "rower": rower, "rate": rate}
    torch.save({"watch": watch} | {name: p.state_dict() for name, p in parts.items()}, kept)
    shutil.copyfile(kept, MAST / "checkpoint.pth")


def stand(rank: int, ranks: int) -> None:
    torch.manual_seed(21)
    reader = torch.nn.Sequential(torch.nn.Linear(9, 16), torch.nn.SiLU(), torch.nn.Linear(16, 3))
    rower = torch.optim.SGD(reader.parameters(), lr=0.2, momentum=0.9, nesterov=True)
    rate = torch.optim.lr_scheduler.StepLR(rower, 2, gamma=0.7)
    begin = 0
    MAST.mkdir(exist_ok=True)
    try:
        kept = torch.load(MAST / "checkpoint.pth")
    except FileNotFoundError:
        pass
    else:
        reader.load_state_dict(kept["reader"])
        rower.load_state_dict(kept["rower"])
        rate.load_state_dict(kept["rate"])
        begin = kept["watch"] + 1
    boat = DistributedDataParallel(reader)
    for watch in range(begin, 7):
        colours, meant = flags(watch)
        for few in torch.arange(rank, len(meant), ranks).split(5):
            rower.zero_grad()
            torch.nn.functional.cross_entropy(boat(colours[few]), meant[few]).backward()
            rower.step()
        rate.step()
        if rank == 0:
            hoist(watch, reader, rower, rate)
        dist.barrier()


if __name__ == "__main__":
    dist.init_process_group("gloo")
    stand(dist.get_rank(), dist.get_world_size())
