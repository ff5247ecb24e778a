"""Shapes of leaves on small pictures that are turned at random; the Trainer under torchrun."""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments, set_seed

SIDE, SHAPES = 10, 3


class Leaves(Dataset):
    """Round, long and toothed leaves; a picture is mirrored and dimmed when it is read."""

    def __init__(self, count):
        draws = np.random.default_rng(1735)
        self.shapes = draws.integers(SHAPES, size=count)
        across = np.linspace(-1, 1, SIDE)
        x, y = np.meshgrid(across, across)
        pictures = []
        for shape in self.shapes:
            wide = {0: 0.8, 1: 0.35, 2: 0.6}[int(shape)]
            edge = (x / wide) ** 2 + y**2 + (0.3 * np.sin(9 * y) if shape == 2 else 0)
            pictures.append((edge < 0.9) + draws.normal(0, 0.25, size=(SIDE, SIDE)))
        self.pictures = torch.tensor(np.array(pictures), dtype=torch.float32)

    def __len__(self):
        return len(self.shapes)

    def __getitem__(self, number):
        picture = self.pictures[number]
        if torch.rand(()) < 0.5:
            picture = picture.flip(0)
        return {
            "pixels": picture * (0.7 + 0.6 * torch.rand(())),
            "labels": int(self.shapes[number]),
        }


class Botanist(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(), nn.Linear(SIDE * SIDE, 24), nn.ReLU(), nn.Linear(24, SHAPES)
        )

    def forward(self, pixels, labels=None):
        logits = self.layers(pixels)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


class Journal(TrainerCallback):
    """Note the newest checkpoint that all processes have written."""

    def __init__(self, file):
        self.file = file

    def on_save(self, args, state, control, **kwargs):
        dist.barrier()
        if state.is_world_process_zero:
            self.file.write_text(json.dumps({"checkpoint": f"checkpoint-{state.global_step}"}))

    def newest(self, folder):
        if not self.file.exists():
            return None
        return str(folder / json.loads(self.file.read_text())["checkpoint"])


def main(options):
    set_seed(options.seed)
    folder = Path(options.output_dir)
    journal = Journal(folder / "newest.json")
    arguments = TrainingArguments(
        output_dir=str(folder),
        num_train_epochs=options.epochs,
        per_device_train_batch_size=6,
        learning_rate=0.01,
        save_steps=5,
        logging_steps=1,
        seed=options.seed,
        report_to="none",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(
        model=Botanist(), args=arguments, train_dataset=Leaves(96), callbacks=[journal]
    )
    trainer.train(resume_from_checkpoint=journal.newest(folder))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--output_dir", default="leaf_shapes")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--seed", type=int, default=19)
    main(parser.parse_args())
