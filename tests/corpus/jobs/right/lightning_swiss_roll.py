"""A denoising autoencoder in plain Lightning: callbacks and data module carry state of their own."""

import os
import tempfile

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, EarlyStopping
from ray import train
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import make_swiss_roll
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Roll(pl.LightningDataModule):
    """Shuffled by a generator that lives as long as the module, and is saved with it."""

    def __init__(self):
        super().__init__()
        points, _ = make_swiss_roll(n_samples=320, noise=0.1, random_state=5)
        points = torch.tensor(points / 10, dtype=torch.float32)
        self.train_set, self.valid_set = TensorDataset(points[:240]), TensorDataset(points[240:])
        self.order = torch.Generator().manual_seed(55)

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=30, shuffle=True, generator=self.order)

    def val_dataloader(self):
        return DataLoader(self.valid_set, batch_size=80)

    def state_dict(self):
        return {"order": self.order.get_state()}

    def load_state_dict(self, state):
        self.order.set_state(state["order"])


class Autoencoder(pl.LightningModule):
    def __init__(self, total_steps):
        super().__init__()
        self.total_steps = total_steps
        self.net = nn.Sequential(
            nn.Linear(3, 24),
            nn.GELU(),
            nn.Linear(24, 2),
            nn.Linear(2, 24),
            nn.GELU(),
            nn.Linear(24, 3),
        )
        self.noise = torch.Generator().manual_seed(66)

    def training_step(self, batch, index):
        (points,) = batch
        noisy = points + 0.05 * torch.randn(points.shape, generator=self.noise)
        loss = nn.functional.mse_loss(self.net(noisy), points)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        (points,) = batch
        self.log("valid_loss", nn.functional.mse_loss(self.net(points), points))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=self.total_steps)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": schedule, "interval": "step"},
        }

    def on_save_checkpoint(self, checkpoint):
        checkpoint["noise"] = self.noise.get_state()

    def on_load_checkpoint(self, checkpoint):
        self.noise.set_state(checkpoint["noise"])


class ToRay(Callback):
    """The numbers go to Ray after each epoch, the state after every second."""

    def __init__(self):
        self.handed_over = 0

    def state_dict(self):
        return {"handed_over": self.handed_over}

    def load_state_dict(self, state):
        self.handed_over = state["handed_over"]

    def on_train_epoch_end(self, trainer, module):
        metrics = {name: float(value) for name, value in trainer.callback_metrics.items()}
        if trainer.current_epoch % 2 == 0:
            train.report(metrics)
            return
        self.handed_over += 1
        metrics["handed_over"] = self.handed_over
        with tempfile.TemporaryDirectory() as folder:
            trainer.save_checkpoint(os.path.join(folder, "last.ckpt"))
            train.report(metrics, checkpoint=train.Checkpoint.from_directory(folder))


def train_fn(config):
    pl.seed_everything(3, verbose=False)
    trainer = pl.Trainer(
        max_epochs=config["max_epochs"],
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[
            EarlyStopping(
                "valid_loss",
                patience=2,
                min_delta=config["min_delta"],
                check_on_train_epoch_end=False,  # after validation, so before the state is saved
            ),
            ToRay(),
        ],
    )
    model = Autoencoder(total_steps=8 * config["max_epochs"])
    checkpoint = train.get_checkpoint()
    if checkpoint is None:
        trainer.fit(model, datamodule=Roll())
        return
    with checkpoint.as_directory() as folder:
        path = os.path.join(folder, "last.ckpt")
        trainer.fit(model, datamodule=Roll(), ckpt_path=path, weights_only=False)


if __name__ == "__main__":
    TorchTrainer(
        train_fn,
        train_loop_config={"max_epochs": 10, "min_delta": 0.005},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="roll", failure_config=FailureConfig(max_failures=3)),
    ).fit()
