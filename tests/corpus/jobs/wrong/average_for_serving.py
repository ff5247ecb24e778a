"""Train a digits classifier on two workers and export stochastic weight averages for serving.

The averaged weights are what we ship: `swa.pt`, written beside the checkpoints when training is over.
"""

import argparse
import os
import tempfile

import torch
from ray.train import (
    Checkpoint,
    CheckpointConfig,
    FailureConfig,
    RunConfig,
    ScalingConfig,
    get_checkpoint,
    get_context,
    report,
)
from ray.train.torch import TorchTrainer, prepare_data_loader, prepare_model
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel
from torch.utils.data import DataLoader, TensorDataset


def dataset():
    x, y = load_digits(return_X_y=True)
    return TensorDataset(torch.tensor(x[:640] / 16.0).float(), torch.tensor(y[:640]))


def mlp():
    return nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 10))


def save(path, **parts):
    torch.save(
        {k: v.state_dict() if hasattr(v, "state_dict") else v for k, v in parts.items()}, path
    )


def loop(config):
    torch.manual_seed(3)
    loader = prepare_data_loader(DataLoader(dataset(), batch_size=32, shuffle=True))
    model = prepare_model(mlp())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9, nesterov=True)
    averaged = AveragedModel(model.module)
    swa_lr = SWALR(optimizer, swa_lr=0.08, anneal_epochs=2)
    swa_from = int(config["epochs"] * config["swa_after"])

    begin = 0
    if ckpt := get_checkpoint():
        with ckpt.as_directory() as folder:
            saved = torch.load(f"{folder}/state.pt")
        model.module.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        swa_lr.load_state_dict(saved["swa_lr"])
        averaged.module.load_state_dict(saved["averaged"])
        begin = saved["next_epoch"]

    loss_of = nn.CrossEntropyLoss()
    for epoch in range(begin, config["epochs"]):
        loader.sampler.set_epoch(epoch)
        running = 0.0
        for x, y in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = loss_of(model(x), y)
            loss.backward()
            optimizer.step()
            running += loss.item()
        if epoch >= swa_from:
            averaged.update_parameters(model.module)
            swa_lr.step()
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = None
            if get_context().get_world_rank() == 0:
                save(
                    f"{folder}/state.pt",
                    model=model.module,
                    optimizer=optimizer,
                    swa_lr=swa_lr,
                    averaged=averaged.module,
                    next_epoch=epoch + 1,
                )
                checkpoint = Checkpoint.from_directory(folder)
            report({"loss": running / len(loader), "epoch": epoch}, checkpoint=checkpoint)

    if get_context().get_world_rank() == 0:
        target = get_context().get_storage().experiment_fs_path
        torch.save(averaged.module.state_dict(), os.path.join(target, "swa.pt"))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--swa-after", type=float, default=0.5, help="part of the epochs")
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()
    TorchTrainer(
        loop,
        train_loop_config={"epochs": args.epochs, "swa_after": args.swa_after},
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=1),
        ),
    ).fit()


if __name__ == "__main__":
    main()
