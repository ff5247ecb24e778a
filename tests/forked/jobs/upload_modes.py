"""A job that uploads as it is told: in `report()`, beside training, or by itself."""

import argparse
import tempfile
from pathlib import Path

import ray.train
import torch
from ray.train import Checkpoint, CheckpointUploadMode, ScalingConfig
from ray.train.torch import TorchTrainer


def save(state: dict[str, object], epoch: int, mode: CheckpointUploadMode) -> Checkpoint:
    """Write a file to a folder of its own, in storage where nobody else uploads it."""
    folder = Path(tempfile.mkdtemp())
    if mode is CheckpointUploadMode.NO_UPLOAD:
        storage = ray.train.get_context().get_storage()
        folder = Path(storage.experiment_fs_path) / f"checkpoint_{epoch}"
        folder.mkdir(parents=True, exist_ok=True)
    torch.save(state, folder / "state.pt")
    return Checkpoint.from_directory(folder)


def train(config: dict[str, str]) -> None:
    """Train three epochs of four steps."""
    mode = CheckpointUploadMode[config["mode"]]
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    first, checkpoint = 0, ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder) / "state.pt")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
    for epoch in range(first, 3):
        for step in range(4):
            loss = (model(torch.ones(2, 4) * (epoch + step)) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
        saved = save(state, epoch, mode)
        ray.train.report({"loss": loss.item()}, checkpoint=saved, checkpoint_upload_mode=mode)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", default="SYNC")
    config = vars(parser.parse_args())
    TorchTrainer(train, train_loop_config=config, scaling_config=ScalingConfig(num_workers=1)).fit()
