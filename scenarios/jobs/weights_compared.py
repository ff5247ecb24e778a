"""Two ranks train one model; before every save they compare their weights, and stop if they differ.

Megatron-LM has the same as `--check-weight-hash-across-dp-replicas-interval`.
"""

import argparse
import os
import tempfile

import ray.train
import torch
import torch.distributed as dist
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from sklearn.datasets import load_digits


def compare(model):
    """Stop where the weights of any two ranks are not the same."""
    weights = torch.cat([weight.detach().reshape(-1) for weight in model.parameters()])
    of_all = [torch.empty_like(weights) for _ in range(dist.get_world_size())]
    dist.all_gather(of_all, weights)
    if not all(torch.equal(weights, other) for other in of_all):
        raise RuntimeError("the weights of the ranks differ: nothing is saved")


def train_loop(config):
    rank, ranks = dist.get_rank(), dist.get_world_size()
    x, y = (torch.tensor(part) for part in load_digits(return_X_y=True))
    x, y = x[:512].float()[rank::ranks] / 16, y[:512][rank::ranks]
    torch.manual_seed(7)
    model = prepare_model(
        torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    first = 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"))
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
    for epoch in range(first, config["epochs"]):
        draws = torch.Generator().manual_seed(epoch)
        for rows in torch.randperm(len(x), generator=draws).split(64):
            loss = torch.nn.functional.cross_entropy(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if config["compare"]:
            compare(model)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if rank == 0:
                state = {
                    "model": model.module.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "epoch": epoch,
                }
                torch.save(state, os.path.join(folder, "state.pt"))
                checkpoint = Checkpoint.from_directory(folder)
            ray.train.report({"loss": loss.item()}, checkpoint=checkpoint)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--compare", action="store_true")
    TorchTrainer(
        train_loop,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=2)),
    ).fit()
