"""A job whose schedule is not restored. It dies after the steps in KILL_AT, and begins anew once.

Its first rank dies, and what is left of KILL_AT is in the file of that name; once that is empty the
job takes no notice of its checkpoint.
"""

import os
import signal
import tempfile
import time
from pathlib import Path

import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

EPOCHS, STEPS = 4, 8


def train_loop(config):
    left = Path(config["storage"]) / "KILL_AT"
    torch.manual_seed(0)
    data = torch.randn(EPOCHS * STEPS, 16, 4)
    model = ray.train.torch.prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.8**epoch)
    begun, checkpoint = 0, ray.train.get_checkpoint()
    if checkpoint and not (left.exists() and not left.read_text()):
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder, "state.pt"), weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        begun = state["epoch"] + 1
    for epoch in range(begun, EPOCHS):
        for step in range(epoch * STEPS, (epoch + 1) * STEPS):
            optimizer.zero_grad()
            model(data[step]).square().mean().backward()
            optimizer.step()
            die_if_due(left, step + 1)
        schedule.step()
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if ray.train.get_context().get_world_rank() == 0:
                parts = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
                torch.save(parts | {"epoch": epoch}, Path(folder, "state.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            ray.train.report({"epoch": epoch}, checkpoint=checkpoint)
        if left.exists() and left.read_text():
            time.sleep(1)  # Ray sees a report some time after it was made


def die_if_due(left, step):
    due = left.read_text().split() if left.exists() else []
    if ray.train.get_context().get_world_rank() == 0 and due and int(due[0]) == step:
        left.write_text(" ".join(due[1:]))
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    storage = str(Path(os.environ["STORAGE"]).absolute())
    TorchTrainer(
        train_loop,
        train_loop_config={"storage": storage},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(storage_path=storage, failure_config=FailureConfig(max_failures=3)),
    ).fit()
