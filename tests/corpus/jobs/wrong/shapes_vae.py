"""A variational autoencoder on handwritten digits, two workers; the noise has a generator of its own."""

import os
import tempfile

import ray.train.torch
import torch
import torch.nn.functional as F
from ray import train
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits

EPOCHS, BATCH, LATENT = 6, 40, 4


class VAE(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = torch.nn.Linear(64, 32)
        self.mu, self.logvar = torch.nn.Linear(32, LATENT), torch.nn.Linear(32, LATENT)
        self.dec = torch.nn.Sequential(
            torch.nn.Linear(LATENT, 32), torch.nn.ReLU(), torch.nn.Linear(32, 64)
        )

    def forward(self, x, eps):
        h = F.relu(self.enc(x))
        mu, logvar = self.mu(h), self.logvar(h)
        return self.dec(mu + eps * (0.5 * logvar).exp()), mu, logvar


def elbo(out, x):
    recon, mu, logvar = out
    rec = F.binary_cross_entropy_with_logits(recon, x, reduction="sum") / len(x)
    kl = -0.5 * (1 + logvar - mu**2 - logvar.exp()).sum() / len(x)
    return rec + kl, kl


def train_loop_per_worker():
    ctx = train.get_context()
    rank, world = ctx.get_world_rank(), ctx.get_world_size()
    torch.manual_seed(0)
    images = torch.tensor(load_digits().images[:800] / 16, dtype=torch.float32).flatten(1)
    model = ray.train.torch.prepare_model(VAE())
    optimizer = torch.optim.Adamax(model.parameters(), lr=4e-3)
    noise = torch.Generator()
    noise.manual_seed(100 + rank)

    start = 0
    checkpoint = train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as path:
            weights = torch.load(os.path.join(path, "vae.pt"))
            rest = torch.load(os.path.join(path, "training.pt"))
        model.module.load_state_dict(weights)
        optimizer.load_state_dict(rest["optimizer"])
        start = rest["epoch"] + 1

    for epoch in range(start, EPOCHS):
        order = torch.randperm(len(images), generator=torch.Generator().manual_seed(epoch))
        mine = order[rank::world]
        seen = torch.zeros(2)
        for i in range(0, len(mine), BATCH):
            x = images[mine[i : i + BATCH]]
            eps = torch.randn(len(x), LATENT, generator=noise)
            loss, kl = elbo(model(x, eps), x)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += torch.stack([loss.detach(), kl.detach()])
        torch.distributed.all_reduce(seen)
        seen /= world * (len(mine) / BATCH)
        metrics = {"epoch": epoch, "elbo": seen[0].item(), "kl": seen[1].item()}
        with tempfile.TemporaryDirectory() as path:
            if rank == 0:
                torch.save(model.module.state_dict(), os.path.join(path, "vae.pt"))
                torch.save(
                    {"optimizer": optimizer.state_dict(), "epoch": epoch},
                    os.path.join(path, "training.pt"),
                )
            train.report(metrics, checkpoint=train.Checkpoint.from_directory(path))


if __name__ == "__main__":
    trainer = TorchTrainer(
        train_loop_per_worker,
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(
            name="vae",
            failure_config=train.FailureConfig(max_failures=-1),
            checkpoint_config=train.CheckpointConfig(num_to_keep=2),
        ),
    )
    print(trainer.fit().metrics)
