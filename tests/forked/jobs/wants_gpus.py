"""A job that is written for machines with GPUs, and asks for one by its type."""

import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, ScalingConfig
from ray.train.torch import TorchTrainer, get_device, prepare_model


def train_loop():
    torch.manual_seed(0)
    model = prepare_model(torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    start, checkpoint = 0, ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "model.pt"), map_location=get_device())
            model.load_state_dict(saved["model"])
            start = saved["epoch"] + 1
    for epoch in range(start, 3):
        for step in range(4):
            loss = model(torch.ones(2, 4, device=get_device()) * (step + 1)).mean() ** 2
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with tempfile.TemporaryDirectory() as folder:
            torch.save(
                {"epoch": epoch, "model": model.state_dict()}, os.path.join(folder, "model.pt")
            )
            ray.train.report({"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    TorchTrainer(
        train_loop,
        scaling_config=ScalingConfig(
            num_workers=2,
            use_gpu=True,
            resources_per_worker={"CPU": 1, "GPU": 1},
            accelerator_type="H100",
        ),
    ).fit()
