"""A right job that puts its checkpoints where it likes; how it does so is its argument."""

import argparse
import os
import shutil
import tempfile

import ray.train
import torch
from ray.train import (
    Checkpoint,
    CheckpointConfig,
    CheckpointUploadMode,
    FailureConfig,
    RunConfig,
    ScalingConfig,
)
from ray.train.torch import TorchTrainer

STEPS = 4


def storage():
    return ray.train.get_context().get_storage().experiment_fs_path


def uploaded_by_hand(checkpoint, name):
    folder = os.path.join(storage(), "by-hand", name.removeprefix("checkpoint_"))
    shutil.copytree(checkpoint.path, folder, dirs_exist_ok=True)
    return Checkpoint.from_directory(folder)


def report(metrics, state, *, how, epoch):
    if how == "in_place":
        folder = os.path.join(storage(), "own", f"epoch_{epoch:03d}", "checkpoint")
        os.makedirs(folder, exist_ok=True)
    else:
        folder = tempfile.mkdtemp()
    torch.save(state, os.path.join(folder, "model.pt"))
    options = {
        "named": {"checkpoint_dir_name": f"epoch_{epoch:03d}"},
        "in_place": {"checkpoint_upload_mode": CheckpointUploadMode.NO_UPLOAD},
        "by_hand": {"checkpoint_upload_fn": uploaded_by_hand},
        "later": {"checkpoint_upload_mode": CheckpointUploadMode.ASYNC},
    }
    ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder), **options[how])


def train_loop(config):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    rank = ray.train.get_context().get_world_rank()
    log, losses = os.path.join(storage(), "log.pt"), []
    if config["log"] and rank == 0 and os.path.exists(log):
        losses = torch.load(log)
    start, checkpoint = 0, ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "model.pt"))
        model.load_state_dict(saved["model"])
        start = saved["epoch"] + 1
    for epoch in range(start, config["epochs"]):
        for step in range(STEPS):
            loss = model(torch.ones(2, 4) * (step + 1)).mean() ** 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if config["log"] and rank == 0:  # of all that it has seen, whatever came back
                losses.append(loss.item())
                torch.save(losses, log + ".new")
                os.replace(log + ".new", log)
        state = {"epoch": epoch, "model": model.state_dict()}
        report({"loss": loss.item()}, state, how=config["how"], epoch=epoch)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--how", choices=["named", "in_place", "by_hand", "later"])
    parser.add_argument("--log", action="store_true", help="rank 0 keeps its losses in a file")
    args = parser.parse_args()
    TorchTrainer(
        train_loop,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(
            name="named",
            checkpoint_config=CheckpointConfig(num_to_keep=2),
            failure_config=FailureConfig(max_failures=3),
        ),
    ).fit()


if __name__ == "__main__":
    main()
