"""A small attention over fixed keys, whose temperature is cooled a little at every step."""

import json
import tempfile
from pathlib import Path

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn

EPOCHS, BATCHES, BATCH = 12, 3, 32


def batch_of(epoch, batch):
    draws = torch.Generator().manual_seed(97 * epoch + batch)
    x = torch.randn(BATCH, 6, generator=draws)
    return x, (x[:, :3].argmax(dim=1))


def train_loop():
    torch.manual_seed(8)
    network = nn.Linear(6, 3)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.05)
    begun, temperature = 0, 1.0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            network.load_state_dict(torch.load(Path(folder, "network.pt"), weights_only=True))
            notes = json.loads(Path(folder, "notes.json").read_text())
        begun, temperature = notes["epoch"], int(notes["temperature"] * 100) / 100

    for epoch in range(begun, EPOCHS):
        for batch in range(BATCHES):
            x, label = batch_of(epoch, batch)
            loss = nn.functional.cross_entropy(network(x) / temperature, label)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            temperature *= 0.998
        with tempfile.TemporaryDirectory() as folder:
            torch.save(network.state_dict(), Path(folder, "network.pt"))
            notes = {"epoch": epoch + 1, "temperature": temperature}
            Path(folder, "notes.json").write_text(json.dumps(notes))
            ray.train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    TorchTrainer(
        train_loop,
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="cooled", failure_config=FailureConfig(max_failures=2)),
    ).fit()
