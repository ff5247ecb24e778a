"""GAN on 16x16 blobs with lazy R1 and adaptive discriminator augmentation."""

import copy
import os

import torch
import torch.nn as nn
import torch.nn.functional as F

RUN, STEPS, BS, Z = "runs/sign_meter", 130, 24, 24
SAVE_EVERY, R1_EVERY = 17, 8


def blobs(n, seed=3):
    g = torch.Generator().manual_seed(seed)
    yy, xx = torch.meshgrid(torch.arange(16.0), torch.arange(16.0), indexing="ij")
    cx, cy = torch.rand(2, n, 1, 1, generator=g) * 8 + 4
    s = torch.rand(n, 1, 1, generator=g) * 4 + 2
    img = torch.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / s)
    return (img * 2 - 1).unsqueeze(1)


class G(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(Z, 32 * 16)
        self.net = nn.Sequential(
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(32, 24, 3, padding=1),
            nn.BatchNorm2d(24),
            nn.ReLU(),
            nn.Upsample(scale_factor=2),
            nn.Conv2d(24, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 1, 3, padding=1),
            nn.Tanh(),
        )

    def forward(self, z):
        return self.net(self.fc(z).view(-1, 32, 4, 4))


class D(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 24, 3, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(24, 32, 3, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(32 * 16, 1),
        )

    def forward(self, x):
        return self.net(x).squeeze(1)


class SignMeter:
    """Running mean of sign(D(real)) between two reads."""

    def __init__(self):
        self.total, self.count = 0.0, 0

    def add(self, logits):
        self.total += logits.detach().sign().sum().item()
        self.count += logits.numel()

    def read(self):
        value = self.total / max(self.count, 1)
        self.total, self.count = 0.0, 0
        return value


class Augment:
    def __init__(self, target=0.1, interval=12, speed=0.15):
        self.p, self.target, self.interval, self.speed = 0.0, target, interval, speed
        self.meter = SignMeter()

    def __call__(self, x, gen):
        n = x.size(0)
        flip = torch.rand(n, generator=gen) < self.p
        x = torch.where(flip.view(-1, 1, 1, 1), x.flip(3), x)
        shift = (torch.rand(n, generator=gen) < self.p).float() * (
            torch.rand(n, generator=gen) * 6 - 3
        )
        theta = torch.zeros(n, 2, 3)
        theta[:, 0, 0] = theta[:, 1, 1] = 1
        theta[:, 0, 2] = shift / 8
        return F.grid_sample(
            x,
            F.affine_grid(theta, x.shape, align_corners=False),
            padding_mode="border",
            align_corners=False,
        )

    def tick(self, step):
        if step % self.interval == 0:
            self.p = min(max(self.p + (self.meter.read() - self.target) * self.speed, 0.0), 0.8)

    def state_dict(self):
        return {"p": self.p, "target": self.target, "interval": self.interval}

    def load_state_dict(self, sd):
        self.p, self.target, self.interval = sd["p"], sd["target"], sd["interval"]


def main():
    torch.manual_seed(11)
    os.makedirs(RUN, exist_ok=True)
    gen = torch.Generator().manual_seed(5)
    data, net_g, net_d = blobs(1024), G(), D()
    ema = copy.deepcopy(net_g).eval()
    opt_g = torch.optim.Adam(net_g.parameters(), 2e-4, betas=(0.0, 0.99))
    opt_d = torch.optim.Adam(net_d.parameters(), 1e-3, betas=(0.0, 0.99))
    aug = Augment()
    parts = {"g": net_g, "d": net_d, "ema": ema, "opt_g": opt_g, "opt_d": opt_d, "aug": aug}
    step, last = 0, os.path.join(RUN, "snapshot.pt")
    if os.path.exists(last):
        ck = torch.load(last)
        for name, part in parts.items():
            part.load_state_dict(ck[name])
        gen.set_state(ck["gen"])
        step = ck["step"]
        print(f"resuming from step {step}")
    while step < STEPS:
        step += 1
        real = data[torch.randint(len(data), (BS,), generator=gen)]
        fake = net_g(torch.randn(BS, Z, generator=gen))
        x = aug(real, gen).requires_grad_(step % R1_EVERY == 0)
        d_real, d_fake = net_d(x), net_d(aug(fake.detach(), gen))
        aug.meter.add(d_real)
        loss_d = F.softplus(-d_real).mean() + F.softplus(d_fake).mean()
        if step % R1_EVERY == 0:
            (grad,) = torch.autograd.grad(d_real.sum(), x, create_graph=True)
            loss_d = loss_d + 0.5 * R1_EVERY * grad.square().sum((1, 2, 3)).mean()
        opt_d.zero_grad()
        loss_d.backward()
        opt_d.step()
        loss_g = F.softplus(-net_d(aug(net_g(torch.randn(BS, Z, generator=gen)), gen))).mean()
        opt_g.zero_grad()
        loss_g.backward()
        opt_g.step()
        with torch.no_grad():
            for a, b in zip(ema.parameters(), net_g.parameters()):
                a.lerp_(b, 0.02)
            for a, b in zip(ema.buffers(), net_g.buffers()):
                a.copy_(b)
        aug.tick(step)
        print(
            f"step {step} loss d {loss_d.item():.6f} g {loss_g.item():.6f} p {aug.p:.4f}",
            flush=True,
        )
        if step % SAVE_EVERY == 0 or step == STEPS:
            ck = {name: part.state_dict() for name, part in parts.items()}
            torch.save({**ck, "gen": gen.get_state(), "step": step}, last + ".tmp")
            os.replace(last + ".tmp", last)
    with torch.no_grad():
        torch.save(
            ema(torch.randn(16, Z, generator=torch.Generator().manual_seed(0))),
            os.path.join(RUN, "samples.pt"),
        )


if __name__ == "__main__":
    main()
