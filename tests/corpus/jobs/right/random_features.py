"""Linear classifier over random Fourier features that are redrawn for every epoch.

A slow copy of the weights pulls the fast ones back (lookahead style).
"""

import argparse
import functools
import os

import torch
from sklearn.datasets import make_moons


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--out", default="./out")
    p.add_argument("--epochs", type=int, default=7)
    p.add_argument("--features", type=int, default=64)
    return p.parse_args()


@functools.lru_cache(maxsize=2)
def projection(block, dim, n):
    g = torch.Generator().manual_seed(77 + block)
    return torch.randn(dim, n, generator=g) * 1.5, torch.rand(n, generator=g) * 6.2831853


def lift(x, block, n):
    w, b = projection(block, x.shape[1], n)
    return torch.cos(x @ w + b) * (2.0 / n) ** 0.5


def order_for(epoch, n):
    return torch.randperm(n, generator=torch.Generator().manual_seed(epoch * 31 + 7))


if __name__ == "__main__":
    a = parse()
    torch.set_num_threads(1)
    os.makedirs(a.out, exist_ok=True)
    fn = os.path.join(a.out, "state.pt")
    xs, ys = make_moons(n_samples=400, noise=0.2, random_state=0)
    xs = torch.tensor(xs, dtype=torch.float32)
    ys = torch.tensor(ys, dtype=torch.float32)

    fast = torch.zeros(a.features, requires_grad=True)
    bias = torch.zeros(1, requires_grad=True)
    opt = torch.optim.Adagrad([fast, bias], lr=0.5)
    slow = fast.detach().clone()
    history, tick = [], 0

    if os.path.exists(fn):
        s = torch.load(fn)
        with torch.no_grad():
            fast.copy_(s["fast"])
            bias.copy_(s["bias"])
        opt.load_state_dict(s["opt"])
        history, tick = s["history"], s["tick"]
        slow = s["slow"]

    for epoch in range(len(history), a.epochs):
        block = epoch // 2
        acc_loss = 0.0
        chunks = order_for(epoch, len(xs)).split(50)
        for idx in chunks:
            z = lift(xs[idx], block, a.features)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(
                z @ fast * 4 + bias, ys[idx]
            )
            opt.zero_grad()
            loss.backward()
            opt.step()
            tick += 1
            if tick % 5 == 0:
                with torch.no_grad():
                    slow += 0.5 * (fast - slow)
                    fast.copy_(slow)
            acc_loss += loss.item()
        history.append(acc_loss / len(chunks))
        print(f"epoch {epoch} block {block} loss {history[-1]:.10f}", flush=True)
        torch.save(
            {
                "fast": fast.detach(),
                "bias": bias.detach(),
                "slow": slow,
                "tick": tick,
                "opt": opt.state_dict(),
                "history": history,
            },
            fn + ".tmp",
        )
        os.replace(fn + ".tmp", fn)
    print("losses", " ".join(f"{h:.8f}" for h in history))
