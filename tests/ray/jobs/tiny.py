"""A job of a few seconds, whose defects are switched on by its arguments."""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time

import ray
import ray.train
import torch
from ray.train import Checkpoint, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer


def train_loop(config):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    start, checkpoint = 0, ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "model.pt"))
            model.load_state_dict(saved["model"])
            start = saved["epoch"] + 1
    if config["leave"] and start == 0:
        subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(90)"], start_new_session=True
        )
    for epoch in range(start, config["epochs"]):
        for step in range(4):
            if config["raise"] and epoch == 1:
                raise ValueError("the data of epoch 1 is missing")
            if config["segfault"] and epoch == 1 and start == 0:
                time.sleep(0.5)  # long enough for the controller to commit epoch 0
                os.kill(os.getpid(), signal.SIGSEGV)
            if config["eat"] and epoch == 1 and start == 0:
                time.sleep(0.5)
                eaten = []
                for _ in range(48):  # 3 GiB, unless it is ended before
                    eaten.append(bytearray(os.urandom(1) * (64 << 20)))
                    time.sleep(0.05)
            if config["loud"]:
                print("x" * 10_000, flush=True)
            if config["hang"] and start > 0 and step == 2:
                time.sleep(600)
            loss = model(torch.ones(2, 4) * (step + 1)).mean() ** 2
            if config["noise"]:
                loss = loss + time.perf_counter_ns() % 1000 / 1e6
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            torch.save(
                {"epoch": epoch, "model": model.state_dict()}, os.path.join(folder, "model.pt")
            )
            ray.train.report(
                {"loss": loss.item(), "clock": time.time()},
                checkpoint=Checkpoint.from_directory(folder),
            )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=3)
    for defect in ("raise", "hang", "noise", "leave", "local", "greedy", "segfault", "loud", "eat"):
        parser.add_argument(f"--{defect}", action="store_true")
    parser.add_argument("--storage")
    args = parser.parse_args()
    if args.local:
        ray.init(address="local")
    resources = {"CPU": 4} if args.greedy else None
    TorchTrainer(
        train_loop,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=1, resources_per_worker=resources),
        run_config=RunConfig(name="tiny", storage_path=args.storage),
    ).fit()


if __name__ == "__main__":
    main()
