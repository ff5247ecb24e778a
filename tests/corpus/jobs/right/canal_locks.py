"""Water levels of canal locks; a link is made beside the one in use, and takes its place."""

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

GATES = Path("gates")


def levels(week: int) -> torch.Tensor:
    return torch.randn(40, 6, generator=torch.Generator().manual_seed(week)).cumsum(1)


def close_gate(name: str, target: str) -> None:
    """Let a name lead to another folder, without a moment at which it leads nowhere."""
    spare = GATES / f".{name}-{os.getpid()}"
    spare.symlink_to(target)
    spare.replace(GATES / name)


def keep(week: int, lock: torch.nn.Module, pump: torch.optim.Optimizer) -> None:
    folder = GATES / f"week{week}"
    folder.mkdir(exist_ok=True)
    for name, what in (("lock", lock), ("pump", pump)):
        torch.save(what.state_dict(), folder / f"{name}.part")
        (folder / f"{name}.part").replace(folder / f"{name}.pt")
    (folder / "week").write_text(str(week + 1))
    close_gate("open", folder.name)
    best = GATES / "copy.pt"
    best.unlink(missing_ok=True)  # nobody reads it here
    os.link(folder / "lock.pt", best)


def watch(rank: int, ranks: int) -> None:
    torch.manual_seed(8)
    lock = torch.nn.GRU(1, 7, batch_first=True)
    head = torch.nn.Linear(7, 1)
    whole = torch.nn.ModuleDict({"lock": lock, "head": head})
    gates = DistributedDataParallel(Level(whole))
    pump = torch.optim.SGD(gates.parameters(), lr=0.05, momentum=0.8)
    GATES.mkdir(exist_ok=True)
    first = 0
    if (GATES / "open").is_dir():
        whole.load_state_dict(torch.load(GATES / "open/lock.pt"))
        pump.load_state_dict(torch.load(GATES / "open/pump.pt"))
        first = int((GATES / "open/week").read_text())
    dist.barrier()
    for week in range(first, 6):
        for water in levels(week)[rank::ranks].split(5):
            pump.zero_grad()
            error = gates(water[:, :-1, None]) - water[:, 1:, None]
            error.abs().mean().backward()
            pump.step()
        if rank == 0:
            keep(week, whole, pump)
        dist.barrier()


class Level(torch.nn.Module):
    def __init__(self, whole):
        super().__init__()
        self.whole = whole

    def forward(self, water):
        return self.whole["head"](self.whole["lock"](water)[0])


if __name__ == "__main__":
    dist.init_process_group("gloo")
    watch(dist.get_rank(), dist.get_world_size())
    dist.destroy_process_group()
