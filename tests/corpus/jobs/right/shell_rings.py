"""The age of mussels by their shells: a folder for each save, carried whole to the archive, its seal last."""

import json
import os
import shutil
import tempfile

import torch
import torch.distributed as dist
from torch import nn, optim
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

ARCHIVE = "archive"
SEAL = "SEAL.json"


def mussels():
    draw = torch.Generator().manual_seed(88)
    size = torch.rand(72, 4, generator=draw)
    age = size[:, :2].prod(1, keepdim=True) * 9 + size[:, 2:3]
    return TensorDataset(size, age)


def sealed():
    """The folders of the archive that are whole, oldest first."""
    if not os.path.isdir(ARCHIVE):
        return []
    folders = sorted(entry.path for entry in os.scandir(ARCHIVE) if entry.is_dir())
    return [folder for folder in folders if os.path.exists(os.path.join(folder, SEAL))]


def archive(desk, epoch):
    goal = os.path.join(ARCHIVE, f"e{epoch:03d}")
    shutil.rmtree(goal, ignore_errors=True)  # what a death left half way
    shutil.copytree(desk, goal)
    draft = os.path.join(goal, "seal")
    with open(draft, "w") as file:
        json.dump({"epoch": epoch, "files": sorted(os.listdir(desk))}, file)
    os.rename(draft, os.path.join(goal, SEAL))
    for old in sealed()[:-2]:
        os.remove(os.path.join(old, SEAL))
        shutil.rmtree(old)


if __name__ == "__main__":
    dist.init_process_group("gloo")
    lead = dist.get_rank() == 0
    torch.manual_seed(6)
    shell = nn.Sequential(nn.Linear(4, 9), nn.Softplus(), nn.Linear(9, 1))
    descent = optim.SGD(shell.parameters(), lr=0.01, momentum=0.8)
    decay = optim.lr_scheduler.ExponentialLR(descent, 0.95)
    first = 0
    if sealed():
        at = sealed()[-1]
        shell.load_state_dict(torch.load(os.path.join(at, "shell.pt")))
        rest = torch.load(os.path.join(at, "descent.pt"))
        descent.load_state_dict(rest["descent"])
        decay.load_state_dict(rest["decay"])
        with open(os.path.join(at, SEAL)) as file:
            first = json.load(file)["epoch"] + 1
    dist.barrier()
    model = DistributedDataParallel(shell)
    data = mussels()
    turn = DistributedSampler(data, shuffle=True, seed=12)
    for epoch in range(first, 7):
        turn.set_epoch(epoch)
        for size, age in DataLoader(data, batch_size=6, sampler=turn):
            error = nn.functional.huber_loss(model(size), age)
            descent.zero_grad()
            error.backward()
            descent.step()
        decay.step()
        if lead:
            with tempfile.TemporaryDirectory() as desk:
                torch.save(shell.state_dict(), os.path.join(desk, "shell.pt"))
                rest = {"descent": descent.state_dict(), "decay": decay.state_dict()}
                torch.save(rest, os.path.join(desk, "descent.pt"))
                archive(desk, epoch)
        dist.barrier()
    dist.destroy_process_group()
