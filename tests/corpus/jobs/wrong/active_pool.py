"""Active learning: every round asks for the labels of the samples that the model doubts most."""

import os
import tempfile

import numpy as np
import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import make_moons


class Pool:
    def __init__(self, n=300, first=20):
        x, y = make_moons(n, noise=0.25, random_state=15)
        self.x, self.y = torch.tensor(x, dtype=torch.float32), torch.tensor(y)
        self.labelled = list(np.random.default_rng(16).choice(n, size=first, replace=False))

    def ask(self, model, count):
        """Label the `count` samples of which the model is least sure."""
        with torch.no_grad():
            top = model(self.x).softmax(1).max(1).values.numpy().copy()
        top[self.labelled] = 2.0
        self.labelled += np.argsort(top, kind="stable")[:count].tolist()

    def batches(self, size, seed):
        order = np.random.default_rng(seed).permutation(self.labelled)
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            yield self.x[rows], self.y[rows]


def build():
    return torch.nn.Sequential(torch.nn.Linear(2, 20), torch.nn.Tanh(), torch.nn.Linear(20, 2))


def rounds(config):
    torch.manual_seed(config["seed"])
    pool, model = Pool(), build()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    done = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "round.pt"))
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["round"]
        # ask again for as many labels as there were
        pool.ask(model, state["labelled"] - len(pool.labelled))

    for number in range(done, config["rounds"]):
        for x, y in pool.batches(config["batch_size"], seed=number):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        pool.ask(model, config["labels_per_round"])
        with torch.no_grad():
            accuracy = (model(pool.x).argmax(1) == pool.y).float().mean().item()
        with tempfile.TemporaryDirectory() as folder:
            torch.save(
                {
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "round": number + 1,
                    "labelled": len(pool.labelled),
                },
                os.path.join(folder, "round.pt"),
            )
            ray.train.report(
                {"round": number, "loss": loss.item(), "accuracy": accuracy},
                checkpoint=Checkpoint.from_directory(folder),
            )


if __name__ == "__main__":
    TorchTrainer(
        rounds,
        train_loop_config={"rounds": 7, "batch_size": 8, "labels_per_round": 10, "seed": 1},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="moons", failure_config=FailureConfig(max_failures=3)),
    ).fit()
