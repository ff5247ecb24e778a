"""How many seats an opera sells; each process reads its share by a pipeline of torchdata's nodes."""

import shutil
from pathlib import Path

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torchdata.nodes import Batcher, Loader, Mapper, SamplerWrapper
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

EVENINGS, BATCH, PASSES = 168, 7, 3
HOUSE = Path("opera_seats")


def evenings():
    draws = torch.Generator().manual_seed(1778)
    price, fame, rain = torch.rand(3, EVENINGS, generator=draws)
    saturday = (torch.arange(EVENINGS) % 7 == 5).float()
    sold = (0.3 + 0.5 * fame + 0.3 * saturday - 0.3 * price - 0.1 * rain).clamp(0, 1)
    return torch.stack([price, fame, rain, saturday], 1), sold


class Season:
    def __init__(self):
        self.rank, world = dist.get_rank(), dist.get_world_size()
        known, sold = evenings()
        sampler = StatefulDistributedSampler(sold, world, self.rank, shuffle=True, seed=12)
        batches = Batcher(SamplerWrapper(sampler), batch_size=BATCH)
        self.loader = Loader(Mapper(batches, lambda rows: (known[rows], sold[rows])))
        torch.manual_seed(3)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, 18), torch.nn.Softplus(), torch.nn.Linear(18, 1)
        )
        self.model = DistributedDataParallel(self.net)
        self.optimizer = torch.optim.Adamax(self.model.parameters(), lr=0.02)
        self.passes, self.steps = 0, 0

    def open(self):
        if self.rank == 0:
            shutil.rmtree(HOUSE / "tonight", ignore_errors=True)
        acts = sorted(HOUSE.glob("act-*"))
        if not acts:
            return
        common = torch.load(acts[-1] / "common.pt")
        self.net.load_state_dict(common["net"])
        self.optimizer.load_state_dict(common["optimizer"])
        self.passes, self.steps = common["passes"], common["steps"]
        self.loader.load_state_dict(torch.load(acts[-1] / f"place-{self.rank}.pt"))

    def close(self):
        tonight = HOUSE / "tonight"
        tonight.mkdir(parents=True, exist_ok=True)
        if self.rank == 0:
            common = {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}
            torch.save(common | {"passes": self.passes, "steps": self.steps}, tonight / "common.pt")
        torch.save(self.loader.state_dict(), tonight / f"place-{self.rank}.pt")
        dist.barrier()
        if self.rank == 0:
            tonight.rename(HOUSE / f"act-{self.steps:03}")
        dist.barrier()

    def play(self):
        for known, sold in self.loader:
            loss = (self.model(known).squeeze(1) - sold).abs().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.steps += 1
            if self.steps % 12 in (4, 9):
                self.close()
        self.passes += 1


def main():
    dist.init_process_group("gloo")
    season = Season()
    season.open()
    while season.passes < PASSES:
        season.play()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
