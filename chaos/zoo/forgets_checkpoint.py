"""Saves everything, and never asks for what it saved."""

import tempfile
from pathlib import Path
from typing import Any

import ray.train
import ray.train.torch
import torch
from torch.nn.functional import cross_entropy

import chaos
from chaos.zoo.digits import MovingAverage, network, optimizer_of, training_batches, validate


def train_loop(config: dict[str, Any]) -> None:
    """Train on one rank."""
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(config["seed"])
    model = ray.train.torch.prepare_model(network())
    torch.manual_seed(1000 * config["seed"] + rank)  # ranks start equal and drop out differently
    optimizer = optimizer_of(model, config)
    steps = config["epochs"] * config["steps_per_epoch"]
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=steps)
    average = MovingAverage(model.module)
    chaos.declare("ema", average)
    batches = training_batches(config)

    global_step = 0
    for epoch in range(config["epochs"]):
        batches.sampler.set_epoch(epoch)
        total = 0.0
        for pixels, labels in batches:
            optimizer.zero_grad()
            loss = cross_entropy(model(pixels), labels)
            loss.backward()
            optimizer.step()
            schedule.step()
            average.update(model.module)
            global_step += 1
            total += loss.item()
        metrics = {
            "epoch": epoch,
            "global_step": global_step,
            "loss": total / len(batches),
            "validation_loss": validate(average),
        }
        with tempfile.TemporaryDirectory() as directory:
            torch.save(torch.get_rng_state(), Path(directory, f"random-{rank}.pt"))
            if rank == 0:
                state = {
                    "epoch": epoch,
                    "global_step": global_step,
                    "model": model.module.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "schedule": schedule.state_dict(),
                    "average": average.state_dict(),
                }
                torch.save(state, Path(directory, "state.pt"))
            ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(directory))
