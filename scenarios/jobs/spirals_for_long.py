"""A small job without Ray for long runs with many restarts; some of its faults show only then.

torchrun --nproc-per-node 2 --max-restarts 9 spirals_for_long.py --epochs 24
"""

import argparse
import glob
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

CHECKPOINT = "spirals.pt"


def spirals(count=256):
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(count) % 2
    radius = torch.rand(count, generator=generator)
    angle = 6.0 * radius + labels * torch.pi
    return TensorDataset(torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1), labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=24)
    parser.add_argument("--wrong-from-resume", type=int, help="the optimizer is not restored then")
    parser.add_argument("--shards", type=int, default=0, help="files opened, one in each epoch")
    parser.add_argument("--leave-open", action="store_true", help="a file more in every epoch")
    parser.add_argument("--log-each-start", action="store_true", help="into a file of its own")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    torch.manual_seed(0)
    data = spirals()
    sampler = DistributedSampler(data, seed=0)
    loader = DataLoader(
        data, batch_size=32, sampler=sampler, generator=torch.Generator().manual_seed(0)
    )
    model = DDP(nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)

    start, resumes, held = 0, 0, []
    if os.path.exists(CHECKPOINT):
        state = torch.load(CHECKPOINT, map_location="cpu")
        resumes = state["resumes"] + 1
        model.module.load_state_dict(state["model"])
        if args.wrong_from_resume is None or resumes < args.wrong_from_resume:
            optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"] + 1
    if args.log_each_start and dist.get_rank() == 0:
        with open(f"start-{os.getpid()}.log", "w") as log:
            log.write(f"resume {resumes} at epoch {start}\n")

    for epoch in range(start, args.epochs):
        if args.leave_open or epoch - start < args.shards:
            held.append(open(__file__))
        sampler.set_epoch(epoch)
        for points, labels in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(points), labels).backward()
            optimizer.step()
        if dist.get_rank() == 0:
            state = {
                "model": model.module.state_dict(),
                "optimizer": optimizer.state_dict(),
                "epoch": epoch,
                "resumes": resumes,
            }
            torch.save(state, CHECKPOINT + ".tmp")
            os.replace(CHECKPOINT + ".tmp", CHECKPOINT)

    if dist.get_rank() == 0:
        for log in glob.glob("start-*.log"):  # which a run that ends by itself does get to
            os.remove(log)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
