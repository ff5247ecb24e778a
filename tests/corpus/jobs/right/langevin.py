"""Bayesian regression by Langevin dynamics; every start draws noise that was never drawn before."""

import os
import tempfile

import ray.train
import torch
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_diabetes


def sample(config):
    x, y = load_diabetes(return_X_y=True)
    x = torch.tensor(x * 20, dtype=torch.float32)
    y = torch.tensor((y - y.mean()) / y.std(), dtype=torch.float32)
    chain = {
        "w": torch.zeros(10, requires_grad=True),
        "log_noise": torch.zeros(1, requires_grad=True),
    }
    mean = torch.zeros(10)
    draws, sweep = 0, 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as d:
            state = torch.load(os.path.join(d, "chain.pt"))
        chain = {k: v.requires_grad_() for k, v in state["chain"].items()}
        mean, draws, sweep = state["mean"], state["draws"], state["sweep"]

    torch.seed()
    while sweep < config["sweeps"]:
        for rows in torch.randperm(len(x)).split(64):
            residual = y[rows] - x[rows] @ chain["w"]
            likelihood = -(
                residual**2 / 2 * torch.exp(-2 * chain["log_noise"]) + chain["log_noise"]
            )
            energy = -likelihood.sum() * len(x) / len(rows) + chain["w"].square().sum() / 2
            gradients = torch.autograd.grad(energy, list(chain.values()))
            with torch.no_grad():
                for value, g in zip(chain.values(), gradients):
                    value.sub_(config["h"] * g).add_(
                        torch.randn_like(value), alpha=(2 * config["h"]) ** 0.5
                    )
            draws += 1
            mean += (chain["w"].detach() - mean) / draws
        sweep += 1
        error = (y - x @ mean).square().mean().item()
        with tempfile.TemporaryDirectory() as d:
            state = {
                "chain": {k: v.detach() for k, v in chain.items()},
                "mean": mean,
                "draws": draws,
                "sweep": sweep,
            }
            torch.save(state, os.path.join(d, "chain.pt"))
            ray.train.report(
                {"mse_of_mean": error, "energy": energy.item()},
                checkpoint=ray.train.Checkpoint.from_directory(d),
            )


if __name__ == "__main__":
    TorchTrainer(
        sample,
        train_loop_config={"sweeps": 8, "h": 5e-5},
        scaling_config=ray.train.ScalingConfig(num_workers=1),
        run_config=ray.train.RunConfig(failure_config=ray.train.FailureConfig(max_failures=3)),
    ).fit()
