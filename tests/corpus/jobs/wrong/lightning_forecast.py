"""Forecasts a load curve with a plain Lightning trainer inside a Ray Train worker."""

import argparse
import os
import tempfile

import lightning as L
import ray.train
import torch
from lightning.pytorch.callbacks import Callback
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WINDOW = 12


def load_curve(hours=400):
    t = torch.arange(hours, dtype=torch.float32)
    noise = torch.randn(hours, generator=torch.Generator().manual_seed(6))
    return torch.sin(t * 2 * torch.pi / 24) + 0.3 * torch.sin(t * 2 * torch.pi / 168) + 0.05 * noise


def windows(series):
    x = series.unfold(0, WINDOW + 1, 1)
    return TensorDataset(x[:, :-1].contiguous(), x[:, -1:].contiguous())


class Forecaster(L.LightningModule):
    def __init__(self, lr=0.02, hidden=24):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Linear(WINDOW, hidden), nn.GELU(), nn.Linear(hidden, 1))

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.mse_loss(self.net(x), y)
        self.log("train_loss", loss, on_epoch=True, on_step=False)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.log("val_mae", nn.functional.l1_loss(self.net(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.NAdam(self.parameters(), lr=self.hparams.lr)
        scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.7)
        return [optimizer], [scheduler]


class ReportToRay(Callback):
    def __init__(self, epochs_before):
        self.epochs_before = epochs_before

    def on_train_epoch_end(self, trainer, module):
        epochs_done = self.epochs_before + trainer.current_epoch + 1
        metrics = {k: v.item() for k, v in trainer.callback_metrics.items()}
        with tempfile.TemporaryDirectory() as folder:
            trainer.save_checkpoint(os.path.join(folder, f"after-{epochs_done}.ckpt"))
            ray.train.report(
                {**metrics, "epochs": epochs_done}, checkpoint=Checkpoint.from_directory(folder)
            )


def train_func(config):
    L.seed_everything(config["seed"])
    curve = load_curve()
    train_loader = DataLoader(windows(curve[:300]), batch_size=36)
    val_loader = DataLoader(windows(curve[300:]), batch_size=128)

    epochs_done = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            (name,) = os.listdir(folder)
            module = Forecaster.load_from_checkpoint(os.path.join(folder, name))
        epochs_done = int(name.removeprefix("after-").removesuffix(".ckpt"))
    else:
        module = Forecaster(lr=config["lr"])

    trainer = L.Trainer(
        max_epochs=config["epochs"] - epochs_done,
        accelerator="cpu",
        devices=1,
        callbacks=[ReportToRay(epochs_done)],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    if epochs_done < config["epochs"]:
        trainer.fit(module, train_loader, val_loader)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=1)
    TorchTrainer(
        train_func,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="load-curve", failure_config=FailureConfig(max_failures=2)),
    ).fit()
