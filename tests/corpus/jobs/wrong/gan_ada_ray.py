"""Tiny GAN on a ring of gaussians with adaptive discriminator augmentation (Ray Train)."""

import argparse
import math
import os
import random
import tempfile

import torch
import torch.nn.functional as F
from ray import train
from ray.train.torch import TorchTrainer
from torch import nn


class Augmenter:
    """Rotates or flips a batch of points with probability p; p follows D's overconfidence."""

    def __init__(self, seed, p=0.2):
        self.p = p
        self.dice = random.Random(seed)

    def __call__(self, pts):
        if self.dice.random() < self.p + 0.2:
            a = self.dice.uniform(-0.6, 0.6)
            rot = torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
            pts = pts @ rot
        if self.dice.random() < self.p:
            pts = pts * torch.tensor([self.dice.choice([-1.0, 1.0]), 1.0])
        return pts + self.dice.gauss(0.0, 0.05)

    def adapt(self, d_real):
        sign = d_real.detach().sign().mean().item()
        self.p = min(0.8, max(0.0, self.p + (0.03 if sign > 0.5 else -0.03)))


def real_batch(n, gen):
    k = torch.randint(0, 8, (n,), generator=gen)
    ang = k * (2 * math.pi / 8)
    return torch.stack([ang.cos(), ang.sin()], 1) + 0.05 * torch.randn(n, 2, generator=gen)


def mlp(i, o):
    return nn.Sequential(
        nn.Linear(i, 32), nn.LeakyReLU(0.2), nn.Linear(32, 32), nn.LeakyReLU(0.2), nn.Linear(32, o)
    )


def train_loop(cfg):
    torch.set_num_threads(1)
    torch.manual_seed(cfg["seed"])
    G, D = mlp(4, 2), mlp(2, 1)
    g_opt = torch.optim.Adam(G.parameters(), lr=2e-3, betas=(0.5, 0.9))
    d_opt = torch.optim.Adam(D.parameters(), lr=2e-3, betas=(0.5, 0.9))
    gen = torch.Generator().manual_seed(cfg["seed"])
    aug = Augmenter(cfg["seed"])
    modules = {"G": G, "D": D, "g_opt": g_opt, "d_opt": d_opt}
    start = 1
    ck = train.get_checkpoint()
    if ck:
        with ck.as_directory() as d:
            st = torch.load(os.path.join(d, "gan.pt"))
        for name, obj in modules.items():
            obj.load_state_dict(st[name])
        gen.set_state(st["gen"])
        aug.p = st["aug_p"]
        start = st["epoch"] + 1

    for epoch in range(start, cfg["epochs"] + 1):
        dl = gl = 0.0
        for _ in range(5):
            real = real_batch(64, gen)
            fake = G(torch.randn(64, 4, generator=gen))
            d_real, d_fake = D(aug(real)), D(aug(fake.detach()))
            d_loss = F.softplus(-d_real).mean() + F.softplus(d_fake).mean()
            d_opt.zero_grad()
            d_loss.backward()
            d_opt.step()
            aug.adapt(d_real)
            g_loss = F.softplus(-D(aug(fake))).mean()
            g_opt.zero_grad()
            g_loss.backward()
            g_opt.step()
            dl, gl = dl + d_loss.item() / 5, gl + g_loss.item() / 5
        print(f"epoch {epoch} d {dl:.10f} g {gl:.10f}", flush=True)
        st = {name: obj.state_dict() for name, obj in modules.items()}
        st.update(gen=gen.get_state(), aug_p=aug.p, epoch=epoch)
        with tempfile.TemporaryDirectory() as d:
            torch.save(st, os.path.join(d, "gan.pt"))
            train.report(
                {"d_loss": dl, "g_loss": gl}, checkpoint=train.Checkpoint.from_directory(d)
            )


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default="./out")
    ap.add_argument("--epochs", type=int, default=7)
    ap.add_argument("--seed", type=int, default=15)
    ns = ap.parse_args()
    trainer = TorchTrainer(
        train_loop,
        train_loop_config={"seed": ns.seed, "epochs": ns.epochs},
        scaling_config=train.ScalingConfig(num_workers=1),
        run_config=train.RunConfig(
            name="gan",
            storage_path=os.path.abspath(ns.out),
            failure_config=train.FailureConfig(max_failures=3),
        ),
    )
    m = trainer.fit().metrics
    print(f"final d loss {m['d_loss']:.10f} g loss {m['g_loss']:.10f}")
