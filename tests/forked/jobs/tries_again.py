"""A job without retries of Ray's: its script calls `fit()` again when training fails, or ends."""

import argparse
import tempfile
from pathlib import Path

import ray.train
import torch
from ray.train import Checkpoint, RunConfig, ScalingConfig, TrainingFailedError
from ray.train.torch import TorchTrainer

NAME = "tries-again"


def train_loop() -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    first = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder) / "state.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
    for epoch in range(first, 4):
        for step in range(3):
            rows = torch.randn(4, 3, generator=torch.Generator().manual_seed(10 * epoch + step))
            loss = (model(rows) - rows.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        with tempfile.TemporaryDirectory() as folder:
            torch.save(state, Path(folder) / "state.pt")
            ray.train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))


def trainer(config: RunConfig) -> TorchTrainer:
    return TorchTrainer(train_loop, scaling_config=ScalingConfig(num_workers=1), run_config=config)


parser = argparse.ArgumentParser()
parser.add_argument("--keeps", choices=("trainer", "config", "name", "nothing"), required=True)
parser.add_argument("--once", action="store_true")
args = parser.parse_args()
keeps = args.keeps
config = RunConfig(name=NAME)
same = trainer(config)
for number in range(3):
    name = NAME if keeps == "name" else f"{NAME}-{number}"
    again = trainer(config if keeps == "config" else RunConfig(name=name))
    try:
        (same if keeps == "trainer" else again).fit()
        break
    except TrainingFailedError as error:
        if args.once:
            raise
        print("once more, after", type(error).__name__)
