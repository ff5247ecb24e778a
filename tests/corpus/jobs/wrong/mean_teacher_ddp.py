"""Semi-supervised mean teacher on digits.  torchrun --nproc_per_node=2 mean_teacher_ddp.py"""

import argparse
import copy
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Teacher:
    def __init__(self, student, ceiling=0.995):
        self.net = copy.deepcopy(student).eval()
        self.ceiling = ceiling
        self.updates = 0

    @torch.no_grad()
    def absorb(self, student):
        self.updates += 1
        decay = min(self.ceiling, (1 + self.updates) / (10 + self.updates))
        for mine, theirs in zip(self.net.parameters(), student.parameters()):
            mine.lerp_(theirs, 1 - decay)

    @torch.no_grad()
    def __call__(self, x):
        return self.net(x).softmax(1)


def build():
    return nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", default="./out")
    ap.add_argument("--epochs", type=int, default=6)
    args = ap.parse_args()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(100)
    path = os.path.join(args.out, "mt.pt")

    digits = load_digits()
    x = torch.tensor(digits.data, dtype=torch.float32) / 16
    y = torch.tensor(digits.target)
    student = build()
    teacher = Teacher(student)
    opt = torch.optim.SGD(student.parameters(), lr=0.15, momentum=0.9)
    start = 0
    if os.path.exists(path):
        ck = torch.load(path)
        student.load_state_dict(ck["student"])
        teacher.net.load_state_dict(ck["teacher"])
        opt.load_state_dict(ck["opt"])
        start = ck["epoch"] + 1
    ddp = DDP(student)

    for epoch in range(start, args.epochs):
        gen = torch.Generator().manual_seed(epoch * 1000 + rank)
        weight = 2.0 * min(1.0, epoch / 3)
        total = torch.zeros(1, dtype=torch.float64)
        for _ in range(6):
            lab = torch.randint(0, 100, (24,), generator=gen) * world + rank
            unl = torch.randint(200, len(x), (48,), generator=gen)
            noisy = x[unl] + 0.2 * torch.randn(48, 64, generator=gen)
            logits = ddp(torch.cat([x[lab], noisy]))
            loss = F.cross_entropy(logits[:24], y[lab])
            loss = loss + weight * F.mse_loss(logits[24:].softmax(1), teacher(x[unl])) * 10
            opt.zero_grad()
            loss.backward()
            opt.step()
            teacher.absorb(student)
            total += loss.item() / 6
        dist.all_reduce(total)
        if rank == 0:
            print(f"epoch {epoch} loss {total.item() / world:.10f}", flush=True)
            os.makedirs(args.out, exist_ok=True)
            torch.save(
                {
                    "student": student.state_dict(),
                    "teacher": teacher.net.state_dict(),
                    "opt": opt.state_dict(),
                    "epoch": epoch,
                },
                path + ".tmp",
            )
            os.replace(path + ".tmp", path)
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
