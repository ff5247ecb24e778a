"""Tides at a gauge: Accelerate under torchrun, with a loader that keeps its place."""

import shutil
from pathlib import Path

import torch
from accelerate import Accelerator, DataLoaderConfiguration
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

RUN = Path("tide_gauges")
HOURS, BATCH, EPOCHS, SAVE_EVERY = 160, 8, 3, 4


def gauges():
    draws = torch.Generator().manual_seed(1831)
    hour = torch.arange(HOURS, dtype=torch.float32)
    moon, sun = 2 * torch.pi * hour / 12.42, 2 * torch.pi * hour / 12.0
    wind = torch.randn(HOURS, generator=draws)
    level = 2.1 * moon.cos() + 0.7 * sun.cos() + 0.2 * wind
    return TensorDataset(torch.stack([moon.sin(), moon.cos(), sun.sin(), wind], 1), level[:, None])


class Progress:
    epoch = batch = 0

    def state_dict(self):
        return {"epoch": self.epoch, "batch": self.batch}

    def load_state_dict(self, state):
        self.epoch, self.batch = state["epoch"], state["batch"]


def keep(accelerator, number):
    """Save beside the whole ones, and rename once every process is done."""
    accelerator.save_state(str(RUN / "part"))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        (RUN / "part").rename(RUN / f"save-{number:03}")
    accelerator.wait_for_everyone()


def main():
    accelerator = Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(use_stateful_dataloader=True)
    )
    if accelerator.is_main_process:
        shutil.rmtree(RUN / "part", ignore_errors=True)
    set_seed(8)
    net = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)
    loader = DataLoader(gauges(), batch_size=BATCH, shuffle=True)
    net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
    progress = Progress()
    accelerator.register_for_checkpointing(progress)
    if saves := sorted(RUN.glob("save-*")):
        accelerator.load_state(str(saves[-1]))

    while progress.epoch < EPOCHS:
        for seen, level in loader:
            loss = nn.functional.mse_loss(net(seen), level)
            optimizer.zero_grad()
            accelerator.backward(loss)
            optimizer.step()
            progress.batch += 1
            if progress.batch in (SAVE_EVERY, 2 * SAVE_EVERY):
                keep(accelerator, progress.epoch * len(loader) + progress.batch)
        progress.epoch, progress.batch = progress.epoch + 1, 0
    accelerator.end_training()


if __name__ == "__main__":
    main()
