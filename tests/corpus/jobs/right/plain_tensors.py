"""A network and an optimizer of plain tensors on four workers: no modules, no torch.optim."""

import os
import pickle
import tempfile

import ray.train
import torch
import torch.distributed as dist
from ray.train import Checkpoint
from ray.train.torch import TorchTrainer

SIZES = [7, 18, 18, 1]


def initial():
    g = torch.Generator().manual_seed(3)
    layers = []
    for n_in, n_out in zip(SIZES, SIZES[1:]):
        layers += [torch.randn(n_in, n_out, generator=g) / n_in**0.5, torch.zeros(n_out)]
    return [t.requires_grad_() for t in layers]


def predict(w, x):
    x = torch.tanh(x @ w[0] + w[1])
    x = x + torch.tanh(x @ w[2] + w[3])
    return (x @ w[4] + w[5]).squeeze(1)


def lion(w, grads, m, t, lr=2e-3, b1=0.9, b2=0.98):
    """One step of Lion, with a rate that falls with the square root of t."""
    with torch.no_grad():
        for p, g, mean in zip(w, grads, m):
            p -= lr / (1 + t / 20) ** 0.5 * (b1 * mean + (1 - b1) * g).sign()
            mean.mul_(b2).add_(g, alpha=1 - b2)


def work(config):
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    w, t = initial(), 0
    m = [torch.zeros_like(p) for p in w]
    source = torch.Generator().manual_seed(50 + rank)

    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            with open(os.path.join(folder, f"part-{rank}.pkl"), "rb") as f:
                part = pickle.load(f)
        w = [torch.tensor(a, requires_grad=True) for a in part["w"]]
        m = [torch.tensor(a) for a in part["m"]]
        t = part["t"]
        source.set_state(torch.tensor(part["source"], dtype=torch.uint8))

    while t < config["steps"]:
        x = torch.randn(12, 7, generator=source)
        y = (x[:, 0] * x[:, 1]).tanh() + x[:, 2:].amax(dim=1)
        loss = (predict(w, x) - y).abs().mean()
        grads = torch.autograd.grad(loss, w)
        together = torch.cat([g.flatten() for g in grads] + [loss.detach().view(1)])
        dist.all_reduce(together)
        together /= world
        pieces = together[:-1].split([p.numel() for p in w])
        lion(w, [g.view_as(p) for g, p in zip(pieces, w)], m, t)
        t += 1
        if t % config["save_every"] == 0:
            with tempfile.TemporaryDirectory() as folder:
                part = {
                    "w": [p.detach().numpy() for p in w],
                    "m": [a.numpy() for a in m],
                    "t": t,
                    "source": source.get_state().tolist(),
                }
                with open(os.path.join(folder, f"part-{rank}.pkl"), "wb") as f:
                    pickle.dump(part, f)
                ray.train.report(
                    {"loss": together[-1].item(), "t": t},
                    checkpoint=Checkpoint.from_directory(folder),
                )


if __name__ == "__main__":
    TorchTrainer(
        work,
        train_loop_config={"steps": 50, "save_every": 10},
        scaling_config=ray.train.ScalingConfig(num_workers=4),
        run_config=ray.train.RunConfig(failure_config=ray.train.FailureConfig(max_failures=3)),
    ).fit()
