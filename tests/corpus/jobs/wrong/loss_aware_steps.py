"""Denoising diffusion on a two-arm spiral, with time steps drawn by how much they hurt.

python loss_aware_steps.py [--save-to DIR]
"""

import argparse
import copy
import json
import math
import os

import torch
import torch.nn as nn

T = 60


def spiral(n=2000):
    g = torch.Generator().manual_seed(4)
    r = torch.rand(n, generator=g).sqrt() * 3 * math.pi
    arm = torch.randint(2, (n,), generator=g) * math.pi
    x = torch.stack([r * (r + arm).cos(), r * (r + arm).sin()], 1) / 6
    return x + 0.03 * torch.randn(n, 2, generator=g)


def schedule():
    s = torch.linspace(0, 1, T + 1)
    bar = torch.cos((s + 0.01) / 1.01 * math.pi / 2) ** 2
    return (bar / bar[0])[1:]


class Denoiser(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.freq = nn.Parameter(torch.exp(torch.linspace(0, 4, 16)), requires_grad=False)
        self.net = nn.Sequential(
            nn.Linear(2 + 32, width),
            nn.SiLU(),
            nn.Linear(width, width),
            nn.SiLU(),
            nn.Linear(width, width),
            nn.SiLU(),
            nn.Linear(width, 2),
        )

    def forward(self, x, t):
        a = t.float().unsqueeze(1) / T * self.freq
        return self.net(torch.cat([x, a.sin(), a.cos()], 1))


def loss_aware_timesteps(n_steps, floor=0.02, rate=0.8):
    """Second-moment importance sampling over t. Returns (draw, observe)."""
    moment = torch.ones(n_steps)
    visits = torch.zeros(n_steps)

    def probabilities():
        if (visits > 0).sum() < n_steps // 2:
            return torch.full((n_steps,), 1.0 / n_steps)
        w = moment.sqrt()
        return (1 - floor) * w / w.sum() + floor / n_steps

    def draw(n, gen):
        p = probabilities()
        t = torch.multinomial(p, n, replacement=True, generator=gen)
        return t, 1.0 / (p[t] * n_steps)

    def observe(t, per_sample):
        nonlocal moment
        new = moment.clone()
        for i in t.unique():
            new[i] = rate * moment[i] + (1 - rate) * per_sample[t == i].pow(2).mean()
            visits[i] += 1
        moment = new

    return draw, observe


class Ema:
    def __init__(self, model, top=0.99):
        self.model, self.top, self.n = copy.deepcopy(model), top, 0

    @torch.no_grad()
    def update(self, model):
        self.n += 1
        d = min(self.top, (1 + self.n) / (10 + self.n))
        for a, b in zip(self.model.parameters(), model.parameters()):
            a.mul_(d).add_(b, alpha=1 - d)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--save-to", default="loss_aware_steps_models")
    ap.add_argument("--steps", type=int, default=80)
    ap.add_argument("--every", type=int, default=10)
    ap.add_argument("--batch", type=int, default=256)
    a = ap.parse_args()
    torch.set_num_threads(1)
    os.makedirs(a.save_to, exist_ok=True)
    torch.manual_seed(12)
    gen = torch.Generator().manual_seed(13)
    x0, bar = spiral(), schedule()
    model = Denoiser()
    ema = Ema(model)
    opt = torch.optim.AdamW(model.parameters(), lr=2e-3)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / 10) * (1 - s / (a.steps + 1))
    )
    draw, observe = loss_aware_timesteps(T)
    step, losses = 0, []

    last = os.path.join(a.save_to, "last.pt")
    if os.path.exists(last):
        c = torch.load(last, weights_only=False)
        model.load_state_dict(c["model"])
        ema.model.load_state_dict(c["ema"])
        ema.n = c["ema_n"]
        opt.load_state_dict(c["opt"])
        sched.load_state_dict(c["sched"])
        gen.set_state(c["gen"])
        step, losses = c["step"], c["losses"]
        print("back at step", step)

    while step < a.steps:
        idx = torch.randint(len(x0), (a.batch,), generator=gen)
        t, weight = draw(a.batch, gen)
        noise = torch.randn(a.batch, 2, generator=gen)
        ab = bar[t].unsqueeze(1)
        xt = ab.sqrt() * x0[idx] + (1 - ab).sqrt() * noise
        each = (model(xt, t) - noise).pow(2).mean(1)
        loss = (each * weight).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        ema.update(model)
        observe(t, each.detach())
        step += 1
        losses.append(loss.item())
        if step % a.every == 0:
            print(f"{step:3d} loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.2e}")
            torch.save(
                {
                    "model": model.state_dict(),
                    "ema": ema.model.state_dict(),
                    "ema_n": ema.n,
                    "opt": opt.state_dict(),
                    "sched": sched.state_dict(),
                    "gen": gen.get_state(),
                    "step": step,
                    "losses": losses,
                },
                last + ".tmp",
            )
            os.replace(last + ".tmp", last)

    torch.save(
        {"model": model.state_dict(), "ema": ema.model.state_dict()},
        os.path.join(a.save_to, "final.pt"),
    )
    json.dump(losses, open(os.path.join(a.save_to, "results.json"), "w"))


if __name__ == "__main__":
    main()
