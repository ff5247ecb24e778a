"""Depth of snow in a valley: Lightning under torchrun, with samplers and loaders that keep a state."""

import os

import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import Dataset
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

WHERE, EPOCHS, BATCH, SITES = "snow_depths", 3, 7, 168


class Sites(Dataset):
    def __init__(self):
        draws = torch.Generator().manual_seed(1999)
        self.seen = torch.rand(SITES, 4, generator=draws)
        high, shade, wind, trees = self.seen.T
        self.depth = 1.5 * high * (0.6 + 0.4 * shade) - 0.3 * wind * (1 - trees)

    def __len__(self):
        return SITES

    def __getitem__(self, site):
        return self.seen[site], self.depth[site]


class Valley(L.LightningDataModule):
    def train_dataloader(self):
        sites = Sites()
        sampler = StatefulDistributedSampler(sites, seed=2)
        return StatefulDataLoader(sites, batch_size=BATCH, sampler=sampler)


class Depth(L.LightningModule):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps
        self.first, self.last = nn.Linear(4, 20), nn.Linear(20, 1)

    def training_step(self, batch, batch_idx):
        seen, depth = batch
        return nn.functional.l1_loss(self.last(self.first(seen).relu())[:, 0], depth)

    def configure_optimizers(self):
        adam = torch.optim.AdamW(self.parameters(), lr=0.01)
        rise = torch.optim.lr_scheduler.OneCycleLR(adam, 0.05, total_steps=self.steps)
        return {"optimizer": adam, "lr_scheduler": {"scheduler": rise, "interval": "step"}}


if __name__ == "__main__":
    L.seed_everything(82)
    found = sorted(os.listdir(WHERE)) if os.path.isdir(WHERE) else []
    L.Trainer(
        accelerator="cpu",
        devices=2,
        max_epochs=EPOCHS,
        use_distributed_sampler=False,
        callbacks=[ModelCheckpoint(WHERE, "{step:04d}", every_n_train_steps=5, save_top_k=-1)],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    ).fit(
        Depth(EPOCHS * SITES // (2 * BATCH)),
        datamodule=Valley(),
        ckpt_path=os.path.join(WHERE, found[-1]) if found else None,
    )
