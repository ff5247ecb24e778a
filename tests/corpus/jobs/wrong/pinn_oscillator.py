"""Physics-informed net for u'' + u = 0, u(0)=1, u'(0)=0 with balanced loss terms."""

import argparse
import os

import torch
from torch import nn


class Balancer:
    """Scales each term so that its gradient has about the same size as the residual's."""

    def __init__(self, lam, rate=0.2):
        self.lam = lam
        self.rate = rate

    def update(self, terms, params):
        norms = {}
        for name, value in terms.items():
            g = torch.autograd.grad(value, params, retain_graph=True, allow_unused=True)
            norms[name] = max(t.abs().mean().item() for t in g if t is not None)
        for name in terms:
            if name != "residual":
                ratio = min(norms["residual"] / (norms[name] + 1e-8), 20.0)
                self.lam[name] = (1 - self.rate) * self.lam[name] + self.rate * ratio

    def __call__(self, terms):
        return sum(self.lam[k] * v for k, v in terms.items())


def d(y, t):
    return torch.autograd.grad(y.sum(), t, create_graph=True)[0]


def physics_terms(net, t):
    t = t.requires_grad_(True)
    u = net(t)
    du = d(u, t)
    residual = (d(du, t) + u).pow(2).mean()
    t0 = torch.zeros(1, 1, requires_grad=True)
    u0 = net(t0)
    return {"residual": residual, "value": (u0 - 1).pow(2).mean(), "slope": d(u0, t0).pow(2).mean()}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default="./out")
    ap.add_argument("--epochs", type=int, default=8)
    args = ap.parse_args()

    torch.set_num_threads(1)
    torch.manual_seed(17)
    os.makedirs(args.out, exist_ok=True)
    ckpt = os.path.join(args.out, "pinn.ckpt")

    net = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 1))
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    weights = {"residual": 1.0, "value": 1.0, "slope": 1.0}
    balancer = Balancer(weights)
    epoch = 0

    if os.path.exists(ckpt):
        state = torch.load(ckpt)
        net.load_state_dict(state["net"])
        opt.load_state_dict(state["opt"])
        weights = state["weights"]
        epoch = state["epoch"]

    while epoch < args.epochs:
        gen = torch.Generator().manual_seed(500 + epoch)
        log = []
        for _ in range(6):
            t = torch.rand(64, 1, generator=gen) * 3.0
            terms = physics_terms(net, t)
            balancer.update(terms, list(net.parameters()))
            loss = balancer(terms)
            opt.zero_grad()
            loss.backward()
            opt.step()
            log.append(sum(v.item() for v in terms.values()))
        epoch += 1
        print(f"epoch={epoch} loss={sum(log) / len(log):.10f}", flush=True)
        torch.save(
            {"net": net.state_dict(), "opt": opt.state_dict(), "weights": weights, "epoch": epoch},
            ckpt + ".tmp",
        )
        os.replace(ckpt + ".tmp", ckpt)


if __name__ == "__main__":
    main()
