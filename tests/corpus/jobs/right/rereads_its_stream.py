"""Online learning from a stream that can only be read from its beginning, with decay by the step."""

import argparse
import itertools
import json
import os
import tempfile

import numpy as np
import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


class ClickStream(IterableDataset):
    """Clicks of users whose habits drift; each depends on all before it."""

    def __init__(self, seed):
        self.seed = seed

    def __iter__(self):
        rng = np.random.default_rng(self.seed)
        habits = rng.normal(size=8)
        while True:
            habits = 0.99 * habits + 0.1 * rng.normal(size=8)
            item = rng.normal(size=8)
            clicked = rng.random() < 1 / (1 + np.exp(-item @ habits))
            yield item.astype(np.float32), np.float32(clicked)


def regularized(parameters, step):
    decay = 1e-2 / (1 + step / 10)
    return {"params": list(parameters), "weight_decay": decay, "lr": 0.05 / (1 + step / 40)}


def train_online(config):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 12), nn.Softsign(), nn.Linear(12, 1))
    step, regret, history = 0, 0.0, []
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            net.load_state_dict(torch.load(os.path.join(folder, "net.pt")))
            with open(os.path.join(folder, "so_far.json")) as file:
                so_far = json.load(file)
        step, regret, history = so_far["step"], so_far["regret"], so_far["history"]

    clicks = DataLoader(ClickStream(config["seed"]), batch_size=config["batch_size"])
    # there is no seek: what was learnt from before is read once more and thrown away
    for items, clicked in itertools.islice(clicks, step, config["steps"]):
        # without momentum SGD has no state, so a new one for each step will do
        optimizer = torch.optim.SGD([regularized(net.parameters(), step)])
        loss = nn.functional.binary_cross_entropy_with_logits(net(items).squeeze(1), clicked)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        regret += loss.item()
        if step % config["every"] == 0:
            history.append(regret / step)
            with tempfile.TemporaryDirectory() as folder:
                torch.save(net.state_dict(), os.path.join(folder, "net.pt"))
                with open(os.path.join(folder, "so_far.json"), "w") as file:
                    json.dump({"step": step, "regret": regret, "history": history}, file)
                ray.train.report(
                    {"step": step, "loss": loss.item(), "mean_loss": history[-1]},
                    checkpoint=Checkpoint.from_directory(folder),
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--every", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=10)
    parser.add_argument("--seed", type=int, default=404)
    TorchTrainer(
        train_online,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="clicks", failure_config=FailureConfig(max_failures=3)),
    ).fit()
