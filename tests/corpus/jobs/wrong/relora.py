"""Low-rank adapters over a frozen network; from time to time they are merged and begin anew (ReLoRA).

Checkpoints are small: only what is trainable goes into them.
"""

import argparse
import math
import pickle
import tempfile
from pathlib import Path

import numpy as np
import ray.train
import torch
import torch.nn.functional as F
from ray.train.torch import TorchTrainer


class LoRALinear(torch.nn.Module):
    def __init__(self, n_in, n_out, rank):
        super().__init__()
        self.weight = torch.nn.Parameter(
            torch.randn(n_out, n_in) / math.sqrt(n_in), requires_grad=False
        )
        self.bias = torch.nn.Parameter(torch.zeros(n_out), requires_grad=False)
        self.down = torch.nn.Parameter(torch.empty(rank, n_in))
        self.up = torch.nn.Parameter(torch.empty(n_out, rank))
        self.reset()

    def reset(self):
        torch.nn.init.normal_(self.down, std=0.1)
        torch.nn.init.zeros_(self.up)

    @torch.no_grad()
    def merge(self):
        self.weight += self.up @ self.down
        self.reset()

    def forward(self, x):
        return F.linear(x, self.weight, self.bias) + x @ self.down.T @ self.up.T


def teacher_data(n=384):
    rng = np.random.default_rng(11)
    x = rng.normal(size=(n, 16)).astype(np.float32)
    w = rng.normal(size=(16, 3)).astype(np.float32)
    y = np.tanh(x @ w) + 0.1 * (x[:, :3] ** 2)
    return torch.from_numpy(x), torch.from_numpy(y.astype(np.float32))


def trainable(model):
    return {n: p for n, p in model.named_parameters() if p.requires_grad}


def worker(cfg):
    torch.manual_seed(cfg["seed"])
    x, y = teacher_data()
    model = torch.nn.Sequential(LoRALinear(16, 32, 2), torch.nn.GELU(), LoRALinear(32, 3, 2))
    opt = torch.optim.AdamW(trainable(model).values(), lr=cfg["lr"], weight_decay=0.01)

    epoch = 0
    if ray.train.get_checkpoint():
        with ray.train.get_checkpoint().as_directory() as where:
            saved = pickle.loads(Path(where, "adapters.pkl").read_bytes())
        with torch.no_grad():
            for name, p in trainable(model).items():
                p.copy_(torch.from_numpy(saved["adapters"][name]))
        opt.load_state_dict(saved["optimizer"])
        torch.set_rng_state(saved["rng"])
        epoch = saved["epoch"]

    while epoch < cfg["epochs"]:
        total = 0.0
        for chunk in torch.randperm(len(x)).split(48):
            loss = F.mse_loss(model(x[chunk]), y[chunk])
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += float(loss)
        epoch += 1
        if epoch % cfg["merge_every"] == 0:
            for layer in model:
                if isinstance(layer, LoRALinear):
                    layer.merge()
            opt.state.clear()
        saved = {
            "adapters": {n: p.detach().numpy() for n, p in trainable(model).items()},
            "optimizer": opt.state_dict(),
            "rng": torch.get_rng_state(),
            "epoch": epoch,
        }
        with tempfile.TemporaryDirectory() as where:
            Path(where, "adapters.pkl").write_bytes(pickle.dumps(saved))
            ray.train.report(
                {"train_loss": total / 8, "epoch": epoch},
                checkpoint=ray.train.Checkpoint.from_directory(where),
            )


if __name__ == "__main__":
    p = argparse.ArgumentParser(description="ReLoRA on a small regression")
    p.add_argument("--epochs", type=int, default=9)
    p.add_argument("--merge-every", type=int, default=4)
    p.add_argument("--lr", type=float, default=0.02)
    p.add_argument("--seed", type=int, default=0)
    trainer = TorchTrainer(
        worker,
        train_loop_config=vars(p.parse_args()),
        run_config=ray.train.RunConfig(
            failure_config=ray.train.FailureConfig(max_failures=2), name="relora"
        ),
    )
    trainer.fit()
