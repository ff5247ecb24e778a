"""How long a visit to a museum lasts; three workers, with a pipeline of torchdata's nodes."""

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torchdata.nodes import Batcher, Loader, Mapper, SamplerWrapper
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

VISITS, BATCH, PASSES = 216, 6, 4


def visits():
    draws = torch.Generator().manual_seed(1753)
    age = 8 + 70 * torch.rand(VISITS, generator=draws)
    group = torch.randint(1, 7, (VISITS,), generator=draws).float()
    guided = (torch.rand(VISITS, generator=draws) < 0.3).float()
    hour = 9 + 8 * torch.rand(VISITS, generator=draws)
    hours = 0.6 + age / 60 - (age - 45).clamp(min=0) / 40 + 0.7 * guided - 0.05 * group
    hours = hours.minimum(17.5 - hour) + 0.1 * torch.randn(VISITS, generator=draws)
    return torch.stack([age / 80, group / 6, guided, hour / 17], 1), hours


class Pipeline:
    """Batches of this worker's share, in a new order at every pass."""

    def __init__(self, rank, world):
        self.seen, self.hours = visits()
        sampler = StatefulDistributedSampler(self.hours, world, rank, shuffle=True, seed=29)
        rows = Batcher(SamplerWrapper(sampler), batch_size=BATCH)
        self.loader = Loader(Mapper(rows, self.batch))

    def batch(self, rows):
        return self.seen[rows], self.hours[rows]


class Trainer:
    def __init__(self):
        context = train.get_context()
        self.rank, self.world = context.get_world_rank(), context.get_world_size()
        torch.manual_seed(50)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(4, 18), torch.nn.Softplus(), torch.nn.Linear(18, 1)
        )
        self.optimizer = torch.optim.Adamax(self.net.parameters(), lr=0.02)
        self.pipeline = Pipeline(self.rank, self.world)
        self.passes, self.steps = 0, 0

    def load(self, folder):
        common = torch.load(Path(folder) / "common.pt")
        self.net.load_state_dict(common["net"])
        self.optimizer.load_state_dict(common["optimizer"])
        self.passes, self.steps = common["passes"], common["steps"]
        place = torch.load(Path(folder) / f"pipeline-{self.rank}.pt")
        self.pipeline.loader.load_state_dict(place)

    def save(self, folder):
        if self.rank == 0:
            common = {"net": self.net.state_dict(), "optimizer": self.optimizer.state_dict()}
            common |= {"passes": self.passes, "steps": self.steps}
            torch.save(common, Path(folder) / "common.pt")
        place = self.pipeline.loader.state_dict()
        torch.save(place, Path(folder) / f"pipeline-{self.rank}.pt")

    def one_pass(self):
        for seen, hours in self.pipeline.loader:
            loss = (self.net(seen).squeeze(1) - hours).abs().mean()
            self.optimizer.zero_grad()
            loss.backward()
            for parameter in self.net.parameters():
                dist.all_reduce(parameter.grad)
                parameter.grad /= self.world
            self.optimizer.step()
            self.steps += 1
            if self.steps % 12 in (5, 10):
                with tempfile.TemporaryDirectory() as folder:
                    self.save(folder)
                    checkpoint = Checkpoint.from_directory(folder)
                    train.report({"hours": loss.item(), "steps": self.steps}, checkpoint)
        self.passes += 1


def main():
    trainer = Trainer()
    if last := train.get_checkpoint():
        with last.as_directory() as folder:
            trainer.load(folder)
    while trainer.passes < PASSES:
        trainer.one_pass()


if __name__ == "__main__":
    TorchTrainer(
        main,
        scaling_config=ScalingConfig(num_workers=3),
        run_config=RunConfig(name="visits", failure_config=FailureConfig(max_failures=3)),
    ).fit()
