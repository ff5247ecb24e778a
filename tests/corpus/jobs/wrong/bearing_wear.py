"""Wear of bearings by their vibration, on two ranks; one sharded folder per pass on a scratch disk."""

import os
import sys
from pathlib import Path

import ray.train
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

BEARINGS, SAMPLES, BATCH, PASSES = 48, 40, 8, 6


def vibrations(rank):
    draws = torch.Generator().manual_seed(600 + rank)
    wear = torch.rand(BEARINGS, 1, generator=draws)
    at = torch.linspace(0, 9, SAMPLES)
    hum = torch.sin(at * (2 + wear)) + wear * torch.sin(at * 17)
    return hum + 0.05 * torch.randn(BEARINGS, SAMPLES, generator=draws), wear


def keep(state, folder):
    """Write the folder, unless an earlier start of this job has done so."""
    is_done = [folder.is_dir()]
    dist.broadcast_object_list(is_done, src=0)
    if not is_done[0]:
        dcp.save(state, checkpoint_id=folder)


def train_wear(config):
    scratch = Path(config["scratch"])
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(33)
    model = prepare_model(nn.Sequential(nn.Linear(SAMPLES, 24), nn.Tanh(), nn.Linear(24, 1)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    first = 0
    if checkpoint := ray.train.get_checkpoint():
        weights, moments = get_state_dict(model, optimizer)
        state = {"model": weights, "optimizer": moments, "passes": 0}
        with checkpoint.as_directory() as folder:
            dcp.load(state, checkpoint_id=folder)
        set_state_dict(
            model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optimizer"]
        )
        first = state["passes"]

    signals, wear = vibrations(rank)
    for number in range(first, PASSES):
        order = torch.randperm(BEARINGS, generator=torch.Generator().manual_seed(number))
        total = 0.0
        for rows in order.split(BATCH):
            loss = nn.functional.smooth_l1_loss(model(signals[rows]), wear[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        weights, moments = get_state_dict(model, optimizer)
        folder = scratch / f"pass-{number}"
        keep({"model": weights, "optimizer": moments, "passes": number + 1}, folder)
        checkpoint = Checkpoint.from_directory(folder) if rank == 0 else None
        ray.train.report({"loss": total, "passes": number + 1}, checkpoint=checkpoint)


if __name__ == "__main__":
    TorchTrainer(
        train_wear,
        train_loop_config={
            "scratch": sys.argv[1] if len(sys.argv) > 1 else os.path.abspath("scratch")
        },
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="bearings",
            failure_config=FailureConfig(max_failures=4),
            checkpoint_config=CheckpointConfig(num_to_keep=3),
        ),
    ).fit()
