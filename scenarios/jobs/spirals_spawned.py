"""Train a small classifier on spirals in processes that this script starts by itself.

python spirals_spawned.py --processes 2 --epochs 3
"""

import argparse
import os
import socket
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

CHECKPOINT = "spirals.pt"


def spirals(count=256, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    radius = torch.rand(count, generator=generator)
    angle = 6.0 * radius + labels * torch.pi
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    noise = 0.02 * torch.randn(count, 2, generator=generator)
    return TensorDataset(points + noise, labels)


def save(model, optimizer, epoch):
    state = {
        "model": model.module.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": epoch,
    }
    torch.save(state, CHECKPOINT + ".tmp")
    os.replace(CHECKPOINT + ".tmp", CHECKPOINT)


def train(rank, port, args):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "127.0.0.1", str(port)
    patience = {"timeout": timedelta(seconds=args.patience)} if args.patience else {}
    dist.init_process_group("gloo", rank=rank, world_size=args.processes, **patience)
    torch.manual_seed(0)
    data = spirals()
    sampler = DistributedSampler(data, seed=0)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    model = DDP(nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
    start = 0
    if os.path.exists(CHECKPOINT):
        state = torch.load(CHECKPOINT)
        model.module.load_state_dict(state["model"])
        if args.forget != "optimizer":
            optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"] + (args.forget != "epoch")
        print(f"rank {rank} resumes at epoch {start}")

    for epoch in range(start, args.epochs):
        sampler.set_epoch(epoch)
        for points, labels in loader:
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(points), labels)
            loss.backward()
            optimizer.step()
            time.sleep(args.step_seconds)
        if rank == 0:
            print(f"epoch {epoch}: loss {loss.item():.4f}")
            save(model, optimizer, epoch)
        dist.barrier()
    dist.destroy_process_group()


def free_port():
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return held.getsockname()[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--by", choices=["spawn", "fork", "process"], default="spawn")
    parser.add_argument(
        "--patience", type=float, help="seconds to wait for a peer; default: 30 min"
    )
    parser.add_argument("--forget", choices=["optimizer", "epoch"], help="what is not restored")
    parser.add_argument("--step-seconds", type=float, default=0.0, help="that a step takes more")
    args = parser.parse_args()
    if args.by != "process":
        mp.start_processes(
            train, args=(free_port(), args), nprocs=args.processes, start_method=args.by
        )
        return
    port = free_port()
    processes = [
        mp.get_context("fork").Process(target=train, args=(rank, port, args))
        for rank in range(args.processes)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        if process.exitcode:
            raise SystemExit(f"a process ended with {process.exitcode}")


if __name__ == "__main__":
    main()
