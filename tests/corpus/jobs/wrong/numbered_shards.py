"""Digits, classified by two ranks that keep numbered folders of distributed checkpoints."""

import os
import re
import sys
from pathlib import Path

import ray.train
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from sklearn.datasets import load_digits
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

STEPS, EVERY, BATCH = 20, 4, 48


def newest(root):
    steps = [
        int(found[1]) for name in os.listdir(root) if (found := re.fullmatch(r"step-(\d+)", name))
    ]
    return max(steps, default=None)


def batch_of(step, rank):
    images, labels = load_digits(return_X_y=True)
    draws = torch.Generator().manual_seed(50_000 + 17 * step + rank)
    rows = torch.randint(len(labels), (BATCH,), generator=draws).numpy()
    return torch.tensor(images[rows], dtype=torch.float32) / 16, torch.tensor(labels[rows])


def train_digits(config):
    root = Path(config["root"])
    root.mkdir(parents=True, exist_ok=True)
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(14)
    model = prepare_model(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    step = 0
    if (last := newest(root)) is not None:
        weights, moments = get_state_dict(model, optimizer)
        dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=root / f"step-{last}")
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
        step = last

    while step < STEPS:
        images, labels = batch_of(step, rank)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % EVERY == 0:
            weights, moments = get_state_dict(model, optimizer)
            dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=root / f"step-{step}")
            ray.train.report({"loss": loss.item(), "step": step})


if __name__ == "__main__":
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.abspath("numbered")
    TorchTrainer(
        train_digits,
        train_loop_config={"root": root},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="digits", failure_config=FailureConfig(max_failures=3)),
    ).fit()
