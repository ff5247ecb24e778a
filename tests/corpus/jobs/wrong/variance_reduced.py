"""Logistic regression with stochastic variance-reduced gradients (SVRG), written with torch.func.

An anchor and its full gradient are taken anew every few epochs; each step corrects a mini-batch
gradient by what the anchor's gradient on the same batch differs from its full gradient.
"""

import os
import tempfile

import numpy as np
import torch
from ray import train
from ray.train.torch import TorchTrainer
from sklearn.datasets import make_classification
from torch.func import functional_call, grad_and_value

HYPER = dict(lr=0.15, epochs=9, anchor_every=3, batch=32, l2=1e-3)


def make_objective(net, l2):
    def objective(params, x, y):
        logits = functional_call(net, params, (x,))
        penalty = sum((p**2).sum() for p in params.values())
        return torch.nn.functional.cross_entropy(logits, y) + l2 * penalty

    return grad_and_value(objective)


def copied(params):
    return {k: v.clone() for k, v in params.items()}


def train_svrg(hp):
    X, Y = make_classification(384, 12, n_informative=8, n_classes=3, random_state=4)
    X, Y = torch.tensor(X, dtype=torch.float32), torch.tensor(Y)
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
    params = {k: v.detach().clone() for k, v in net.named_parameters()}
    objective = make_objective(net, hp["l2"])
    anchor, full = copied(params), None

    first = 0
    ckpt = train.get_checkpoint()
    if ckpt:
        with ckpt.as_directory() as d:
            arrays = np.load(os.path.join(d, "params.npz"))
            params = {k: torch.from_numpy(arrays[k]) for k in params}
            first = int(arrays["epoch"])
        anchor = copied(params)
    if first % hp["anchor_every"]:
        full, _ = objective(anchor, X, Y)

    for epoch in range(first, hp["epochs"]):
        if epoch % hp["anchor_every"] == 0:
            anchor = copied(params)
            full, _ = objective(anchor, X, Y)
        rng = np.random.default_rng([17, epoch])
        total = 0.0
        for rows in rng.permutation(len(X)).reshape(-1, hp["batch"]):
            g, loss = objective(params, X[rows], Y[rows])
            g_anchor, _ = objective(anchor, X[rows], Y[rows])
            params = {k: p - hp["lr"] * (g[k] - g_anchor[k] + full[k]) for k, p in params.items()}
            total += loss.item()
        with tempfile.TemporaryDirectory() as d:
            np.savez(
                os.path.join(d, "params.npz"),
                epoch=epoch + 1,
                **{k: v.numpy() for k, v in params.items()},
            )
            train.report(
                {"loss": total * hp["batch"] / len(X), "epoch": epoch},
                checkpoint=train.Checkpoint.from_directory(d),
            )


if __name__ == "__main__":
    TorchTrainer(
        train_svrg,
        train_loop_config=HYPER,
        scaling_config=train.ScalingConfig(num_workers=1),
        run_config=train.RunConfig(name="svrg", failure_config=train.FailureConfig(max_failures=3)),
    ).fit()
