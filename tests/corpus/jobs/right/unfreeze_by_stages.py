"""Gradual unfreezing: the head first, then the body from its top down, each with its own rate.

Each checkpoint has the latest weights in `last.pt` and the best so far in `best.pt`.
"""

import argparse
import os
import tempfile

import ray.train
import torch
from ray.train.torch import TorchTrainer
from sklearn.datasets import make_moons
from torch import nn

STAGES = {0: "head", 2: "upper", 5: "lower"}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lower = nn.Sequential(nn.Linear(2, 16), nn.Tanh())
        self.upper = nn.Sequential(nn.Linear(16, 16), nn.Tanh())
        self.head = nn.Linear(16, 2)
        self.requires_grad_(False)

    def forward(self, x):
        return self.head(self.upper(self.lower(x)))


def open_up(net, optimizer, name, lr):
    part = getattr(net, name).requires_grad_(True)
    group = {"params": list(part.parameters()), "lr": lr}
    if optimizer is None:
        return torch.optim.AdamW([group], weight_decay=0.02)
    optimizer.add_param_group(group)
    return optimizer


def finetune(args):
    x, y = make_moons(360, noise=0.2, random_state=3)
    x, y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
    torch.manual_seed(9)
    net, optimizer = Net(), None
    net_best, best = None, 1e9
    rate = args["lr"]

    saved = {"epoch": -1}
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as d:
            saved = torch.load(os.path.join(d, "last.pt"))
            net_best = torch.load(os.path.join(d, "best.pt"))
    for stage, name in STAGES.items():
        if stage <= saved["epoch"]:
            optimizer = open_up(net, optimizer, name, rate / (1 + stage))
    if checkpoint:
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        best = saved["best"]

    for epoch in range(saved["epoch"] + 1, args["epochs"]):
        if epoch in STAGES:
            optimizer = open_up(net, optimizer, STAGES[epoch], rate / (1 + epoch))
        g = torch.Generator()
        g.manual_seed(epoch)
        for rows in torch.randperm(300, generator=g).chunk(6):
            optimizer.zero_grad()
            nn.functional.cross_entropy(net(x[rows]), y[rows]).backward()
            optimizer.step()
        with torch.no_grad():
            val = nn.functional.cross_entropy(net(x[300:]), y[300:]).item()
        if val < best:
            best, net_best = val, {k: v.clone() for k, v in net.state_dict().items()}
        with tempfile.TemporaryDirectory() as d:
            torch.save(
                {
                    "net": net.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "best": best,
                    "epoch": epoch,
                },
                os.path.join(d, "last.pt"),
            )
            torch.save(net_best, os.path.join(d, "best.pt"))
            ray.train.report(
                {"val_loss": val, "best": best, "groups": len(optimizer.param_groups)},
                checkpoint=ray.train.Checkpoint.from_directory(d),
            )
    torch.save(net_best, "model.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.05)
    TorchTrainer(
        finetune,
        train_loop_config=vars(parser.parse_args()),
        run_config=ray.train.RunConfig(
            failure_config=ray.train.FailureConfig(max_failures=3),
            checkpoint_config=ray.train.CheckpointConfig(num_to_keep=1),
        ),
    ).fit()
