"""Importance sampling of hard examples, scores shared by all ranks (torchrun, gloo)."""

import argparse
import os

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import make_classification


def get_data():
    x, y = make_classification(
        n_samples=320, n_features=12, n_informative=6, n_classes=3, flip_y=0.05, random_state=6
    )
    return torch.tensor(x, dtype=torch.float32), torch.tensor(y)


def draw(difficulty, n, epoch, step, rank):
    p = difficulty / difficulty.sum()
    return np.random.default_rng([6, epoch, step, rank]).choice(len(p), size=n, p=p)


def merge_scores(local_sum, local_cnt):
    both = torch.from_numpy(np.stack([local_sum, local_cnt]))
    dist.all_reduce(both)
    s, c = both.numpy()
    return s / np.maximum(c, 1), c > 0


def train(out, epochs, steps=7, batch=24):
    rank, world = dist.get_rank(), dist.get_world_size()
    x, y = get_data()
    torch.manual_seed(66)
    core = torch.nn.Sequential(torch.nn.Linear(12, 40), torch.nn.ReLU(), torch.nn.Linear(40, 3))
    opt = torch.optim.RMSprop(core.parameters(), lr=3e-3)
    difficulty = np.ones(len(x))
    epoch = 0
    file = os.path.join(out, "hard.pt")
    if os.path.exists(file):
        state = torch.load(file, weights_only=False)
        core.load_state_dict(state["core"])
        opt.load_state_dict(state["opt"])
        difficulty = state["difficulty"]
        epoch = state["epoch"]
    model = torch.nn.parallel.DistributedDataParallel(core)

    while epoch < epochs:
        seen_sum, seen_cnt = np.zeros(len(x)), np.zeros(len(x))
        running = 0.0
        for step in range(steps):
            idx = draw(difficulty, batch, epoch, step, rank)
            each = F.cross_entropy(model(x[idx]), y[idx], reduction="none")
            w = torch.tensor(1.0 / (difficulty[idx] / difficulty.mean()), dtype=torch.float32)
            loss = (each * w.sqrt()).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            np.add.at(seen_sum, idx, each.detach().numpy().astype(np.float64))
            np.add.at(seen_cnt, idx, 1.0)
            running += each.mean().item() / steps
        epoch += 1
        state = {
            "core": core.state_dict(),
            "opt": opt.state_dict(),
            "epoch": epoch,
            "difficulty": difficulty.copy(),
        }
        avg, mask = merge_scores(seen_sum, seen_cnt)
        difficulty[mask] = 0.4 * difficulty[mask] + 0.6 * (avg[mask] + 0.05)
        report = torch.tensor(running / world, dtype=torch.float64)
        dist.all_reduce(report)
        if rank == 0:
            print(f"epoch {epoch} loss {report.item():.10f}", flush=True)
            os.makedirs(out, exist_ok=True)
            torch.save(state, file + ".tmp")
            os.replace(file + ".tmp", file)
        dist.barrier()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default="./out")
    ap.add_argument("--epochs", type=int, default=6)
    a = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    try:
        train(a.out, a.epochs)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
