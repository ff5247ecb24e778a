"""Two epochs by two ranks, and one thing that a script of somebody's own does besides."""

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import ray
import ray.data
import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

EPOCHS = 2
SAVES_OUTSIDE = ("save-outside", "notice-view", "hold-log")


@ray.remote
def task() -> int:
    return 1


def train_loop(config: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    checkpoint, start = ray.train.get_checkpoint(), 0
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder) / "model.pt")
        model.load_state_dict(saved["model"])
        start = saved["epoch"] + 1
    if config["does"] == "task-in-worker":
        ray.get(task.remote())
    if config["does"] == "cuda":
        model.to("cuda:0")
    for epoch in range(start, EPOCHS):
        loss = model(torch.ones(4, 2)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        with tempfile.TemporaryDirectory() as folder:
            torch.save({"model": model.state_dict(), "epoch": epoch}, Path(folder) / "model.pt")
            ray.train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))
        if config["does"] == "raise-once" and checkpoint is None:
            raise RuntimeError("on purpose")
        if config["does"] == "notice-view" and os.path.ismount(config["out"]):
            raise RuntimeError("a mount point")
        if config["does"] in SAVES_OUTSIDE and ray.train.get_context().get_world_rank() == 0:
            torch.save(epoch, Path(config["out"]) / "model.pt")


def trainer(does: str, out: str, *, begin_with: Checkpoint | None = None) -> TorchTrainer:
    workers = 0 if does == "local-mode" else 2
    resources = {"CPU": 7, "slot": 1} if does == "much" else None
    storage = "s3://no-bucket-of-ours/runs" if does == "bucket" else None
    return TorchTrainer(
        train_loop,
        train_loop_config={"does": does, "out": out, "begin_with": begin_with},
        scaling_config=ScalingConfig(num_workers=workers, resources_per_worker=resources),
        run_config=RunConfig(storage_path=storage, failure_config=FailureConfig(max_failures=1)),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--does", default="nothing")
    parser.add_argument("--out", default="")
    args = parser.parse_args()
    if args.does == "task":
        ray.get(task.remote())
    if args.does == "data":
        ray.data.from_items([1])
    if args.does == "hold-log":
        log = Path(args.out, "log.txt").open("w", encoding="utf-8")  # noqa: SIM115 - to the end
    result = trainer(args.does, args.out).fit()
    if args.does == "fit-twice":
        assert result.metrics is not None
        trainer(args.does, args.out, begin_with=result.checkpoint).fit()
    if args.does == "task-after":
        ray.get(task.remote())
    if args.does == "exit":
        sys.exit(3)
