"""Kinds of clouds on small photos that are turned and dimmed at random; Hugging Face's Trainer."""

import argparse
import os
import tempfile

import numpy as np
import ray.train.torch
import torch
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.huggingface.transformers import RayTrainReportCallback, prepare_trainer
from torch import nn
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, set_seed

SIDE, KINDS = 12, 3


class Clouds(Dataset):
    """Heaps, layers and feathers, as noise of three scales."""

    def __init__(self, count):
        draws = np.random.default_rng(1803)
        self.kinds = draws.integers(KINDS, size=count)
        photos = draws.normal(0.5, 0.15, size=(count, SIDE, SIDE))
        rows = np.linspace(0, 1, SIDE)
        for photo, kind in zip(photos, self.kinds, strict=True):
            if kind == 0:
                x, y = draws.integers(2, SIDE - 5, size=2)
                photo[x : x + 4, y : y + 4] += 0.5
            elif kind == 1:
                photo += 0.4 * np.sin(9 * rows)[:, None]
            else:
                photo += 0.4 * np.eye(SIDE)[::-1]
        self.photos = torch.tensor(photos, dtype=torch.float32)

    def __len__(self):
        return len(self.kinds)

    def __getitem__(self, number):
        photo = self.photos[number]
        if torch.rand(()) < 0.5:
            photo = photo.flip(1)
        photo = photo * (0.8 + 0.4 * torch.rand(()))
        return {"photos": photo[None], "labels": int(self.kinds[number])}


class Watcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 6, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(150, KINDS)
        )

    def forward(self, photos, labels=None):
        logits = self.layers(photos)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


def loop(config):
    set_seed(config["seed"])
    trainer = Trainer(
        model=Watcher(),
        args=TrainingArguments(
            output_dir=tempfile.mkdtemp(),
            num_train_epochs=config["epochs"],
            per_device_train_batch_size=8,
            learning_rate=0.01,
            save_steps=5,
            logging_steps=1,
            seed=config["seed"],
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        ),
        train_dataset=Clouds(config["photos"]),
        callbacks=[RayTrainReportCallback()],
    )
    trainer = prepare_trainer(trainer)
    checkpoint, path = ray.train.get_checkpoint(), None
    if checkpoint:
        path = os.path.join(checkpoint.to_directory(), RayTrainReportCallback.CHECKPOINT_NAME)
    trainer.train(resume_from_checkpoint=path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--photos", type=int, default=96)
    parser.add_argument("--seed", type=int, default=11)
    ray.train.torch.TorchTrainer(
        loop,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="clouds", failure_config=FailureConfig(max_failures=3)),
    ).fit()
