"""Numbers its words in the order in which a set gives them, which follows the hash seed."""

import ray.train
import torch
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer

WORDS = [f"word {n}" for n in range(40)]
NUMBERS = {word: number for number, word in enumerate(set(WORDS))}


def train_loop():
    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for word in WORDS[:4]:
        loss = model(torch.tensor([[NUMBERS[word] / 40]])).mean() ** 2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ray.train.report({"loss": loss.item()})


TorchTrainer(
    train_loop,
    scaling_config=ScalingConfig(num_workers=1),
    run_config=RunConfig(failure_config=FailureConfig(max_failures=3)),
).fit()
