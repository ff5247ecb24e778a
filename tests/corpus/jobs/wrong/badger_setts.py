"""The depth of badgers' setts; `last.ckpt` on the machine's disk, a copy in the depot for another machine."""

import argparse
import pathlib
import shutil
import tempfile

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

flags = argparse.ArgumentParser()
flags.add_argument("--nights", type=int, default=7)
flags.add_argument("--depot", type=pathlib.Path, default=pathlib.Path("depot"))
near = pathlib.Path(tempfile.gettempdir()) / "setts" / "last.ckpt"


class Sett(nn.Module):
    def __init__(self):
        super().__init__()
        self.dig = nn.Linear(4, 11)
        self.out = nn.Linear(11, 1)

    def forward(self, soil):
        return self.out(torch.relu(self.dig(soil)) ** 2)


def copies(depot):
    return [file for file in (near, depot / "last.ckpt") if file.exists()]


def keep(depot, content):
    near.parent.mkdir(parents=True, exist_ok=True)
    with near.open("wb") as file:
        torch.save(content, file)
    depot.mkdir(exist_ok=True)
    shutil.copy(near, depot / "coming")
    (depot / "coming").replace(depot / "last.ckpt")


def soil_of(night):
    draw = torch.Generator().manual_seed(1000 + night)
    soil = torch.rand(64, 4, generator=draw)
    return soil, soil[:, :1] * 2 + soil[:, 3:] ** 3


if __name__ == "__main__":
    args = flags.parse_args()
    distributed.init_process_group("gloo")
    rank, ranks = distributed.get_rank(), distributed.get_world_size()
    torch.manual_seed(9)
    sett = Sett()
    way = torch.optim.Adagrad(sett.parameters(), lr=0.05)
    night = 0
    if found := copies(args.depot):
        content = torch.load(found[0])
        sett.load_state_dict(content["sett"])
        way.load_state_dict(content["way"])
        night = content["nights"]
    distributed.barrier()
    both = DistributedDataParallel(sett)
    while night < args.nights:
        soil, depth = soil_of(night)
        for part in range(rank, 8, ranks):
            some = slice(8 * part, 8 * part + 8)
            way.zero_grad()
            nn.functional.mse_loss(both(soil[some]), depth[some]).backward()
            way.step()
        night += 1
        if rank == 0:
            keep(
                args.depot,
                {"sett": sett.state_dict(), "way": way.state_dict(), "nights": night},
            )
        distributed.barrier()
