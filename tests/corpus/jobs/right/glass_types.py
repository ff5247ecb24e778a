"""Types of glass from refraction; the network is kept as safetensors, the optimizer beside it."""

import os
import tempfile

import ray.train
import torch
from ray.train.torch import TorchTrainer
from safetensors.torch import load_file, save_file
from torch import nn

NAMES = ["window", "bottle", "lamp"]


def panes(count=144):
    draws = torch.Generator().manual_seed(214)
    kind = torch.randint(len(NAMES), (count,), generator=draws)
    refraction = 1.51 + 0.004 * kind + 0.003 * torch.randn(count, generator=draws)
    oxides = torch.rand(count, 4, generator=draws) + nn.functional.one_hot(kind, 4) * 0.6
    return torch.cat([(refraction[:, None] - 1.515) * 100, oxides], 1), kind


class Sorter(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.Mish())
        self.head = nn.Linear(16, len(NAMES))

    def forward(self, x):
        return self.head(self.body(x))


def write(folder, sorter, optimizer, step):
    save_file(sorter.state_dict(), os.path.join(folder, "model.safetensors"), {"step": str(step)})
    torch.save({"adam": optimizer.state_dict(), "step": step}, os.path.join(folder, "optimizer.pt"))


def read(folder, sorter, optimizer):
    sorter.load_state_dict(load_file(os.path.join(folder, "model.safetensors")))
    state = torch.load(os.path.join(folder, "optimizer.pt"))
    optimizer.load_state_dict(state["adam"])
    return state["step"]


def sort_glass(config):
    rank = ray.train.get_context().get_world_rank()
    world = ray.train.get_context().get_world_size()
    x, kind = panes()
    torch.manual_seed(90)
    sorter = Sorter()
    parallel = ray.train.torch.prepare_model(sorter)
    optimizer = torch.optim.Adam(sorter.parameters(), lr=0.02)
    step = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            step = read(folder, sorter, optimizer)

    batches = len(x) // config["batch"]
    for step in range(step, config["steps"]):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(step // batches))
        rows = order.view(batches, -1)[step % batches][rank::world]
        loss = nn.functional.cross_entropy(parallel(x[rows]), kind[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % 8:
            continue
        with tempfile.TemporaryDirectory() as folder:
            kept = None
            if rank == 0:
                write(folder, sorter, optimizer, step + 1)
                kept = ray.train.Checkpoint.from_directory(folder)
            ray.train.report({"step": step, "loss": loss.item()}, checkpoint=kept)


if __name__ == "__main__":
    TorchTrainer(
        sort_glass,
        train_loop_config={"steps": 72, "batch": 18},
        scaling_config=ray.train.ScalingConfig(num_workers=2),
        run_config=ray.train.RunConfig(
            name="glass", failure_config=ray.train.FailureConfig(max_failures=3)
        ),
    ).fit()
