"""Apples sorted into grades with Accelerate; two workers, saved after every few batches."""

import contextlib
import tempfile
from dataclasses import dataclass

import torch
from accelerate import Accelerator, skip_first_batches
from accelerate.utils import DataLoaderConfiguration, set_seed
from ray import train
from ray.train.torch import TorchTrainer
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

GRADES, APPLES = 4, 150


def apples():
    draws = torch.Generator().manual_seed(1849)
    grade = torch.randint(GRADES, (APPLES,), generator=draws)
    size = 60 + 6 * grade + 5 * torch.randn(APPLES, generator=draws)
    spots = (8 - 2 * grade).clamp(min=0) * torch.rand(APPLES, generator=draws)
    red = 0.3 + 0.15 * grade + 0.1 * torch.randn(APPLES, generator=draws)
    return TensorDataset(torch.stack([size / 80, spots / 8, red], 1), grade)


@dataclass
class Done:
    epochs: int = 0
    batches: int = 0

    def state_dict(self):
        return {"epochs": self.epochs, "batches": self.batches}

    def load_state_dict(self, state):
        self.epochs, self.batches = state["epochs"], state["batches"]


def rest_of(loader, done):
    loader.set_epoch(done.epochs)
    return skip_first_batches(loader, done.batches) if done.batches else loader


def save(accelerator, metrics):
    with tempfile.TemporaryDirectory() as folder:
        accelerator.save_state(folder)
        train.report(metrics, checkpoint=train.Checkpoint.from_directory(folder))


def grade_apples(config):
    set_seed(77)
    accelerator = Accelerator(
        cpu=True,
        gradient_accumulation_steps=1,
        dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True),
    )
    model = torch.nn.Sequential(
        torch.nn.Linear(3, 20), torch.nn.Tanh(), torch.nn.Linear(20, GRADES)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.8)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 2 * config["batches"])
    loader = DataLoader(apples(), batch_size=6, shuffle=True)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    done = Done()
    accelerator.register_for_checkpointing(done)
    with contextlib.ExitStack() as stack:
        if (saved := train.get_checkpoint()) is not None:
            accelerator.load_state(stack.enter_context(saved.as_directory()))

    total = done.epochs * len(loader) + done.batches
    while total < config["batches"]:
        for seen, grade in rest_of(loader, done):
            loss = F.cross_entropy(model(seen), grade)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            done.batches, total = done.batches + 1, total + 1
            if total % 6 == 0:
                save(accelerator, {"loss": loss.item(), "batches": total})
        done.epochs, done.batches = done.epochs + 1, 0


if __name__ == "__main__":
    TorchTrainer(
        grade_apples,
        train_loop_config={"batches": 78},
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(
            name="apples", failure_config=train.FailureConfig(max_failures=3)
        ),
    ).fit()
