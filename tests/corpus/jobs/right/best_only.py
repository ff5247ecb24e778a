"""House prices by a small network; a checkpoint is written only when validation improved."""

import argparse
import json
import tempfile
from pathlib import Path

import ray.train as rt
import torch
import torch.distributed as dist
from ray.train.torch import TorchTrainer, prepare_model
from sklearn.datasets import make_regression
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def houses():
    x, y = make_regression(n_samples=420, n_features=9, noise=25.0, random_state=19)
    x = torch.tensor(x, dtype=torch.float32)
    y = torch.tensor(y / y.std(), dtype=torch.float32).unsqueeze(1)
    return TensorDataset(x[:300], y[:300]), TensorDataset(x[300:], y[300:])


def main_loop(config):
    rank = rt.get_context().get_world_rank()
    torch.manual_seed(0)
    train_set, valid_set = houses()
    sampler = DistributedSampler(train_set, seed=4)
    loader = DataLoader(train_set, batch_size=25, sampler=sampler, generator=torch.Generator())
    model = prepare_model(nn.Sequential(nn.Linear(9, 64), nn.ReLU(), nn.Linear(64, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=config["lr"], momentum=0.9)
    decay = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.99**step)
    best, next_epoch = float("inf"), 0

    checkpoint = rt.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            notes = json.loads(Path(folder, "best.json").read_text())
            tensors = torch.load(Path(folder, "best.pt"))
        best, next_epoch = notes["valid_loss"], notes["epoch"] + 1
        model.module.load_state_dict(tensors["model"])
        optimizer.load_state_dict(tensors["optimizer"])
        decay.load_state_dict(tensors["decay"])

    for epoch in range(next_epoch, config["epochs"]):
        sampler.set_epoch(epoch)
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            decay.step()
        with torch.no_grad():
            x, y = valid_set.tensors
            valid_loss = nn.functional.mse_loss(model.module(x), y)
        dist.broadcast(valid_loss, src=0)
        metrics = {"epoch": epoch, "loss": loss.item(), "valid_loss": valid_loss.item()}
        improved = valid_loss.item() < best
        best = min(best, valid_loss.item())
        if not improved:
            rt.report(metrics)
            continue
        with tempfile.TemporaryDirectory() as folder:
            if rank == 0:
                Path(folder, "best.json").write_text(json.dumps(metrics))
                torch.save(
                    {
                        "model": model.module.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "decay": decay.state_dict(),
                    },
                    Path(folder, "best.pt"),
                )
            rt.report(metrics, checkpoint=rt.Checkpoint.from_directory(folder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--lr", type=float, default=0.06)
    TorchTrainer(
        main_loop,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=rt.ScalingConfig(num_workers=2),
        run_config=rt.RunConfig(name="houses", failure_config=rt.FailureConfig(max_failures=5)),
    ).fit()
