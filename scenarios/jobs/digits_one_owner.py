"""Train a linear model on handwritten digits, once at a time, by one of several guards.

`--guard lock`: a second start ends at a lock. `lock-in-loop`: rank 0 takes the lock, and a second
run fails. `newest`: the start that came last owns the folder, and an earlier one fails at its next
save. `none`: whoever is started trains, and writes. It runs by itself (`python digits_one_owner.py`).
"""

import argparse
import fcntl
import os
import socket
import sys
import tempfile
import time

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits


def locked(path):
    """The lock's file, open as long as this process lives; None if another process has it."""
    file = open(path, "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None
    return file


def named(name):
    """A lock by a name of this machine, which leaves no file; None if another process has it."""
    name_taken = socket.socket(socket.AF_UNIX)
    try:
        name_taken.bind(f"\0{name} in {os.getcwd()}")
    except OSError:
        return None
    return name_taken


class Owner:
    """The claim of one start of the script, by its time, to the run's folder."""

    def __init__(self, guard, folder, me):
        os.makedirs(folder, exist_ok=True)
        self.guard, self.path, self.me = guard, os.path.join(folder, "owner"), me
        self.lock = None
        if guard == "lock-in-loop":
            self.lock = locked(self.path)
            if self.lock is None:
                raise RuntimeError("another run of this name trains")
        self.check()
        if guard == "newest":
            with open(self.path, "w") as file:
                file.write(str(me))

    def check(self):
        """Raise if a later start has taken the folder over."""
        if self.guard == "newest" and os.path.exists(self.path):
            with open(self.path) as file:
                if int(file.read()) > self.me:
                    raise RuntimeError("a later start of this script has taken over")


def train_loop(config):
    torch.manual_seed(0)
    context = ray.train.get_context()
    owner = None
    if context.get_world_rank() == 0:
        folder = context.get_storage().experiment_fs_path
        owner = Owner(config["guard"], folder, config["started_ns"])
    torch.distributed.barrier()  # nobody trains before the claim is made
    digits = load_digits()
    images = torch.tensor(digits.images / 16.0, dtype=torch.float32).flatten(1)
    labels = torch.tensor(digits.target)
    model = ray.train.torch.prepare_model(torch.nn.Linear(64, 10))
    inner = getattr(model, "module", model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    start, checkpoint = 0, ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "state.pt"))
        inner.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["epoch"] + 1
    rank, world = context.get_world_rank(), context.get_world_size()
    for epoch in range(start, config["epochs"]):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        for batch in order[: 64 * 12].split(64):
            mine = batch[rank::world]
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(images[mine]), labels[mine])
            loss.backward()
            optimizer.step()
        if owner:
            owner.check()
        with tempfile.TemporaryDirectory() as folder:
            state = {
                "epoch": epoch,
                "model": inner.state_dict(),
                "optimizer": optimizer.state_dict(),
            }
            if rank == 0:
                torch.save(state, os.path.join(folder, "state.pt"))
            handed = Checkpoint.from_directory(folder) if rank == 0 else None
            ray.train.report({"loss": loss.item()}, checkpoint=handed)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--guard", choices=("none", "lock", "lock-in-loop", "newest"), default="lock"
    )
    parser.add_argument("--storage")
    args = parser.parse_args()
    lock = named("digits_one_owner") if args.guard == "lock" else "none"
    if lock is None:
        sys.exit("another start of this script trains")
    TorchTrainer(
        train_loop,
        train_loop_config={
            "epochs": args.epochs,
            "guard": args.guard,
            "started_ns": time.time_ns(),
        },
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(
            name="digits",
            storage_path=args.storage,
            failure_config=FailureConfig(max_failures=1),
        ),
    ).fit()


if __name__ == "__main__":
    main()
