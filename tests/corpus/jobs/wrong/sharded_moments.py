"""Adam with its moments divided among three workers (as ZeRO does, by hand).

Each worker updates the parameters it owns and broadcasts them to the others.
"""

import os
import tempfile

import ray.train
import torch
import torch.distributed as dist
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_diabetes


class ShardedAdam:
    def __init__(self, parameters, rank, world, **settings):
        self.parameters = list(parameters)
        self.world = world
        self.inner = torch.optim.Adam(self.parameters[rank::world], **settings)

    def step(self):
        for p in self.parameters:
            dist.all_reduce(p.grad)
            p.grad /= self.world
        self.inner.step()
        for i, p in enumerate(self.parameters):
            dist.broadcast(p.data, src=i % self.world)
            p.grad = None


def build():
    torch.manual_seed(33)
    return torch.nn.Sequential(
        torch.nn.Linear(10, 32),
        torch.nn.LayerNorm(32),
        torch.nn.Mish(),
        torch.nn.Linear(32, 32),
        torch.nn.Mish(),
        torch.nn.Linear(32, 1),
    )


def run(config):
    me = ray.train.get_context().get_world_rank()
    world = ray.train.get_context().get_world_size()
    table, target = load_diabetes(return_X_y=True)
    x = torch.tensor(table * 20, dtype=torch.float32)[:432]
    y = torch.tensor(target / 100 - 1.5, dtype=torch.float32)[:432, None]
    model = build()
    optimizer = ShardedAdam(model.parameters(), me, world, lr=config["lr"], betas=(0.9, 0.98))

    epoch = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            shared = torch.load(os.path.join(folder, "model.pt"))
            model.load_state_dict(shared["model"])
            epoch = shared["epoch"] + 1
            shard = os.path.join(folder, f"adam_{me}_of_{world}.pt")
            if os.path.exists(shard):
                optimizer.inner.load_state_dict(torch.load(shard))

    for epoch in range(epoch, config["epochs"]):
        order = torch.randperm(432, generator=torch.Generator().manual_seed(77 + epoch))
        summed = torch.zeros(1)
        for chunk in order.chunk(6):
            own = chunk[me::world]
            loss = torch.nn.functional.smooth_l1_loss(model(x[own]), y[own])
            loss.backward()
            optimizer.step()
            summed += loss.detach()
        dist.all_reduce(summed)

        folder = tempfile.mkdtemp()
        torch.save(optimizer.inner.state_dict(), os.path.join(folder, f"adam_{me}_of_{world}.pt"))
        checkpoint = None
        if me == 0:
            torch.save(
                {"model": model.state_dict(), "epoch": epoch}, os.path.join(folder, "model.pt")
            )
            checkpoint = Checkpoint.from_directory(folder)
        ray.train.report({"loss": summed.item() / 6 / world, "epoch": epoch}, checkpoint=checkpoint)


if __name__ == "__main__":
    TorchTrainer(
        run,
        train_loop_config={"lr": 5e-3, "epochs": 6},
        scaling_config=ScalingConfig(num_workers=3),
        run_config=RunConfig(
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    ).fit()
