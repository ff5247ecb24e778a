"""Train a convolutional network for a number of steps, and save every few of them.

torchrun --nproc-per-node 2 within.py --epochs 2 --save-every 3
"""

import argparse
import os

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Digits(Dataset):
    def __init__(self, count=160):
        generator = torch.Generator().manual_seed(7)
        self.images = torch.randn(count, 1, 8, 8, generator=generator)
        self.labels = (self.images.mean(dim=(1, 2, 3)) > 0).long()

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.images[index], self.labels[index]


class Trainer:
    def __init__(self, args):
        self.args = args
        self.rank = dist.get_rank()
        self.sampler = DistributedSampler(Digits(), shuffle=True)
        self.loader = DataLoader(Digits(), batch_size=16, sampler=self.sampler)
        network = nn.Sequential(
            nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.1), nn.Linear(144, 2)
        )
        self.model = DistributedDataParallel(network)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.epoch = self.batch = 0
        if os.path.exists(args.snapshot):
            self.load()

    def load(self):
        snapshot = torch.load(self.args.snapshot)
        self.model.module.load_state_dict(snapshot["model"])
        self.optimizer.load_state_dict(snapshot["optimizer"])
        self.epoch, self.batch = snapshot["epoch"], snapshot["batch"]
        torch.set_rng_state(snapshot["rng"][self.rank])

    def save(self):
        states = [None] * dist.get_world_size()
        dist.all_gather_object(states, torch.get_rng_state())
        if self.rank == 0:
            snapshot = {
                "model": self.model.module.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "epoch": self.epoch,
                "batch": self.batch,
                "rng": states,
            }
            torch.save(snapshot, self.args.snapshot + ".new")
            os.rename(self.args.snapshot + ".new", self.args.snapshot)

    def train(self):
        done = self.epoch * len(self.loader) + self.batch
        while self.epoch < self.args.epochs:
            self.sampler.set_epoch(self.epoch)
            drawn = torch.get_rng_state()  # the loader draws a seed for its workers
            batches = enumerate(self.loader)
            for index, (images, labels) in batches:
                if index == 0 and self.batch:
                    torch.set_rng_state(drawn)
                if index < self.batch:
                    continue
                loss = F.cross_entropy(self.model(images), labels)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.batch = index + 1
                done += 1
                if done % self.args.save_every == 0:
                    self.save()
            self.epoch, self.batch = self.epoch + 1, 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--save-every", type=int, default=3)
    parser.add_argument("--snapshot", default="snapshot.pt")
    dist.init_process_group(backend="gloo")
    torch.manual_seed(1 + dist.get_rank())
    Trainer(parser.parse_args()).train()
    dist.destroy_process_group()
