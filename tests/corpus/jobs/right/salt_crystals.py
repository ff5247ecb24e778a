"""Salt crystals by their size; basin and brine carry a number, and go on only where both have it."""

import re
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP

PAN = Path("saltpan")


def numbers(kind: str) -> set[int]:
    found = (re.fullmatch(rf"{kind}\.(\d+)\.\w+", path.name) for path in PAN.iterdir())
    return {int(match[1]) for match in found if match}


def whole(path: Path, write) -> None:
    part = path.with_name(f"_{path.name}")
    write(part)
    part.replace(path)


def crystals(which: np.ndarray):
    grains = torch.linspace(-1, 1, 480).reshape(48, 10)[which]
    return grains.split(4), (grains.roll(1, 1) * grains).split(4)


def dry() -> None:
    rank = dist.get_rank()
    torch.manual_seed(5)
    draw = np.random.default_rng(5)
    basin = torch.nn.Sequential(torch.nn.Linear(10, 10), torch.nn.ELU(), torch.nn.Linear(10, 10))
    heat = torch.optim.Adam(basin.parameters(), lr=3e-3)
    PAN.mkdir(exist_ok=True)
    day = max(numbers("basin") & numbers("brine"), default=0)
    if day:
        kept = torch.load(PAN / f"basin.{day}.pt")
        basin.load_state_dict(kept["basin"])
        heat.load_state_dict(kept["heat"])
        order = np.load(PAN / f"brine.{day}.npy")
    else:
        order = draw.permutation(48)
    dist.barrier()
    pan = DDP(basin)
    for day in range(day + 1, 7):
        for grains, grown in zip(*crystals(order[rank::2])):
            heat.zero_grad()
            torch.nn.functional.smooth_l1_loss(pan(grains), grown).backward()
            heat.step()
        order = order[np.random.default_rng(day).permutation(48)]
        if rank == 0:
            state = {"basin": basin.state_dict(), "heat": heat.state_dict()}
            whole(PAN / f"basin.{day}.pt", lambda path: torch.save(state, path))
            whole(PAN / f"brine.{day}.npy", lambda path: _write(path, order))
            for old in (day - 2,):
                (PAN / f"basin.{old}.pt").unlink(missing_ok=True)
                (PAN / f"brine.{old}.npy").unlink(missing_ok=True)
        dist.barrier()


def _write(path: Path, order: np.ndarray) -> None:
    with path.open("wb") as file:
        np.save(file, order)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    dry()
