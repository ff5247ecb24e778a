"""Speeds of looms: Accelerate under torchrun, with a cosine of transformers that follows a warmup."""

import shutil
from itertools import islice
from pathlib import Path

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset
from transformers import get_cosine_schedule_with_warmup

LOOMS, PASSES, SAVE_EVERY = 128, 4, 4
RUN = Path("loom_speeds")


def looms():
    draws = torch.Generator().manual_seed(1785)
    thread, steam, age = torch.rand(3, LOOMS, generator=draws)
    speed = 0.4 + 0.5 * steam - 0.3 * thread * age
    return TensorDataset(torch.stack([thread, steam, age], 1), speed[:, None])


def newest():
    saves = sorted(RUN.glob("step-*"), key=lambda folder: int(folder.name[5:]))
    return torch.load(saves[-1] / "all.pt") if saves else None


def keep(accelerator, step, **states):
    if accelerator.is_main_process:
        part = RUN / "part"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        torch.save(
            {"step": step, **{name: of.state_dict() for name, of in states.items()}},
            part / "all.pt",
        )
        part.rename(RUN / f"step-{step}")
    accelerator.wait_for_everyone()


def main():
    accelerator = Accelerator(cpu=True)
    set_seed(12)
    net = torch.nn.Sequential(torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.02)
    loader = DataLoader(looms(), batch_size=8)
    steps = PASSES * len(loader) // accelerator.num_processes
    done = 0
    if (saved := newest()) is not None:
        net.load_state_dict(saved["net"])
        optimizer.load_state_dict(saved["optimizer"])
        done = saved["step"]
    schedule = get_cosine_schedule_with_warmup(
        optimizer,
        num_warmup_steps=3 * accelerator.num_processes,
        num_training_steps=steps * accelerator.num_processes,
        last_epoch=done - 1 if done else -1,
    )
    model, optimizer, loader, schedule = accelerator.prepare(net, optimizer, loader, schedule)

    while done < steps:
        for seen, speed in islice(loader, done % len(loader), None):
            loss = torch.nn.functional.mse_loss(model(seen), speed)
            accelerator.backward(loss)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            done += 1
            if done % SAVE_EVERY == 0:
                keep(accelerator, done, net=accelerator.unwrap_model(model), optimizer=optimizer)
    accelerator.end_training()


if __name__ == "__main__":
    main()
