"""Where hares lie, by two experts; every rank copies its own expert's save, and a list of all comes last."""

import os
import shutil
import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

STORE = Path("experts")


def listed() -> list[int]:
    """The fields whose saves are whole, oldest first."""
    return sorted(int(file.stem) for file in STORE.glob("*.list"))


def deliver(state, field: int, rank: int) -> None:
    with tempfile.NamedTemporaryFile(suffix=".pt") as near:
        torch.save(state, near)
        near.flush()
        shutil.copyfile(near.name, STORE / f"{field}.{rank}")
    dist.barrier()
    if rank == 0:
        draft = STORE / "draft"
        draft.write_text("\n".join(f"{field}.{r}" for r in range(dist.get_world_size())))
        draft.rename(STORE / f"{field}.list")
        for old in listed()[:-2]:
            (STORE / f"{old}.list").unlink()
            for part in STORE.glob(f"{old}.[0-9]"):
                part.unlink()
    dist.barrier()


def collect(rank: int):
    fields = listed()
    return torch.load(STORE / f"{fields[-1]}.{rank}") if fields else None


class Expert(nn.Module):
    def __init__(self, rank: int):
        super().__init__()
        generator = torch.Generator().manual_seed(500 + rank)
        self.weight = nn.Parameter(torch.randn(7, 1, generator=generator) / 3)
        self.shift = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x @ self.weight + self.shift


if __name__ == "__main__":
    dist.init_process_group("gloo")
    me = dist.get_rank()
    STORE.mkdir(exist_ok=True)
    expert = Expert(me)
    adam = torch.optim.Adam(expert.parameters(), lr=0.03)
    field = 0
    if (held := collect(me)) is not None:
        expert.load_state_dict(held["expert"])
        adam.load_state_dict(held["adam"])
        field = held["field"] + 1
    dist.barrier()
    for field in range(field, int(os.environ.get("FIELDS", "7"))):
        random = torch.Generator().manual_seed(3 * field + 1)
        for _ in range(6):
            cover = torch.rand(14, 7, generator=random)
            own = expert(cover)
            sums = own.detach().clone()
            dist.all_reduce(sums)
            wanted = torch.sin(3 * cover[:, :1]) + cover[:, 5:6]
            adam.zero_grad()
            ((sums - wanted).sign() * own).mean().backward()
            adam.step()
        deliver(
            {"expert": expert.state_dict(), "adam": adam.state_dict(), "field": field}, field, me
        )
    dist.destroy_process_group()
