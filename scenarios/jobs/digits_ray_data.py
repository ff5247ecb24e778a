"""Train on handwritten digits that Ray Data streams to the workers, with Ray Train.

Every epoch streams the data set from its beginning. A restart begins the epoch again that was not
committed, so samples of thrown-away steps are trained at least once: Ray Data's contract.
"""

import argparse
import os
import tempfile

import numpy as np
import ray.data
import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits
from torch import nn


def load_data():
    digits = load_digits()
    rows = {
        "image": (digits.images / 16.0).astype(np.float32)[:1280],
        "label": digits.target[:1280],
    }
    items = [{name: column[i] for name, column in rows.items()} for i in range(1280)]
    return ray.data.from_items(items, override_num_blocks=8)


def scaled(batch):
    return {"image": batch["image"] * 2.0 - 1.0, "label": batch["label"]}


def train_loop(config):
    torch.manual_seed(config["seed"])
    model = ray.train.torch.prepare_model(
        nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    )
    plain = getattr(model, "module", model)
    optimizer = torch.optim.Adam(model.parameters(), lr=config["lr"])
    shard = ray.train.get_dataset_shard("train")

    start = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            saved = torch.load(os.path.join(directory, "checkpoint.pt"))
        plain.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        start = saved["epoch"] + 1

    for epoch in range(start, config["epochs"]):
        total, steps = 0.0, 0
        for batch in shard.iter_torch_batches(batch_size=config["batch_size"], drop_last=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch["image"].float()), batch["label"])
            loss.backward()
            optimizer.step()
            total += loss.item()
            steps += 1
        with tempfile.TemporaryDirectory() as directory:
            checkpoint = None
            if ray.train.get_context().get_world_rank() == 0:
                saved = {
                    "epoch": epoch,
                    "model": plain.state_dict(),
                    "optimizer": optimizer.state_dict(),
                }
                torch.save(saved, os.path.join(directory, "checkpoint.pt"))
                checkpoint = Checkpoint.from_directory(directory)
            metrics = {"epoch": epoch, "loss": total / steps, "steps": steps}
            ray.train.report(metrics, checkpoint=checkpoint)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch-size", type=int, default=64, help="per worker")
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()

    # Blocks in the same order in every epoch, so that the job repeats itself.
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    trainer = TorchTrainer(
        train_loop,
        train_loop_config=vars(args),
        datasets={"train": load_data().map_batches(scaled)},
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(
            name="digits-ray-data",
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    result = trainer.fit()
    print(f"finished: {result.metrics}")


if __name__ == "__main__":
    main()
