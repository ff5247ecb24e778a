"""Fine-tune on the breast cancer table: each checkpoint holds `last.pt` and `best.pt`."""

import argparse
import os
import shutil
import tempfile

import ray.train
import torch
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_breast_cancer
from sklearn.preprocessing import StandardScaler


class Net(torch.nn.Module):
    def __init__(self, width=20, p=0.0):
        super().__init__()
        self.body = torch.nn.Sequential(
            torch.nn.Linear(30, width),
            torch.nn.ELU(),
            torch.nn.Linear(width, width),
            torch.nn.ELU(),
        )
        self.head = torch.nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.body(x)).squeeze(-1)


class Run:
    """All that belongs to one training."""

    def __init__(self, args):
        x, y = load_breast_cancer(return_X_y=True)
        x = torch.tensor(StandardScaler().fit_transform(x), dtype=torch.float32)
        y = torch.tensor(y, dtype=torch.float32)
        self.train, self.val = (x[:200], y[:200]), (x[400:], y[400:])
        torch.manual_seed(args["seed"])
        self.net = Net()
        self.opt = torch.optim.SGD(self.net.parameters(), lr=args["lr"], momentum=0.95)
        self.epoch = 0
        self.best = float("inf")
        self.folder = tempfile.mkdtemp()

    def fit_epoch(self):
        self.net.train()
        order = torch.randperm(200, generator=torch.Generator().manual_seed(self.epoch))
        for index in order.split(25):
            self.opt.zero_grad()
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                self.net(self.train[0][index]), self.train[1][index]
            )
            loss.backward()
            self.opt.step()
        self.epoch += 1

    @torch.no_grad()
    def validate(self):
        self.net.eval()
        out = self.net(self.val[0])
        return torch.nn.functional.binary_cross_entropy_with_logits(out, self.val[1]).item()

    def path(self, name):
        return os.path.join(self.folder, name)

    def save(self, val_loss):
        state = {"net": self.net.state_dict(), "opt": self.opt.state_dict(), "epoch": self.epoch}
        if val_loss < self.best:
            self.best = val_loss
            torch.save({**state, "val_loss": val_loss}, self.path("best.pt"))
        torch.save({**state, "best": self.best}, self.path("last.pt"))
        return ray.train.Checkpoint.from_directory(self.folder)

    def resume(self, checkpoint):
        checkpoint.to_directory(self.folder)
        last = torch.load(self.path("last.pt"))
        self.epoch, self.best = last["epoch"], last["best"]
        self.opt.load_state_dict(last["opt"])
        self.net.load_state_dict(torch.load(self.path("best.pt"))["net"])


def train_fn(args):
    run = Run(args)
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        run.resume(checkpoint)
    while run.epoch < args["epochs"]:
        run.fit_epoch()
        val_loss = run.validate()
        ray.train.report(
            {"val_loss": val_loss, "best": min(run.best, val_loss)}, checkpoint=run.save(val_loss)
        )
    shutil.rmtree(run.folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=2)
    config = vars(parser.parse_args())
    result = TorchTrainer(
        train_fn,
        train_loop_config=config,
        run_config=ray.train.RunConfig(
            failure_config=ray.train.FailureConfig(max_failures=4),
            checkpoint_config=ray.train.CheckpointConfig(
                num_to_keep=3, checkpoint_score_attribute="val_loss", checkpoint_score_order="min"
            ),
        ),
    ).fit()
    print(result.best_checkpoints)
