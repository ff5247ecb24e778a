"""How far dunes drift: Lightning on two processes, a one-cycle schedule, a loader with a state."""

import lightning
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from pathlib import Path
from torch.utils.data import TensorDataset
from torchdata.stateful_dataloader import StatefulDataLoader
from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

FOLDER = Path("dune_drift")


def dunes(count=168):
    draws = torch.Generator().manual_seed(1941)
    wind, height, wet = torch.rand(3, count, generator=draws)
    drift = wind**3 / (0.3 + height) * (1 - 0.8 * wet)
    return TensorDataset(torch.stack([wind, height, wet], 1), drift)


class Drift(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(3, 24), torch.nn.Tanh(), torch.nn.Linear(24, 1)
        )

    def training_step(self, batch):
        known, drift = batch
        return torch.nn.functional.mse_loss(self.net(known).squeeze(1), drift)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        steps = self.trainer.estimated_stepping_batches
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.2, total_steps=steps)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    def train_dataloader(self):
        data = dunes()
        sampler = StatefulDistributedSampler(data, seed=6)
        return StatefulDataLoader(data, batch_size=7, sampler=sampler)


def main():
    lightning.seed_everything(28)
    saves = ModelCheckpoint(FOLDER, every_n_train_steps=5, save_top_k=-1, filename="{step:03d}")
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=2,
        strategy="ddp",
        use_distributed_sampler=False,
        max_epochs=3,
        callbacks=[saves],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    newest = max(FOLDER.glob("*.ckpt"), default=None)
    trainer.fit(Drift(), ckpt_path=newest)


if __name__ == "__main__":
    main()
