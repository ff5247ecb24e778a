"""Train a small classifier on spirals as a callable of submitit's, which requeues its job.

python submitit_spirals.py FOLDER [--save-in loop|checkpoint|checkpoint-by-steps]: pickle it for the job
"""

import argparse
import os
import time
from pathlib import Path

import submitit
import torch
from submitit.core.job_environment import JobEnvironment
from submitit.core.utils import DelayedSubmission
from torch import nn

PATH = "spirals.pt"


def spirals(count=256, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    radius = torch.rand(count, generator=generator)
    angle = 6.0 * radius + labels * torch.pi
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    return points + 0.02 * torch.randn(count, 2, generator=generator), labels


class Training:
    """`save_in`: the loop saves after each epoch, or submitit's handler of the signal does."""

    def __call__(self, epochs, save_in, step_seconds):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05)
        self.epoch, self.done = 0, 0
        if os.path.exists(PATH):
            self.load()
        points, labels = spirals()
        for self.epoch in range(self.epoch, epochs):
            order = torch.randperm(256, generator=torch.Generator().manual_seed(self.epoch))
            for batch in order.split(32)[self.done :]:
                self.optimizer.zero_grad()
                loss = nn.functional.cross_entropy(self.model(points[batch]), labels[batch])
                loss.backward()
                self.optimizer.step()
                self.done += 1
                time.sleep(step_seconds)
            self.done = 0
            print(f"epoch {self.epoch}: loss {loss.item():.4f}")
            if save_in == "loop":
                self.save(self.epoch + 1)

    def save(self, epoch):
        state = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "epoch": epoch,
            "done": self.done,
        }
        torch.save(state, PATH + ".tmp")
        os.replace(PATH + ".tmp", PATH)

    def load(self):
        state = torch.load(PATH)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.epoch, self.done = state["epoch"], state["done"]

    def checkpoint(self, epochs, save_in, step_seconds):
        if save_in == "checkpoint-by-steps":
            # The signal may have come within `step()`: the optimizer knows whether that is done.
            steps = next(iter(self.optimizer.state.values()))["step"]
            self.done = int(steps) - 8 * self.epoch
        if save_in != "loop":
            self.save(self.epoch)
        return submitit.helpers.DelayedSubmission(Training(), epochs, save_in, step_seconds)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--save-in", choices=["loop", "checkpoint", "checkpoint-by-steps"])
    parser.set_defaults(save_in="loop")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="that a step takes more")
    args = parser.parse_args()
    folder = Path(args.folder)
    folder.mkdir(exist_ok=True)
    submission = DelayedSubmission(Training(), args.epochs, args.save_in, args.step_seconds)
    submission.set_timeout(60, 3)
    submission.dump(folder / f"{JobEnvironment().job_id}_submitted.pkl")


if __name__ == "__main__":
    main()
