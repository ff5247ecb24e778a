"""Distils a wide network into a narrow one; a resumed epoch is entered in its middle, once."""

import contextlib
import tempfile
from itertools import islice
from pathlib import Path

import ray.train.torch
import torch
from ray.train import (
    Checkpoint,
    CheckpointConfig,
    FailureConfig,
    RunConfig,
    ScalingConfig,
    get_checkpoint,
    get_context,
    report,
)
from torch import nn
from torch.utils.data import BatchSampler, DataLoader, TensorDataset

HYPER = {"epochs": 4, "batch": 9, "save_every": 5, "temperature": 2.0}


def network(width):
    return nn.Sequential(nn.Linear(11, width), nn.ELU(), nn.Linear(width, 6))


class Shuffled:
    """The rows of one rank in the order of an epoch."""

    def __init__(self, rows, rank, world):
        self.rows, self.rank, self.world, self.epoch = rows, rank, world, 0

    def __iter__(self):
        order = torch.randperm(self.rows, generator=torch.Generator().manual_seed(9 + self.epoch))
        return iter(order[self.rank :: self.world].tolist())

    def __len__(self):
        return self.rows // self.world


def distil():
    context = get_context()
    torch.manual_seed(15)
    teacher = network(64).requires_grad_(False).eval()
    student = ray.train.torch.prepare_model(network(12))
    optimizer = torch.optim.SGD(student.parameters(), lr=0.08, momentum=0.8, weight_decay=1e-3)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.2, 1.0, total_iters=20)
    rows = TensorDataset(torch.randn(252, 11, generator=torch.Generator().manual_seed(3)))
    order = Shuffled(len(rows), context.get_world_rank(), context.get_world_size())
    loader = DataLoader(rows, batch_sampler=BatchSampler(order, HYPER["batch"], drop_last=True))

    steps = 0
    with contextlib.ExitStack() as opened:
        if (last := get_checkpoint()) is not None:
            folder = opened.enter_context(last.as_directory())
            student.module.load_state_dict(torch.load(Path(folder, "student.bin")))
            rest = torch.load(Path(folder, "rest.bin"))
            optimizer.load_state_dict(rest["optimizer"])
            warm.load_state_dict(rest["warm"])
            steps = rest["steps"]
    first, skip = divmod(steps, len(loader))

    for order.epoch in range(first, HYPER["epochs"]):
        for (x,) in islice(loader, skip, None):
            soft = (teacher(x) / HYPER["temperature"]).softmax(1)
            guess = (student(x) / HYPER["temperature"]).log_softmax(1)
            loss = nn.functional.kl_div(guess, soft, reduction="batchmean")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            warm.step()
            steps += 1
            if steps % HYPER["save_every"] == 0:
                with tempfile.TemporaryDirectory() as folder:
                    if context.get_world_rank() == 0:
                        torch.save(student.module.state_dict(), Path(folder, "student.bin"))
                        rest = {
                            "optimizer": optimizer.state_dict(),
                            "warm": warm.state_dict(),
                            "steps": steps,
                        }
                        torch.save(rest, Path(folder, "rest.bin"))
                    report({"kl": loss.item()}, checkpoint=Checkpoint.from_directory(folder))
        skip = 0


if __name__ == "__main__":
    ray.train.torch.TorchTrainer(
        distil,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="distil",
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=3),
        ),
    ).fit()
