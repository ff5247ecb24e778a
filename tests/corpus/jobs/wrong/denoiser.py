"""A convolutional denoiser trained by steps, saved every few of them; no epochs."""

import argparse
import os
import tempfile

import numpy as np
import ray.train
import torch
from ray.train.torch import TorchTrainer
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inp = nn.Conv1d(1, width, 5, padding=2, padding_mode="circular")
        self.mid = nn.Conv1d(width, width, 5, padding=2, groups=2, padding_mode="circular")
        self.out = nn.Conv1d(width, 1, 5, padding=2, padding_mode="circular")

    def forward(self, noisy):
        h = torch.relu(self.inp(noisy))
        h = h + torch.relu(self.mid(h))
        return noisy - self.out(h)


class Signals(torch.utils.data.IterableDataset):
    """An endless stream of batches; begins wherever it is told to."""

    def __init__(self, batch, start=0):
        self.batch, self.start = batch, start

    def __iter__(self):
        number = self.start
        t = np.linspace(0, 2 * np.pi, 32, endpoint=False)
        while True:
            rng = np.random.default_rng((55, number))
            waves = rng.integers(1, 5, size=(self.batch, 1)) * t + rng.uniform(
                0, 6, (self.batch, 1)
            )
            clean = np.sign(np.sin(waves))
            noisy = clean + rng.normal(scale=0.4, size=clean.shape)
            yield torch.tensor(np.stack([noisy, clean]), dtype=torch.float32).unsqueeze(2)
            number += 1


def save_state(model, optimizer, next_step):
    directory = tempfile.mkdtemp(prefix="denoiser-")
    state = {"model": model.state_dict(), "opt": optimizer.state_dict(), "next_step": next_step}
    torch.save(state, os.path.join(directory, "state.pt"))
    return ray.train.Checkpoint.from_directory(directory)


def train_denoiser(cfg):
    torch.manual_seed(2)
    model = Denoiser(cfg["width"])
    optimizer = torch.optim.Adagrad(model.parameters(), lr=cfg["lr"])
    step = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as directory:
            state = torch.load(os.path.join(directory, "state.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["opt"])
        step = state["next_step"]

    stream = torch.utils.data.DataLoader(Signals(cfg["batch"], step), batch_size=None)
    for noisy, clean in stream:
        loss = (model(noisy) - clean).abs().mean()
        optimizer.zero_grad()
        loss.backward()
        metrics = {"l1": loss.item(), "step": step}
        if step % cfg["save_every"] == cfg["save_every"] - 1:
            ray.train.report(metrics, checkpoint=save_state(model, optimizer, step + 1))
        optimizer.step()
        step += 1
        if step == cfg["steps"]:
            break
    torch.save(model.state_dict(), "denoiser.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=42)
    parser.add_argument("--save-every", type=int, default=6)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--width", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.03)
    TorchTrainer(
        train_denoiser,
        train_loop_config=vars(parser.parse_args()),
        run_config=ray.train.RunConfig(
            failure_config=ray.train.FailureConfig(max_failures=6),
            checkpoint_config=ray.train.CheckpointConfig(num_to_keep=2),
        ),
    ).fit()
