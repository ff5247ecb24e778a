"""Sizes of eggs from the hen: Accelerate, which skips the batches that a resumed epoch has had."""

import re
import shutil
from pathlib import Path

import torch
from accelerate import Accelerator, DataLoaderConfiguration, skip_first_batches
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset

RUN = Path("egg_sizes")
NUM_EPOCHS, SAVE_STEPS, SIZES = 4, 4, 3


class Eggs(Dataset):
    def __init__(self, count=96):
        draws = torch.Generator().manual_seed(365)
        self.age = torch.rand(count, generator=draws)
        self.feed = torch.rand(count, generator=draws)
        self.light = torch.rand(count, generator=draws)
        weight = self.age + 0.6 * self.feed + 0.2 * torch.randn(count, generator=draws)
        self.size = (weight > 0.6).long() + (weight > 1.0).long()

    def __len__(self):
        return len(self.size)

    def __getitem__(self, number):
        seen = torch.stack([self.age[number], self.feed[number], self.light[number]])
        return {"seen": seen, "size": self.size[number]}


def step_of(folder):
    return int(re.fullmatch(r"step_(\d+)", folder.name)[1])


def main():
    accelerator = Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True)
    )
    set_seed(21)
    train_dataloader = DataLoader(Eggs(), shuffle=True, batch_size=8)
    model = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.GELU(), torch.nn.Linear(16, SIZES))
    optimizer = torch.optim.NAdam(model.parameters(), lr=0.02)
    model, optimizer, train_dataloader = accelerator.prepare(model, optimizer, train_dataloader)
    if accelerator.is_main_process and RUN.exists():
        for half in RUN.glob("*.half"):
            shutil.rmtree(half)
    accelerator.wait_for_everyone()

    overall_step, starting_epoch, resume_step = 0, 0, 0
    if saved := sorted(RUN.glob("step_*"), key=step_of):
        accelerator.load_state(str(saved[-1]))
        overall_step = step_of(saved[-1])
        starting_epoch, resume_step = divmod(overall_step, len(train_dataloader))
        train_dataloader.set_epoch(starting_epoch)

    for epoch in range(starting_epoch, NUM_EPOCHS):
        model.train()
        if epoch == starting_epoch and resume_step:
            active_dataloader = skip_first_batches(train_dataloader, resume_step)
        else:
            active_dataloader = train_dataloader
        for batch in active_dataloader:
            loss = torch.nn.functional.cross_entropy(model(batch["seen"]), batch["size"])
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            overall_step += 1
            if overall_step % SAVE_STEPS == 0:
                half = RUN / f"{overall_step}.half"
                accelerator.save_state(str(half))
                accelerator.wait_for_everyone()
                if accelerator.is_main_process:
                    half.rename(RUN / f"step_{overall_step}")
                accelerator.wait_for_everyone()


if __name__ == "__main__":
    main()
