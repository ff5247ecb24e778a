"""Yarn that spindles tear: Accelerate under torchrun, its schedule kept by `save_state`."""

import os
import shutil

import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset
from transformers import get_scheduler

SPINDLES, EPOCHS, EVERY = 112, 4, 5
FOLDER = "yarn_breaks"


class Spinning:
    def __init__(self):
        self.accelerator = Accelerator(cpu=True)
        set_seed(1764)
        draws = torch.Generator().manual_seed(1764)
        twist, damp = torch.rand(2, SPINDLES, generator=draws)
        breaks = torch.poisson(1 + 3 * twist * (1 - damp), generator=draws)
        rows = TensorDataset(torch.stack([twist, damp], 1), breaks[:, None] / 4)
        net = torch.nn.Sequential(torch.nn.Linear(2, 14), torch.nn.GELU(), torch.nn.Linear(14, 1))
        optimizer = torch.optim.Adam(net.parameters(), lr=0.03)
        ranks = self.accelerator.num_processes
        self.total = EPOCHS * (SPINDLES // 8 // ranks)
        schedule = get_scheduler(
            "linear", optimizer, num_warmup_steps=2 * ranks, num_training_steps=self.total * ranks
        )
        self.net, self.optimizer, self.rows, self.schedule = self.accelerator.prepare(
            net, optimizer, DataLoader(rows, batch_size=8), schedule
        )
        self.steps = 0

    def take_up(self):
        kept = [name for name in os.listdir(FOLDER) if name.startswith("after-")]
        if kept:
            last = max(kept, key=lambda name: int(name.removeprefix("after-")))
            self.accelerator.load_state(os.path.join(FOLDER, last))
            self.steps = int(last.removeprefix("after-"))

    def keep(self):
        half = os.path.join(FOLDER, "half")
        if self.accelerator.is_main_process:
            shutil.rmtree(half, ignore_errors=True)
        self.accelerator.wait_for_everyone()
        self.accelerator.save_state(half)
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            os.rename(half, os.path.join(FOLDER, f"after-{self.steps}"))
        self.accelerator.wait_for_everyone()

    def spin(self):
        for seen, breaks in skip_first_batches(self.rows, self.steps % len(self.rows)):
            loss = torch.nn.functional.poisson_nll_loss(self.net(seen), breaks)
            self.accelerator.backward(loss)
            self.optimizer.step()
            self.schedule.step()
            self.optimizer.zero_grad()
            self.steps += 1
            if self.steps % EVERY == 0:
                self.keep()


def main():
    os.makedirs(FOLDER, exist_ok=True)
    spinning = Spinning()
    spinning.take_up()
    while spinning.steps < spinning.total:
        spinning.spin()
    spinning.accelerator.end_training()


if __name__ == "__main__":
    main()
