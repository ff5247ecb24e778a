"""A job that validates its model before each report."""

import tempfile
from pathlib import Path

import ray.train
import torch
from ray.train import Checkpoint, ScalingConfig
from ray.train.torch import TorchTrainer


def train() -> None:
    """Train three epochs of four steps, each followed by a validation."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Dropout(0.2), torch.nn.Linear(3, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    first, checkpoint = 0, ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder) / "state.pt")
        model.load_state_dict(state["model"])
        torch.set_rng_state(state["rng"])
        first = state["epoch"] + 1
    for epoch in range(first, 3):
        model.train()
        for step in range(4):
            loss = (model(torch.ones(2, 4) * (epoch + step)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            held_out = (model(torch.ones(5, 4)) ** 2).mean().item()
        with tempfile.TemporaryDirectory() as folder:
            state = {"model": model.state_dict(), "rng": torch.get_rng_state(), "epoch": epoch}
            torch.save(state, Path(folder) / "state.pt")
            ray.train.report({"held_out": held_out}, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    failures = ray.train.FailureConfig(max_failures=1)
    TorchTrainer(
        train,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=ray.train.RunConfig(failure_config=failures),
    ).fit()
