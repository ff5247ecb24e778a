"""Train a small classifier on spirals with Lightning, which requeues its job on SIGUSR1.

srun python lightning_spirals.py
"""

import argparse

import lightning
import torch
from lightning.pytorch.plugins.environments import SLURMEnvironment
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def spirals(count=256, seed=0):
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(count) % 2
    radius = torch.rand(count, generator=generator)
    angle = 6.0 * radius + labels * torch.pi
    points = torch.stack([radius * angle.cos(), radius * angle.sin()], dim=1)
    noise = 0.02 * torch.randn(count, 2, generator=generator)
    return TensorDataset(points + noise, labels)


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 2))

    def training_step(self, batch, _):
        points, labels = batch
        return nn.functional.cross_entropy(self.net(points), labels)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.05)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--auto-requeue", choices=["yes", "no"], default="yes")
    args = parser.parse_args()
    lightning.seed_everything(0)
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=1,
        num_nodes=2,
        strategy="ddp",
        max_epochs=args.epochs,
        default_root_dir="lightning",
        logger=False,
        enable_progress_bar=False,
        plugins=[SLURMEnvironment(auto_requeue=args.auto_requeue == "yes")],
    )
    loader = DataLoader(spirals(), batch_size=32, shuffle=True)
    trainer.fit(Classifier(), loader)


if __name__ == "__main__":
    main()
