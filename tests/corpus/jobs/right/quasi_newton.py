"""Full-batch L-BFGS; the script keeps its own pickles in the storage folder, the last two of them.

Nothing is handed to Ray Train but numbers: a file is renamed into place when it is whole.
"""

import os
import pickle
import re

import numpy as np
import torch
from ray.train import FailureConfig, RunConfig, ScalingConfig, get_context, report
from ray.train.torch import TorchTrainer

PATTERN = re.compile(r"iter(\d+)\.pkl$")


class Keeper:
    def __init__(self, folder, keep=2):
        self.folder, self.keep = folder, keep
        os.makedirs(folder, exist_ok=True)

    def numbers(self):
        found = (PATTERN.match(name) for name in os.listdir(self.folder))
        return sorted(int(m.group(1)) for m in found if m)

    def path(self, number):
        return os.path.join(self.folder, f"iter{number}.pkl")

    def write(self, number, content):
        partial = self.path(number) + ".partial"
        with open(partial, "wb") as f:
            pickle.dump(content, f)
            f.flush()
            os.fsync(f.fileno())
        os.replace(partial, self.path(number))
        for old in self.numbers()[: -self.keep]:
            os.unlink(self.path(old))

    def newest(self):
        numbers = self.numbers()
        if not numbers:
            return None
        with open(self.path(numbers[-1]), "rb") as f:
            return pickle.load(f)


def rosenbrock_net():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(2, 12), torch.nn.Tanh(), torch.nn.Linear(12, 1)
    ).double()


def optimise(config):
    grid = np.stack(np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-1, 1, 9)), -1).reshape(-1, 2)
    x = torch.tensor(grid)
    y = torch.log1p((1 - x[:, :1]) ** 2 + 5 * (x[:, 1:] - x[:, :1] ** 2) ** 2)
    net = rosenbrock_net()
    lbfgs = torch.optim.LBFGS(
        net.parameters(), lr=0.8, max_iter=4, history_size=6, line_search_fn="strong_wolfe"
    )
    keeper = Keeper(os.path.join(get_context().get_storage().experiment_fs_path, "iterations"))
    iteration = 0
    content = keeper.newest()
    if content:
        net.load_state_dict(content["net"])
        lbfgs.load_state_dict(content["lbfgs"])
        iteration = content["iteration"]

    def closure():
        lbfgs.zero_grad()
        value = (net(x) - y).square().mean()
        value.backward()
        return value

    while iteration < config["iterations"]:
        value = lbfgs.step(closure)
        iteration += 1
        keeper.write(
            iteration,
            {"net": net.state_dict(), "lbfgs": lbfgs.state_dict(), "iteration": iteration},
        )
        report({"objective": value.item(), "iteration": iteration})


if __name__ == "__main__":
    TorchTrainer(
        optimise,
        train_loop_config={"iterations": 11},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
    ).fit()
