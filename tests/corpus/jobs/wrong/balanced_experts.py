"""Mixture of experts over two ranks; a bias per expert keeps the load even. Run with torchrun, 2 processes."""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn as nn
from sklearn.datasets import load_digits


class Moe(nn.Module):
    def __init__(self, dim, experts=8, k=2):
        super().__init__()
        self.k = k
        self.gate = nn.Linear(dim, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, dim, 64) * dim**-0.5)
        self.down = nn.Parameter(torch.randn(experts, 64, dim) * 0.1)
        self.register_buffer("expert_bias", torch.zeros(experts))
        self.register_buffer("tokens", torch.zeros(experts))

    def forward(self, x):
        score = self.gate(x).sigmoid()
        pick = (score + self.expert_bias).topk(self.k, dim=1).indices
        mask = torch.zeros_like(score).scatter(1, pick, 1.0)
        if self.training:
            with torch.no_grad():
                self.tokens += mask.sum(0)
        w = score * mask
        w = w / w.sum(1, keepdim=True)
        h = torch.einsum("bd,edh->beh", x, self.up).relu()
        return x + torch.einsum("beh,ehd,be->bd", h, self.down, w)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(64, 48)
        self.layers = nn.ModuleList([Moe(48), Moe(48)])
        self.out = nn.Linear(48, 10)

    def forward(self, x):
        x = self.inp(x)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


class Session:
    def __init__(self, args):
        self.args, self.rank, self.world = args, dist.get_rank(), dist.get_world_size()
        torch.manual_seed(17)
        self.net = Net()
        self.opt = self.make_optimizer()
        self.opt.register_step_pre_hook(self.balance)
        d = load_digits()
        self.x, self.y = torch.tensor(d.data, dtype=torch.float32) / 16, torch.tensor(d.target)
        self.step = 0

    def make_optimizer(self):
        decay = [p for p in self.net.parameters() if p.dim() > 1]
        plain = [p for p in self.net.parameters() if p.dim() <= 1]
        return torch.optim.AdamW(
            [{"params": decay, "weight_decay": 0.05}, {"params": plain, "weight_decay": 0.0}],
            lr=3e-3,
        )

    @torch.no_grad()
    def balance(self, *_):
        for layer in self.net.layers:
            dist.all_reduce(layer.tokens)
            layer.expert_bias += 0.02 * (layer.tokens.mean() - layer.tokens).sign()
            layer.tokens.zero_()

    def restore(self):
        path = os.path.join(self.args.folder, "session.pt")
        if not os.path.exists(path):
            return
        state = torch.load(path)
        self.net.load_state_dict(state["net"])
        self.opt = self.make_optimizer()
        self.opt.load_state_dict(state["opt"])
        self.step = state["step"]
        if self.rank == 0:
            print("resumed at", self.step, flush=True)

    def store(self):
        if self.rank == 0:
            path = os.path.join(self.args.folder, "session.pt")
            torch.save(
                {"net": self.net.state_dict(), "opt": self.opt.state_dict(), "step": self.step},
                path + ".w",
            )
            os.replace(path + ".w", path)
        dist.barrier()

    def batch(self, size=96):
        epoch, k = divmod(self.step, len(self.x) // (size * self.world))
        order = torch.randperm(len(self.x), generator=torch.Generator().manual_seed(300 + epoch))
        idx = order[(k * self.world + self.rank) * size :][:size]
        return self.x[idx], self.y[idx]

    def run(self):
        self.restore()
        while self.step < self.args.steps:
            x, y = self.batch()
            loss = nn.functional.cross_entropy(self.net(x), y)
            self.opt.zero_grad()
            loss.backward()
            for p in self.net.parameters():
                dist.all_reduce(p.grad)
                p.grad.div_(self.world)
            self.opt.step()
            self.step += 1
            shown = loss.detach().clone()
            dist.all_reduce(shown)
            if self.rank == 0:
                print(f"step {self.step} loss {shown.item() / self.world:.8f}", flush=True)
            if self.step % 10 == 0:
                self.store()
        if self.rank == 0:
            torch.save(self.net.state_dict(), os.path.join(self.args.folder, "final.pt"))


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--folder", default="balanced_experts_run")
    ap.add_argument("--steps", type=int, default=70)
    args = ap.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    dist.init_process_group("gloo")
    Session(args).run()
    dist.barrier()
    dist.destroy_process_group()
