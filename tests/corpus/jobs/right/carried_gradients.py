"""Gradient accumulation that runs on over the end of an epoch, with DDP's no_sync, on two workers."""

import contextlib
import os
import tempfile

import torch
from ray import train
from ray.train.torch import TorchTrainer
from sklearn.datasets import make_regression
from torch.nn.parallel import DistributedDataParallel

EPOCHS, ACCUMULATE = 6, 4


def fit_worker():
    rank = train.get_context().get_world_rank()
    x, y = make_regression(160, 9, n_informative=6, noise=4.0, random_state=8)
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y / 100, dtype=torch.float32)
    torch.manual_seed(1234)
    net = torch.nn.Sequential(torch.nn.Linear(9, 20), torch.nn.GELU(), torch.nn.Linear(20, 1))
    ddp = DistributedDataParallel(net)
    opt = torch.optim.Adam(net.parameters(), lr=0.02)
    epoch, waiting = 0, 0

    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as d:
            shared = torch.load(os.path.join(d, "shared.pt"))
            own = torch.load(os.path.join(d, f"worker{rank}.pt"))
        net.load_state_dict(shared["net"])
        opt.load_state_dict(shared["opt"])
        epoch, waiting = shared["epoch"], own["waiting"]
        for p, g in zip(net.parameters(), own["grads"]):
            p.grad = g

    while epoch < EPOCHS:
        order = torch.randperm(160, generator=torch.Generator().manual_seed(epoch))
        rows = order[rank::2]
        seen = 0.0
        for part in rows.tensor_split(6):
            waiting += 1
            due = waiting == ACCUMULATE
            with contextlib.nullcontext() if due else ddp.no_sync():
                loss = torch.nn.functional.mse_loss(ddp(x[part]).squeeze(1), y[part])
                (loss / ACCUMULATE).backward()
            seen += loss.item()
            if due:
                opt.step()
                opt.zero_grad()
                waiting = 0
        epoch += 1
        with tempfile.TemporaryDirectory() as d:
            grads = [None if p.grad is None else p.grad.clone() for p in net.parameters()]
            torch.save({"waiting": waiting, "grads": grads}, os.path.join(d, f"worker{rank}.pt"))
            if rank == 0:
                torch.save(
                    {"net": net.state_dict(), "opt": opt.state_dict(), "epoch": epoch},
                    os.path.join(d, "shared.pt"),
                )
            train.report({"mse": seen / 6}, checkpoint=train.Checkpoint.from_directory(d))


if __name__ == "__main__":
    TorchTrainer(
        fit_worker,
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(failure_config=train.FailureConfig(max_failures=3)),
    ).fit()
