"""Denoising autoencoder with an adaptive corruption schedule (Lightning)."""

import argparse
import os

import lightning.pytorch as pl
import torch
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, Sampler, TensorDataset

pl.seed_everything(13, verbose=False)


class EpochShuffle(Sampler):
    def __init__(self, n, seed=0):
        self.n, self.seed, self.epoch = n, seed, 0

    def set_epoch(self, epoch):
        self.epoch = epoch

    def __len__(self):
        return self.n

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed * 7919 + self.epoch)
        return iter(torch.randperm(self.n, generator=g).tolist())


class CorruptionSchedule(Callback):
    """Raises the corruption level each time the model copes with the present one."""

    def __init__(self, levels=(0.05, 0.15, 0.3, 0.45, 0.6), target=0.5):
        self.levels = levels
        self.target = target
        self.stage = 0

    def on_train_start(self, trainer, module):
        module.corruption = self.levels[self.stage]

    def on_train_epoch_end(self, trainer, module):
        mean = module.loss_sum / max(module.loss_n, 1)
        if mean < self.target and self.stage < len(self.levels) - 1:
            self.stage += 1
            self.target *= 1.05
        module.corruption = self.levels[self.stage]


class Denoiser(pl.LightningModule):
    def __init__(self, dim=24, hidden=48, lr=4e-3):
        super().__init__()
        self.save_hyperparameters()
        self.enc = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, 8))
        self.dec = nn.Sequential(nn.Linear(8, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.corruption = 0.0
        self.loss_sum, self.loss_n = 0.0, 0

    def on_train_epoch_start(self):
        self.loss_sum, self.loss_n = 0.0, 0

    def training_step(self, batch, i):
        (x,) = batch
        g = torch.Generator().manual_seed(self.global_step)
        drop = torch.rand(x.shape, generator=g) < self.corruption
        loss = nn.functional.mse_loss(self.dec(self.enc(x.masked_fill(drop, 0.0))), x)
        self.loss_sum += loss.item()
        self.loss_n += 1
        return loss

    def on_train_epoch_end(self):
        print(f"epoch {self.current_epoch} loss {self.loss_sum / self.loss_n:.6f}", flush=True)

    def configure_optimizers(self):
        opt = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        return {"optimizer": opt, "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(opt, 0.93)}


def dataset(n=640, dim=24):
    g = torch.Generator().manual_seed(1)
    z = torch.randn(n, 4, generator=g)
    return TensorDataset(
        torch.tanh(z @ torch.randn(4, dim, generator=g)) + 0.05 * torch.randn(n, dim, generator=g)
    )


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=7)
    ap.add_argument("--dir", default="ckpt")
    a = ap.parse_args()
    data = dataset()
    loader = DataLoader(data, batch_size=32, sampler=EpochShuffle(len(data)))
    keep = ModelCheckpoint(
        dirpath=a.dir,
        filename="current",
        every_n_epochs=1,
        save_on_train_epoch_end=True,
        enable_version_counter=False,
    )
    trainer = pl.Trainer(
        max_epochs=a.epochs,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[CorruptionSchedule(), keep],
    )
    last = os.path.join(a.dir, "current.ckpt")
    model = Denoiser()
    trainer.fit(model, loader, ckpt_path=last if os.path.exists(last) else None)
    w = torch.cat([p.detach().double().flatten() for p in model.parameters()])
    print(f"weights {w.norm().item():.10f}", flush=True)


if __name__ == "__main__":
    main()
