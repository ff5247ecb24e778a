"""Delays of trams, line by line from a stream that two processes read, and a small network."""

import math
import random
import tempfile
from pathlib import Path

import torch
from datasets import IterableDataset
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig, get_checkpoint, report
from ray.train.torch import TorchTrainer
from torchdata.stateful_dataloader import StatefulDataLoader

LINES = ["1", "4", "7", "9", "12", "15"]
STOPS, BATCH, EPOCHS = 24, 6, 3


def stops(lines):
    for line in lines:
        draw = random.Random(f"line {line}")
        late = draw.gauss(1.0, 0.5)
        for stop in range(STOPS):
            rain, riders = draw.random(), draw.expovariate(1 / 20)
            late = 0.8 * late + 0.9 * rain + 0.03 * riders + draw.gauss(0, 0.2)
            yield {"x": [rain, riders / 20, math.sin(stop / 4), int(line) / 10], "late": late}


def loader_of_stops():
    stream = IterableDataset.from_generator(stops, gen_kwargs={"lines": LINES})
    return StatefulDataLoader(
        stream.with_format("torch"), batch_size=BATCH, num_workers=2, persistent_workers=True
    )


def fit_delays(config):
    torch.manual_seed(63)
    model = torch.nn.Sequential(torch.nn.Linear(4, 20), torch.nn.SiLU(), torch.nn.Linear(20, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.005)
    loader = loader_of_stops()
    start, seen = 0, 0
    if (last := get_checkpoint()) is not None:
        with last.as_directory() as folder:
            state = torch.load(Path(folder) / "trams.pt", weights_only=False)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])
        start, seen = state["epoch"], state["seen"]

    for epoch in range(start, EPOCHS):
        for rows in loader:
            loss = (model(rows["x"]).squeeze(1) - rows["late"]).pow(2).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            seen += 1
            if seen % 7:
                continue
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            state |= {"loader": loader.state_dict(), "epoch": epoch, "seen": seen}
            with tempfile.TemporaryDirectory() as folder:
                torch.save(state, Path(folder) / "trams.pt")
                report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    TorchTrainer(
        fit_delays,
        train_loop_config={},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="trams", failure_config=FailureConfig(max_failures=3)),
    ).fit()
