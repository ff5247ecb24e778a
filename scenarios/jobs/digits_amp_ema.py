"""Train on handwritten digits with mixed precision, accumulated gradients and averaged weights.

The parts that a checkpoint forgets most easily, as PyTorch's own examples use them: a
GradScaler, `no_sync()` around all but the last micro-batch of a step, and an AveragedModel.
"""

import argparse
import contextlib
import os
import tempfile

import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset


def load_data():
    digits = load_digits()
    images = torch.tensor(digits.images / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target, dtype=torch.int64)
    return TensorDataset(images[:1280], labels[:1280]), (images[1280:], labels[1280:])


def build_model():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.2), nn.Linear(96, 10)
    )


def train_loop(config):
    torch.manual_seed(config["seed"])
    rank = ray.train.get_context().get_world_rank()
    device = ray.train.torch.get_device()
    train_set, (valid_images, valid_labels) = load_data()
    valid_images, valid_labels = valid_images.to(device), valid_labels.to(device)
    loader = ray.train.torch.prepare_data_loader(
        DataLoader(train_set, batch_size=config["batch_size"], shuffle=True)
    )
    model = ray.train.torch.prepare_model(build_model())
    plain = getattr(model, "module", model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config["lr"])
    scaler = torch.amp.GradScaler(device.type, init_scale=1024.0, growth_interval=7)
    average = AveragedModel(plain, multi_avg_fn=get_ema_multi_avg_fn(0.95))

    start = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            saved = torch.load(os.path.join(directory, "shared.pt"), map_location=device)
            own = torch.load(os.path.join(directory, f"rng-{rank}.pt"), weights_only=True)
        plain.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        if config["forget"] != "scaler":
            scaler.load_state_dict(saved["scaler"])
        if config["forget"] != "average":
            average.load_state_dict(saved["average"])
        torch.set_rng_state(own)
        start = saved["epoch"] + 1

    for epoch in range(start, config["epochs"]):
        if ray.train.get_context().get_world_size() > 1:
            loader.sampler.set_epoch(epoch)
        model.train()
        total, accumulate = 0.0, config["accumulate"]
        for index, (images, labels) in enumerate(loader):
            is_last = (index + 1) % accumulate == 0 or index + 1 == len(loader)
            quiet = contextlib.nullcontext() if is_last or model is plain else model.no_sync()
            with quiet:
                with torch.autocast(device.type, dtype=torch.bfloat16):
                    loss = nn.functional.cross_entropy(model(images), labels) / accumulate
                scaler.scale(loss).backward()
            total += loss.item()
            if is_last:
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                average.update_parameters(plain)
        average.eval()
        with torch.no_grad():
            guessed = average(valid_images).argmax(dim=1)
        metrics = {
            "epoch": epoch,
            "loss": total / len(loader) * accumulate,
            "average_accuracy": (guessed == valid_labels).float().mean().item(),
            "scale": scaler.get_scale(),
        }
        with tempfile.TemporaryDirectory() as directory:
            torch.save(torch.get_rng_state(), os.path.join(directory, f"rng-{rank}.pt"))
            if rank == 0:
                shared = {
                    "epoch": epoch,
                    "model": plain.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "scaler": scaler.state_dict(),
                    "average": average.state_dict(),
                }
                torch.save(shared, os.path.join(directory, "shared.pt"))
            ray.train.report(metrics, checkpoint=Checkpoint.from_directory(directory))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32, help="per worker and micro-batch")
    parser.add_argument("--accumulate", type=int, default=2, help="micro-batches per step")
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--use-gpu", action="store_true")
    parser.add_argument("--forget", choices=["scaler", "average"], help="do not load this part")
    args = parser.parse_args()

    trainer = TorchTrainer(
        train_loop,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=args.workers, use_gpu=args.use_gpu),
        run_config=RunConfig(
            name="digits-amp-ema",
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    result = trainer.fit()
    print(f"finished: {result.metrics}")


if __name__ == "__main__":
    main()
