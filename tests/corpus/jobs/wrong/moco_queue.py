"""Contrastive learning with a momentum encoder and a queue of negatives (MoCo), on three ranks."""

import os
import tempfile

import ray.train
import torch
import torch.distributed as dist
import torch.nn.functional as F
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn


def encoder():
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))


class MoCo:
    """Query and key encoders, and the keys of former batches as negatives."""

    def __init__(self, queue_size, momentum=0.9, temperature=0.2):
        self.query = prepare_model(encoder())
        self.key = encoder()
        self.key.load_state_dict(self.query.module.state_dict())
        for p in self.key.parameters():
            p.requires_grad_(False)
        self.momentum, self.temperature = momentum, temperature
        self.queue = F.normalize(torch.randn(queue_size, 8), dim=1)
        self.pointer = 0

    @torch.no_grad()
    def update_key_encoder(self):
        for k, q in zip(self.key.parameters(), self.query.module.parameters()):
            k.mul_(self.momentum).add_(q, alpha=1 - self.momentum)

    @torch.no_grad()
    def enqueue(self, keys):
        everyones = [torch.empty_like(keys) for _ in range(dist.get_world_size())]
        dist.all_gather(everyones, keys)
        keys = torch.cat(everyones)
        places = (self.pointer + torch.arange(len(keys))) % len(self.queue)
        self.queue[places] = keys
        self.pointer = int((places[-1] + 1) % len(self.queue))

    def loss(self, view_a, view_b):
        q = F.normalize(self.query(view_a), dim=1)
        with torch.no_grad():
            self.update_key_encoder()
            k = F.normalize(self.key(view_b), dim=1)
        positive = (q * k).sum(1, keepdim=True)
        negative = q @ self.queue.clone().T
        logits = torch.cat([positive, negative], dim=1) / self.temperature
        loss = F.cross_entropy(logits, torch.zeros(len(q), dtype=torch.long))
        self.enqueue(k)
        return loss

    def state_dict(self):
        return {"query": self.query.module.state_dict(), "key": self.key.state_dict()}

    def load_state_dict(self, state):
        self.query.module.load_state_dict(state["query"])
        self.key.load_state_dict(state["key"])


def views(epoch, step, rank, n=8):
    g = torch.Generator().manual_seed(100_000 * epoch + 1_000 * step + rank)
    things = torch.randn(n, 16, generator=torch.Generator().manual_seed(31 * rank + step))
    return (things + 0.3 * torch.randn(n, 16, generator=g) for _ in range(2))


def pretrain(config):
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(2)
    moco = MoCo(config["queue"])
    optimizer = torch.optim.SGD(moco.query.parameters(), lr=0.3, momentum=0.9, weight_decay=1e-4)
    first = 0

    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as d:
            loaded = torch.load(os.path.join(d, "moco.pt"))
        moco.load_state_dict(loaded["moco"])
        optimizer.load_state_dict(loaded["optimizer"])
        first = loaded["epoch"] + 1

    for epoch in range(first, config["epochs"]):
        total = torch.zeros(())
        for step in range(config["steps"]):
            a, b = views(epoch, step, rank)
            loss = moco.loss(a, b)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        dist.all_reduce(total)
        mean = total.item() / config["steps"] / dist.get_world_size()
        if rank == 0:
            with tempfile.TemporaryDirectory() as d:
                torch.save(
                    {
                        "moco": moco.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "epoch": epoch,
                    },
                    os.path.join(d, "moco.pt"),
                )
                ray.train.report(
                    {"epoch": epoch, "contrastive_loss": mean},
                    checkpoint=Checkpoint.from_directory(d),
                )
        else:
            ray.train.report({"epoch": epoch, "contrastive_loss": mean})


if __name__ == "__main__":
    TorchTrainer(
        pretrain,
        train_loop_config={"epochs": 5, "steps": 6, "queue": 96},
        scaling_config=ScalingConfig(num_workers=3),
        run_config=RunConfig(name="moco", failure_config=FailureConfig(max_failures=3)),
    ).fit()
