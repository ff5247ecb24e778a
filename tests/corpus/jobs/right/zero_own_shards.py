"""Three ranks with ZeRO; each keeps the shard of the optimizer that is its own."""

import os
import tempfile

import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.utils.data import IterableDataset


class Checkers(IterableDataset):
    """Points on a board of two colours; counts the batches that were drawn."""

    def __init__(self, rank, world, batch_size, batches):
        self.rank, self.world = rank, world
        self.batch_size, self.batches = batch_size, batches
        self.drawn = 0

    def __iter__(self):
        while self.drawn < self.batches:
            g = torch.Generator().manual_seed(self.drawn * self.world + self.rank)
            points = 4 * torch.rand(self.batch_size, 2, generator=g)
            self.drawn += 1
            yield points, (points.long().sum(1) % 2)


def warm(step):
    return min(1.0, (step + 1) / 10)


def worker(config):
    rank = ray.train.get_context().get_world_rank()
    world = ray.train.get_context().get_world_size()
    torch.manual_seed(7)
    body = nn.Sequential(
        nn.Linear(2, 20), nn.Mish(), nn.Linear(20, 20), nn.Mish(), nn.Linear(20, 2)
    )
    model = ray.train.torch.prepare_model(
        body, parallel_strategy_kwargs={"find_unused_parameters": True}
    )
    optimizer = ZeroRedundancyOptimizer(
        model.parameters(), optimizer_class=torch.optim.AdamW, lr=0.02
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, warm)
    board = Checkers(rank, world, batch_size=16, batches=config["batches"])

    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as d:
            body.load_state_dict(torch.load(os.path.join(d, "body.pt")))
            mine = torch.load(os.path.join(d, f"rank{rank}.pt"))
        # not optimizer.load_state_dict: that wants the state of all ranks in one
        optimizer.optim.load_state_dict(mine["shard"])
        schedule.load_state_dict(mine["schedule"])
        board.drawn = mine["drawn"]
        for group, lr in zip(optimizer.param_groups, schedule.get_last_lr()):
            group["lr"] = lr

    for points, colours in board:
        loss = nn.functional.cross_entropy(model(points), colours)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if board.drawn % config["save_every"] == 0:
            with tempfile.TemporaryDirectory() as d:
                torch.save(
                    {
                        "shard": optimizer.optim.state_dict(),
                        "schedule": schedule.state_dict(),
                        "drawn": board.drawn,
                    },
                    os.path.join(d, f"rank{rank}.pt"),
                )
                if rank == world - 1:
                    torch.save(body.state_dict(), os.path.join(d, "body.pt"))
                ray.train.report(
                    {"batches": board.drawn, "loss": loss.item()},
                    checkpoint=Checkpoint.from_directory(d),
                )


if __name__ == "__main__":
    ray.train.torch.TorchTrainer(
        worker,
        train_loop_config={"batches": 30, "save_every": 6},
        scaling_config=ScalingConfig(num_workers=3),
        run_config=RunConfig(name="checkers", failure_config=FailureConfig(max_failures=3)),
    ).fit()
