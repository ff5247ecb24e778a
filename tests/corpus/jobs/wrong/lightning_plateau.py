"""Plain Lightning with its own early stopping and checkpoints; Ray gets a copy every other epoch."""

import os
import tempfile

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import EarlyStopping, LambdaCallback, ModelCheckpoint
from ray import train
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from sklearn.datasets import make_blobs
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset


class EpochOrder(Sampler):
    """Another order for each epoch; Lightning calls `set_epoch`."""

    def __init__(self, n):
        self.n, self.epoch = n, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.n

    def __iter__(self):
        g = torch.Generator().manual_seed(self.epoch)
        return iter(torch.randperm(self.n, generator=g).tolist())


class Blobs(pl.LightningDataModule):
    def setup(self, stage):
        x, y = make_blobs(n_samples=360, centers=5, n_features=3, cluster_std=4.0, random_state=8)
        x, y = torch.tensor(x / 5, dtype=torch.float32), torch.tensor(y)
        self.train_set = TensorDataset(x[:240], y[:240])
        self.valid_set = TensorDataset(x[240:], y[240:])

    def train_dataloader(self):
        order = EpochOrder(len(self.train_set))
        return DataLoader(self.train_set, batch_size=30, sampler=order)

    def val_dataloader(self):
        return DataLoader(self.valid_set, batch_size=120)


class Classifier(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, 20), nn.LeakyReLU(), nn.Linear(20, 5))

    def training_step(self, batch, index):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, index):
        x, y = batch
        self.log("valid_loss", nn.functional.cross_entropy(self.net(x), y))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.1)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.3)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": plateau, "monitor": "valid_loss"},
        }


def hand_over(trainer, module):
    """Every second epoch, and at the end, the state goes to Ray; the numbers always."""
    metrics = {"epoch": trainer.current_epoch}
    metrics.update((k, float(v)) for k, v in trainer.callback_metrics.items())
    if trainer.current_epoch % 2 == 0:
        train.report(metrics)
        return
    with tempfile.TemporaryDirectory() as folder:
        trainer.save_checkpoint(os.path.join(folder, "last.ckpt"))
        train.report(metrics, checkpoint=train.Checkpoint.from_directory(folder))


def train_fn(config):
    pl.seed_everything(3, verbose=False)
    scratch = tempfile.mkdtemp(prefix="pl-")
    trainer = pl.Trainer(
        max_epochs=config["max_epochs"],
        accelerator="cpu",
        devices=1,
        default_root_dir=scratch,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        callbacks=[
            EarlyStopping("valid_loss", patience=config["patience"]),
            ModelCheckpoint(dirpath=scratch, monitor="valid_loss", save_top_k=1),
            LambdaCallback(on_train_epoch_end=hand_over),
        ],
    )
    checkpoint = train.get_checkpoint()
    if checkpoint is None:
        trainer.fit(Classifier(), datamodule=Blobs())
        return
    with checkpoint.as_directory() as folder:
        path = os.path.join(folder, "last.ckpt")
        trainer.fit(Classifier(), datamodule=Blobs(), ckpt_path=path, weights_only=False)


if __name__ == "__main__":
    TorchTrainer(
        train_fn,
        train_loop_config={"max_epochs": 12, "patience": 3},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="blobs", failure_config=FailureConfig(max_failures=3)),
    ).fit()
