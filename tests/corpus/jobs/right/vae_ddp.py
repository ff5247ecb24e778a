"""Beta-VAE on digits under DDP; beta is warmed up, then steered towards a KL target."""

import argparse
import os

import torch
import torch.distributed as dist
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DistributedSampler

STEP_LOG = []


class VAE(nn.Module):
    def __init__(self, z=4):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 2 * z))
        self.dec = nn.Sequential(nn.Linear(z, 40), nn.ReLU(), nn.Linear(40, 64))

    def forward(self, x, eps):
        mu, logvar = self.enc(x).chunk(2, dim=1)
        rec = self.dec(mu + eps * (0.5 * logvar).exp())
        kl = 0.5 * (mu**2 + logvar.exp() - 1 - logvar).sum(1).mean()
        return ((rec - x) ** 2).sum(1).mean(), kl


class BetaControl:
    def __init__(self, target):
        self.target, self.beta, self.err_sum, self.prev = target, 0.0, 0.0, None

    def begin(self, epoch):
        self.floor = 0.02 * epoch
        self.prev = None

    def update(self, kl):
        err = kl - self.target
        self.err_sum = 0.9 * self.err_sum + err
        slope = 0.0 if self.prev is None else kl - self.prev
        self.prev = kl
        self.beta = max(self.floor, min(1.0, 0.02 * err + 0.01 * self.err_sum + 0.05 * slope))

    def dump(self):
        return [self.beta, self.err_sum]

    def load(self, values):
        self.beta, self.err_sum = values


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default="./out")
    ap.add_argument("--epochs", type=int, default=6)
    args = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    os.makedirs(args.out, exist_ok=True)
    path = os.path.join(args.out, "vae.pt")
    x = torch.tensor(load_digits().data[:560], dtype=torch.float32) / 16
    sampler = DistributedSampler(range(len(x)), num_replicas=world, rank=rank, seed=3)
    torch.manual_seed(3)
    vae = VAE()
    opt = torch.optim.Adam(vae.parameters(), lr=4e-3)
    ctl = BetaControl(target=3.0)
    start = 0
    if os.path.exists(path):
        s = torch.load(path)
        vae.load_state_dict(s["vae"])
        opt.load_state_dict(s["opt"])
        ctl.load(s["ctl"])
        start = s["epoch"]
    ddp = nn.parallel.DistributedDataParallel(vae)
    for epoch in range(start, args.epochs):
        sampler.set_epoch(epoch)
        ctl.begin(epoch)
        noise = torch.Generator().manual_seed(epoch * 2 + rank)
        STEP_LOG.clear()
        for idx in torch.tensor(list(sampler)).split(40):
            rec, kl = ddp(x[idx], torch.randn(len(idx), 4, generator=noise))
            opt.zero_grad()
            (rec + ctl.beta * kl).backward()
            opt.step()
            both = torch.stack([rec.detach(), kl.detach()])
            dist.all_reduce(both)
            ctl.update(both[1].item() / world)
            STEP_LOG.append(both / world)
        rec, kl = torch.stack(STEP_LOG).double().mean(0).tolist()
        if rank == 0:
            print(f"epoch {epoch} rec {rec:.9f} kl {kl:.9f} beta {ctl.beta:.9f}", flush=True)
            torch.save(
                {
                    "vae": vae.state_dict(),
                    "opt": opt.state_dict(),
                    "ctl": ctl.dump(),
                    "epoch": epoch + 1,
                },
                path + ".tmp",
            )
            os.replace(path + ".tmp", path)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
