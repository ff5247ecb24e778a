"""Heights of roofs from their shadows, with Accelerate; it saves within an epoch and at its end."""

import argparse
import os
import re
import tempfile

import torch
from accelerate import Accelerator, DataLoaderConfiguration, skip_first_batches
from accelerate.utils import set_seed
from ray import train
from ray.train.torch import TorchTrainer
from torch.utils.data import DataLoader, Dataset


class Roofs(Dataset):
    """A shadow's length, the sun's height and the roof's pitch; the roof's height."""

    def __init__(self, count=120):
        draws = torch.Generator().manual_seed(404)
        height = 3 + 9 * torch.rand(count, generator=draws)
        sun = 0.4 + 0.9 * torch.rand(count, generator=draws)
        pitch = torch.rand(count, generator=draws)
        shadow = height / torch.tan(sun) * (1 + 0.05 * torch.randn(count, generator=draws))
        self.seen = torch.stack([shadow / 10, sun, pitch], 1)
        self.height = height

    def __len__(self):
        return len(self.height)

    def __getitem__(self, index):
        return {"seen": self.seen[index], "height": self.height[index]}


def training_function(config):
    accelerator = Accelerator(
        cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True)
    )
    set_seed(config["seed"])
    train_dataloader = DataLoader(Roofs(), shuffle=True, batch_size=config["batch_size"])
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 24), torch.nn.GELU(), torch.nn.Linear(24, 1), torch.nn.Flatten(0)
    )
    optimizer = torch.optim.NAdam(model.parameters(), lr=config["lr"])
    model, optimizer, train_dataloader = accelerator.prepare(model, optimizer, train_dataloader)

    overall_step, starting_epoch, resume_step = 0, 0, 0
    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as path:
            [name] = [name for name in os.listdir(path) if name.startswith("step_")]
            accelerator.load_state(os.path.join(path, name))
        overall_step = int(re.fullmatch(r"step_(\d+)", name)[1])
        starting_epoch, resume_step = divmod(overall_step, len(train_dataloader))
        train_dataloader.set_epoch(starting_epoch)

    for epoch in range(starting_epoch, config["num_epochs"]):
        model.train()
        active_dataloader = train_dataloader
        if epoch == starting_epoch and resume_step:
            active_dataloader = skip_first_batches(train_dataloader, resume_step)
        for batch in active_dataloader:
            loss = (model(batch["seen"]) - batch["height"]).abs().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            overall_step += 1
            if overall_step % config["save_steps"] == 0:
                with tempfile.TemporaryDirectory() as path:
                    accelerator.save_state(os.path.join(path, f"step_{overall_step}"))
                    train.report(
                        {"epoch": epoch, "metres": loss.item()},
                        checkpoint=train.Checkpoint.from_directory(path),
                    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--num_epochs", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=10)
    parser.add_argument("--save_steps", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=42)
    TorchTrainer(
        training_function,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=train.ScalingConfig(num_workers=1),
        run_config=train.RunConfig(failure_config=train.FailureConfig(max_failures=3)),
    ).fit()


if __name__ == "__main__":
    main()
