"""Tunes low-rank adapters of a frozen network on instructions, with checkpoints by step."""

import logging
import math
import os
import tempfile

import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

logger = logging.getLogger(__name__)
WORDS, LENGTH = 24, 8


class LoraLinear(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(rank, base.in_features) / math.sqrt(rank))
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.down.T @ self.up.T


def policy():
    embed = nn.Embedding(WORDS, 16).requires_grad_(False)
    head = nn.Linear(16 * LENGTH, WORDS)
    return nn.Sequential(embed, nn.Flatten(), LoraLinear(head))


def instructions(count=144):
    draws = torch.Generator().manual_seed(12)
    prompts = torch.randint(WORDS, (count, LENGTH), generator=draws)
    return TensorDataset(prompts, prompts[:, :3].sum(1) % WORDS)


def adapters(model):
    return {name: value for name, value in model.state_dict().items() if ".base" not in name}


def main(args):
    torch.manual_seed(args["seed"])
    model = ray.train.torch.prepare_model(policy())
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=args["learning_rate"])
    train_loader = ray.train.torch.prepare_data_loader(
        DataLoader(instructions(), batch_size=8, shuffle=True)
    )
    steps_per_epoch = len(train_loader)
    max_steps = steps_per_epoch * args["num_epochs"]
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: 1 - n / (max_steps + 1))

    completed_steps, starting_epoch, resume_step = 0, 0, None
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "adapters.pt"))
        model.module.load_state_dict(state["adapters"], strict=False)
        optimizer.load_state_dict(state["optimizer"])
        schedule.load_state_dict(state["schedule"])
        completed_steps = state["completed_steps"]
        starting_epoch = completed_steps // steps_per_epoch
        resume_step = completed_steps % steps_per_epoch
        logger.info("resumed at epoch %d, step %d", starting_epoch, resume_step)

    for epoch in range(starting_epoch, args["num_epochs"]):
        train_loader.sampler.set_epoch(epoch)
        model.train()
        total = 0.0
        for step, (prompts, targets) in enumerate(train_loader):
            if resume_step is not None and step < resume_step:
                continue
            loss = nn.functional.cross_entropy(model(prompts), targets)
            loss.backward()
            nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            total += loss.item()
            completed_steps += 1
            if completed_steps % args["checkpointing_steps"]:
                continue
            with tempfile.TemporaryDirectory() as folder:
                if ray.train.get_context().get_world_rank() == 0:
                    state = {
                        "adapters": adapters(model.module),
                        "optimizer": optimizer.state_dict(),
                        "schedule": schedule.state_dict(),
                        "completed_steps": completed_steps,
                    }
                    torch.save(state, os.path.join(folder, "adapters.pt"))
                ray.train.report(
                    {"loss": loss.item(), "lr": schedule.get_last_lr()[0], "step": completed_steps},
                    checkpoint=Checkpoint.from_directory(folder),
                )
        logger.info("epoch %d: %.3f", epoch, total / steps_per_epoch)


if __name__ == "__main__":
    ray.train.torch.TorchTrainer(
        main,
        train_loop_config={
            "seed": 6,
            "learning_rate": 0.02,
            "num_epochs": 4,
            "checkpointing_steps": 6,
        },
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="instruct", failure_config=FailureConfig(max_failures=3)),
    ).fit()
