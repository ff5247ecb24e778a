"""Pretrains a small masked model by iterations; progress is counted in samples."""

import os
import tempfile
from dataclasses import asdict, dataclass

import ray.train
import ray.train.torch
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

VOCAB, SPAN, MASK = 20, 10, 0


@dataclass
class Progress:
    iteration: int = 0
    consumed_samples: int = 0
    skipped: int = 0


class Sequences(Dataset):
    def __len__(self):
        return 480

    def __getitem__(self, number):
        draws = torch.Generator().manual_seed(31_000 + number)
        start, pace = torch.randint(1, VOCAB, (2,), generator=draws).tolist()
        tokens = torch.tensor([1 + (start + pace * i) % (VOCAB - 1) for i in range(SPAN)])
        hidden = torch.rand(SPAN, generator=draws) < 0.3
        return tokens.masked_fill(hidden, MASK), tokens, hidden


class GlobalBatches:
    """This rank's part of each global batch, from `consumed_samples` on, without an end."""

    def __init__(self, total, micro_batch, rank, world, consumed_samples=0):
        self.total, self.micro_batch = total, micro_batch
        self.rank, self.world = rank, world
        self.consumed_samples = consumed_samples

    def __iter__(self):
        while True:
            first = self.consumed_samples + self.rank * self.micro_batch
            yield [(first + i) % self.total for i in range(self.micro_batch)]
            self.consumed_samples += self.micro_batch * self.world


def build_data_iterator(config):
    context = ray.train.get_context()
    dataset = Sequences()
    batches = GlobalBatches(
        len(dataset), config["micro_batch"], context.get_world_rank(), context.get_world_size()
    )
    return iter(DataLoader(dataset, batch_sampler=batches))


def build_model(config):
    torch.manual_seed(config["seed"])
    network = nn.Sequential(
        nn.Embedding(VOCAB, 12),
        nn.Conv1d(SPAN, SPAN, 3, padding=1),
        nn.ReLU(),
        nn.Linear(12, VOCAB),
    )
    return ray.train.torch.prepare_model(network)


def warmed(config, progress):
    """Return the rate: a warm-up over samples, then a constant."""
    return config["rate"] * min(1.0, (progress.consumed_samples + 1) / config["warmup_samples"])


def load_checkpoint(model, optimizer):
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return Progress()
    with checkpoint.as_directory() as folder:
        state = torch.load(os.path.join(folder, "iter.pt"), map_location="cpu")
    model.module.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return Progress(**state["progress"])


def save_checkpoint(model, optimizer, progress, metrics):
    with tempfile.TemporaryDirectory() as folder:
        if ray.train.get_context().get_world_rank() == 0:
            state = {"model": model.module.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state | {"progress": asdict(progress)}, os.path.join(folder, "iter.pt"))
        ray.train.report(metrics, checkpoint=ray.train.Checkpoint.from_directory(folder))


def pretrain(config):
    model = build_model(config)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=config["rate"])
    progress = load_checkpoint(model, optimizer)
    data = build_data_iterator(config)
    world = ray.train.get_context().get_world_size()

    while progress.iteration < config["iterations"]:
        masked, tokens, hidden = next(data)
        for group in optimizer.param_groups:
            group["lr"] = warmed(config, progress)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(masked)[hidden], tokens[hidden])
        if loss.isfinite():
            loss.backward()
            optimizer.step()
        else:
            progress.skipped += 1
        progress.iteration += 1
        progress.consumed_samples += config["micro_batch"] * world
        if progress.iteration % config["save_interval"] == 0:
            save_checkpoint(
                model, optimizer, progress, {"lm loss": loss.item(), **asdict(progress)}
            )


if __name__ == "__main__":
    ray.train.torch.TorchTrainer(
        pretrain,
        train_loop_config={
            "seed": 77,
            "rate": 0.005,
            "micro_batch": 4,
            "iterations": 30,
            "save_interval": 5,
            "warmup_samples": 200,
        },
        scaling_config=ray.train.ScalingConfig(num_workers=4),
        run_config=ray.train.RunConfig(
            name="masked", failure_config=ray.train.FailureConfig(max_failures=2)
        ),
    ).fit()
