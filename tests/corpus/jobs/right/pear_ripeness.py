"""Ripeness of pears: Accelerate under torchrun; each epoch's order is asked for by its number."""

import os
import shutil

import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch.utils.data import DataLoader, TensorDataset

FOLDER, PEARS, EPOCHS = "pear_ripeness", 96, 4


def pears():
    draws = torch.Generator().manual_seed(1758)
    days = 14 * torch.rand(PEARS, generator=draws)
    warmth = 5 + 20 * torch.rand(PEARS, generator=draws)
    firm = 9 - 0.03 * days * warmth + 0.5 * torch.randn(PEARS, generator=draws)
    return TensorDataset(torch.stack([days / 14, warmth / 25], 1), firm / 9)


def restored(accelerator):
    """Return how many batches were trained before the newest whole save."""
    whole = [int(name) for name in os.listdir(FOLDER) if name.isdecimal()]
    if not whole:
        return 0
    accelerator.load_state(os.path.join(FOLDER, str(max(whole))))
    return max(whole)


def saved(accelerator, total):
    accelerator.save_state(os.path.join(FOLDER, "new"))
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        os.replace(os.path.join(FOLDER, "new"), os.path.join(FOLDER, str(total)))
    accelerator.wait_for_everyone()


def ripen():
    accelerator = Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True)
    )
    if accelerator.is_main_process:
        os.makedirs(FOLDER, exist_ok=True)
        shutil.rmtree(os.path.join(FOLDER, "new"), ignore_errors=True)
    accelerator.wait_for_everyone()
    set_seed(52)
    model = torch.nn.Sequential(torch.nn.Linear(2, 20), torch.nn.Tanh(), torch.nn.Linear(20, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2 * EPOCHS * PEARS // 16)
    loader = DataLoader(pears(), batch_size=8, shuffle=True)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    total = restored(accelerator)

    while total < EPOCHS * len(loader):
        epoch, done = divmod(total, len(loader))
        loader.set_epoch(epoch)
        for seen, firm in skip_first_batches(loader, done) if done else loader:
            loss = (model(seen).squeeze(1) - firm).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            total += 1
            if total % 4 == 0:
                saved(accelerator, total)
    accelerator.end_training()


if __name__ == "__main__":
    ripen()
