"""Softmax regression in a folder of its own: arrays as .npz, progress as JSON, no Ray checkpoint."""

import json
import os
import shutil
import tempfile

import numpy as np
import torch
from ray import train
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_iris

WORK = os.path.join(tempfile.gettempdir(), "iris-work")


def replace(path, write):
    """Write a file beside `path` first, so that `path` is always whole."""
    with open(path + ".new", "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(path + ".new", path)


def store(net, optimizer, epoch):
    moments = optimizer.state_dict()["state"]
    arrays = {f"net/{k}": v.numpy() for k, v in net.state_dict().items()}
    for number, state in moments.items():
        for key, value in state.items():
            arrays[f"adam/{number}/{key}"] = value.numpy()
    name = f"epoch-{epoch}.npz"
    replace(os.path.join(WORK, name), lambda file: np.savez(file, **arrays))
    progress = json.dumps({"epoch": epoch, "file": name}).encode()
    replace(os.path.join(WORK, "progress.json"), lambda file: file.write(progress))
    for old in os.listdir(WORK):
        if old.startswith("epoch-") and old != name:
            os.remove(os.path.join(WORK, old))


def fetch(net, optimizer):
    path = os.path.join(WORK, "progress.json")
    if not os.path.exists(path):
        return 0
    with open(path) as file:
        progress = json.load(file)
    state = {}
    weights = {}
    with np.load(os.path.join(WORK, progress["file"])) as arrays:
        for key in arrays:
            kind, _, rest = key.partition("/")
            value = torch.from_numpy(arrays[key].copy())
            if kind == "net":
                weights[rest] = value
            else:
                number, name = rest.split("/")
                state.setdefault(int(number), {})[name] = value
    net.load_state_dict(weights)
    optimizer.load_state_dict(
        {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}
    )
    return progress["epoch"]


def train_iris(config):
    os.makedirs(WORK, exist_ok=True)
    torch.manual_seed(config["seed"])
    x, y = load_iris(return_X_y=True)
    x, y = torch.from_numpy(x).float(), torch.from_numpy(y)
    net = torch.nn.Sequential(torch.nn.LayerNorm(4), torch.nn.Linear(4, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.05)
    epoch = fetch(net, optimizer)
    while epoch < config["epochs"]:
        order = np.random.default_rng(epoch).permutation(len(x))
        for rows in np.split(order, 6):
            loss = torch.nn.functional.cross_entropy(net(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        epoch += 1
        store(net, optimizer, epoch)
        train.report({"epoch": epoch, "loss": loss.item()})


if __name__ == "__main__":
    TorchTrainer(
        train_iris,
        train_loop_config={"epochs": 6, "seed": 0},
        scaling_config=train.ScalingConfig(num_workers=1),
        run_config=train.RunConfig(name="iris", failure_config=train.FailureConfig(max_failures=3)),
    ).fit()
    shutil.rmtree(WORK)
