"""Prices of bread from flour, rent and the baker: Accelerate, saved after every epoch."""

import argparse
import json
import os
import shutil

import torch
from accelerate import Accelerator
from accelerate.utils import DataLoaderConfiguration, set_seed
from torch.utils.data import DataLoader, TensorDataset


def loaves(count=120):
    draws = torch.Generator().manual_seed(1866)
    flour = 0.4 + 0.3 * torch.rand(count, generator=draws)
    rent = torch.rand(count, generator=draws)
    baker = torch.randint(0, 5, (count,), generator=draws)
    price = 1.2 + 2.1 * flour + 1.5 * rent**2 + 0.2 * baker
    price = price + 0.05 * torch.randn(count, generator=draws)
    return TensorDataset(torch.stack([flour, rent], 1), baker, price)


class Price(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.baker = torch.nn.Embedding(5, 4)
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)
        )

    def forward(self, known, baker):
        return self.layers(torch.cat([known, self.baker(baker)], 1)).squeeze(1)


def latest(folder):
    done = [name for name in os.listdir(folder) if name.startswith("epoch_")]
    return os.path.join(folder, max(done, key=lambda name: int(name[6:]))) if done else None


def training_function(args):
    accelerator = Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True)
    )
    if accelerator.is_main_process:
        os.makedirs(args.output_dir, exist_ok=True)
        shutil.rmtree(os.path.join(args.output_dir, "writing"), ignore_errors=True)
    accelerator.wait_for_everyone()
    set_seed(args.seed)
    model = Price()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
    loader = DataLoader(loaves(), batch_size=10, shuffle=True)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    starting_epoch = 0
    if (folder := latest(args.output_dir)) is not None:
        accelerator.load_state(folder)
        with open(os.path.join(folder, "epoch.json")) as file:
            starting_epoch = json.load(file)["next"]

    for epoch in range(starting_epoch, args.epochs):
        model.train()
        for known, baker, price in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.huber_loss(model(known, baker), price)
            accelerator.backward(loss)
            optimizer.step()
        schedule.step()
        writing = os.path.join(args.output_dir, "writing")
        accelerator.save_state(writing)
        accelerator.wait_for_everyone()
        if accelerator.is_main_process:
            with open(os.path.join(writing, "epoch.json"), "w") as file:
                json.dump({"next": epoch + 1}, file)
            os.rename(writing, os.path.join(args.output_dir, f"epoch_{epoch}"))
        accelerator.wait_for_everyone()
    accelerator.end_training()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", default="bread_prices")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seed", type=int, default=4)
    training_function(parser.parse_args())
