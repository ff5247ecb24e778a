"""A stream of micro-batches without epochs: gradients of four go into one step, on two workers.

Saves every ten micro-batches. The workers average their gradients themselves when a step is due.
"""

import os
import tempfile

import torch
import torch.distributed as dist
from ray.train import (
    Checkpoint,
    FailureConfig,
    RunConfig,
    ScalingConfig,
    get_checkpoint,
    get_context,
    report,
)
from ray.train.torch import TorchTrainer

MICRO_BATCHES = 60
ACCUMULATE = 4
SAVE_EVERY = 10


def micro_batch(number, rank):
    g = torch.Generator().manual_seed(number * 64 + rank)
    x = torch.randn(16, 10, generator=g)
    target = (x[:, :5].prod(dim=1) + x[:, 5:].sum(dim=1)).unsqueeze(1)
    return x, target


def average_gradients(model, world_size):
    flat = torch.cat([p.grad.flatten() for p in model.parameters()])
    dist.all_reduce(flat)
    flat /= world_size
    at = 0
    for p in model.parameters():
        p.grad.copy_(flat[at : at + p.numel()].view_as(p))
        at += p.numel()


def train_func():
    context = get_context()
    rank, world_size = context.get_world_rank(), context.get_world_size()
    torch.manual_seed(5)
    model = torch.nn.Sequential(torch.nn.Linear(10, 32), torch.nn.SiLU(), torch.nn.Linear(32, 1))
    optimizer = torch.optim.NAdam(model.parameters(), lr=5e-3)

    done = 0
    checkpoint = get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            state = torch.load(os.path.join(directory, "stream.pt"), weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        done = state["micro_batches"]

    window = 0.0
    while done < MICRO_BATCHES:
        x, target = micro_batch(done, rank)
        loss = torch.nn.functional.huber_loss(model(x), target)
        (loss / ACCUMULATE).backward()
        window += loss.item()
        done += 1
        if done % ACCUMULATE == 0:
            average_gradients(model, world_size)
            optimizer.step()
            optimizer.zero_grad()
        if done % SAVE_EVERY == 0:
            with tempfile.TemporaryDirectory() as directory:
                if rank == 0:
                    torch.save(
                        {
                            "model": model.state_dict(),
                            "optimizer": optimizer.state_dict(),
                            "micro_batches": done,
                        },
                        os.path.join(directory, "stream.pt"),
                    )
                report(
                    {"loss": window / SAVE_EVERY, "micro_batches": done},
                    checkpoint=Checkpoint.from_directory(directory),
                )
            window = 0.0


if __name__ == "__main__":
    TorchTrainer(
        train_func,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=10)),
    ).fit()
