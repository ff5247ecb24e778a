"""A Wasserstein GAN on points of two rings, with several critic updates for each generator update."""

import argparse
import math
import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn


def sample_rings(n, generator):
    angle = torch.rand(n, generator=generator) * 2 * math.pi
    radius = torch.where(torch.rand(n, generator=generator) < 0.5, 1.0, 2.0)
    return torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)


class WGAN:
    def __init__(self, cfg):
        self.cfg = cfg
        self.gen = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
        self.critic = nn.Sequential(nn.Linear(2, 24), nn.LeakyReLU(0.2), nn.Linear(24, 1))
        self.opt_g = torch.optim.RMSprop(self.gen.parameters(), lr=cfg["lr"])
        self.opt_c = torch.optim.RMSprop(self.critic.parameters(), lr=cfg["lr"])
        self.noise = torch.Generator().manual_seed(cfg["seed"])
        self.updates = 0

    def train_batch(self, real):
        fake = self.gen(torch.randn(len(real), 4, generator=self.noise))
        loss_c = self.critic(fake.detach()).mean() - self.critic(real).mean()
        self.opt_c.zero_grad()
        loss_c.backward()
        self.opt_c.step()
        for p in self.critic.parameters():
            p.data.clamp_(-self.cfg["clip"], self.cfg["clip"])
        self.updates += 1
        if self.updates % self.cfg["n_critic"] == 0:
            fake = self.gen(torch.randn(len(real), 4, generator=self.noise))
            loss_g = -self.critic(fake).mean()
            self.opt_g.zero_grad()
            loss_g.backward()
            self.opt_g.step()
        return loss_c.item()

    def state(self):
        return {
            "gen": self.gen.state_dict(),
            "critic": self.critic.state_dict(),
            "opt_g": self.opt_g.state_dict(),
            "opt_c": self.opt_c.state_dict(),
            "noise": self.noise.get_state(),
        }

    def restore(self, state):
        self.gen.load_state_dict(state["gen"])
        self.critic.load_state_dict(state["critic"])
        self.opt_g.load_state_dict(state["opt_g"])
        self.opt_c.load_state_dict(state["opt_c"])
        self.noise.set_state(state["noise"])


def train(cfg):
    torch.manual_seed(cfg["seed"])
    gan = WGAN(cfg)
    first = 0
    ckpt = ray.train.get_checkpoint()
    if ckpt:
        with ckpt.as_directory() as d:
            state = torch.load(os.path.join(d, "gan.pt"))
        gan.restore(state)
        first = state["epoch"] + 1
    for epoch in range(first, cfg["epochs"]):
        data = torch.Generator().manual_seed(1000 + epoch)
        losses = [gan.train_batch(sample_rings(32, data)) for _ in range(cfg["batches"])]
        with tempfile.TemporaryDirectory() as d:
            torch.save({"epoch": epoch, **gan.state()}, os.path.join(d, "gan.pt"))
            ray.train.report(
                {"epoch": epoch, "critic_loss": sum(losses) / len(losses)},
                checkpoint=Checkpoint.from_directory(d),
            )


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=7)
    ap.add_argument("--batches", type=int, default=10)
    ap.add_argument("--n-critic", type=int, default=4)
    ap.add_argument("--clip", type=float, default=0.1)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=7)
    TorchTrainer(
        train,
        train_loop_config=vars(ap.parse_args()),
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=5)),
    ).fit()
