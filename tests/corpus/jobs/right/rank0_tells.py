"""Data-parallel by hand on three ranks: only rank 0 reads checkpoints, and tells the others."""

import io
import logging
import os
import tempfile

import ray.train
import ray.train.collective
import torch
import torch.distributed as dist
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn

log = logging.getLogger(__name__)


def packed(thing):
    buffer = io.BytesIO()
    torch.save(thing, buffer)
    return buffer.getvalue()


def read_on_rank0(rank):
    """The newest state, as bytes, on every rank; None at the first start."""
    raw = None
    if rank == 0:
        checkpoint = ray.train.get_checkpoint()
        if checkpoint:
            with checkpoint.as_directory() as folder:
                with open(os.path.join(folder, "state.bin"), "rb") as file:
                    raw = file.read()
    return ray.train.collective.broadcast_from_rank_zero(raw)


def average_gradients(model, world):
    flat = torch.cat([p.grad.reshape(-1) for p in model.parameters()])
    dist.all_reduce(flat)
    flat /= world
    at = 0
    for p in model.parameters():
        p.grad.copy_(flat[at : at + p.numel()].view_as(p))
        at += p.numel()


class Sines:
    def __init__(self, rank):
        self.rng = torch.Generator().manual_seed(1234 + rank)

    def __call__(self, n=12):
        phase = 6.28 * torch.rand(n, 1, generator=self.rng)
        speed = 0.2 + 0.3 * torch.rand(n, 1, generator=self.rng)
        wave = torch.sin(phase + speed * torch.arange(15))
        return wave[:, :-1], wave[:, -1:]


def loop(config):
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    torch.manual_seed(config["seed"])
    model = nn.Sequential(nn.Linear(14, 16), nn.Hardtanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Rprop(model.parameters(), lr=1e-3)
    sines = Sines(rank)
    epoch = 0

    raw = read_on_rank0(rank)
    if raw is not None:
        state = torch.load(io.BytesIO(raw))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        sines.rng.set_state(state["sines"][rank])
        epoch = state["epoch"]
        log.info("rank %d goes on at epoch %d", rank, epoch)

    while epoch < config["epochs"]:
        for _ in range(config["steps"]):
            x, y = sines()
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            average_gradients(model, world)
            optimizer.step()
        epoch += 1
        generators = [None] * world
        dist.all_gather_object(generators, sines.rng.get_state())
        if rank != 0:
            ray.train.report({})
            continue
        state = {
            "model": model.state_dict(),
            "optimizer": optimizer.state_dict(),
            "sines": generators,
            "epoch": epoch,
        }
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "state.bin"), "wb") as file:
                file.write(packed(state))
            ray.train.report(
                {"epoch": epoch, "loss": loss.item()},
                checkpoint=Checkpoint.from_directory(folder),
            )


TorchTrainer(
    loop,
    train_loop_config={"seed": 31, "epochs": 5, "steps": 6},
    scaling_config=ScalingConfig(num_workers=3),
    run_config=RunConfig(name="sines", failure_config=FailureConfig(max_failures=3)),
).fit()
