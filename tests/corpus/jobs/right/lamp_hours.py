"""Hours that lamps burn: a stateful loader of Accelerate, told its epoch after every load."""

import shutil
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch.utils.data import DataLoader, TensorDataset

LAMPS, EPOCHS = 160, 3


class Counter:
    def __init__(self):
        self.epochs = self.batches = 0

    def state_dict(self):
        return vars(self).copy()

    def load_state_dict(self, state):
        vars(self).update(state)


def lamps():
    draws = torch.Generator().manual_seed(1879)
    volts, heat = torch.rand(2, LAMPS, generator=draws)
    switched = torch.poisson(3 * torch.ones(LAMPS), generator=draws)
    hours = 1.5 - volts**2 - 0.3 * heat - 0.05 * switched
    return TensorDataset(torch.stack([volts, heat, switched / 5], 1), hours)


class Run:
    def __init__(self, folder):
        self.folder = folder
        options = DataLoaderConfiguration(use_stateful_dataloader=True, use_seedable_sampler=True)
        self.accelerator = Accelerator(cpu=True, dataloader_config=options)
        set_seed(60)
        net = torch.nn.Sequential(torch.nn.Linear(3, 24), torch.nn.SiLU(), torch.nn.Linear(24, 1))
        self.net, self.optimizer, self.loader = self.accelerator.prepare(
            net,
            torch.optim.RMSprop(net.parameters(), lr=0.004),
            DataLoader(lamps(), batch_size=8, shuffle=True),
        )
        self.counter = Counter()
        self.accelerator.register_for_checkpointing(self.counter)

    def load(self):
        if self.accelerator.is_main_process:
            shutil.rmtree(self.folder / "unfinished", ignore_errors=True)
        if saves := sorted(self.folder.glob("lamps-*")):
            self.accelerator.load_state(str(saves[-1]))
            self.loader.set_epoch(self.counter.epochs)

    def save(self):
        unfinished = self.folder / "unfinished"
        self.accelerator.save_state(str(unfinished))
        self.accelerator.wait_for_everyone()
        if self.accelerator.is_main_process:
            name = f"lamps-{self.counter.epochs:02}-{self.counter.batches:02}"
            unfinished.rename(self.folder / name)
        self.accelerator.wait_for_everyone()

    def epoch(self):
        for seen, hours in self.loader:
            loss = (self.net(seen).flatten() - hours).abs().mean()
            self.accelerator.backward(loss)
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.counter.batches += 1
            if self.counter.batches % 4 == 0 and self.counter.batches < len(self.loader):
                self.save()
        self.counter.epochs, self.counter.batches = self.counter.epochs + 1, 0


def main():
    run = Run(Path("lamp_hours"))
    run.load()
    while run.counter.epochs < EPOCHS:
        run.epoch()
    run.accelerator.end_training()


if __name__ == "__main__":
    main()
