"""A vector-quantised autoencoder whose codebook follows moving averages, on three workers."""

import os
import tempfile

import ray.train
import torch
import torch.distributed as dist
from ray.train.torch import TorchTrainer
from torch import nn

STEPS, SAVE_EVERY, BATCH = 48, 8, 24


class Codebook(nn.Module):
    """Codes are no parameters: each is the running mean of the vectors that chose it."""

    def __init__(self, n_codes, dim, decay=0.9):
        super().__init__()
        self.decay = decay
        self.register_buffer("codes", torch.randn(n_codes, dim))
        self.sizes = torch.ones(n_codes)
        self.sums = self.codes.clone()

    def forward(self, z):
        chosen = torch.cdist(z, self.codes).argmin(dim=1)
        if self.training:
            self.follow(z.detach(), chosen)
        quantised = self.codes[chosen]
        return z + (quantised - z).detach(), (z - quantised.detach()).pow(2).mean()

    @torch.no_grad()
    def follow(self, z, chosen):
        onehot = nn.functional.one_hot(chosen, len(self.codes)).to(z.dtype)
        stats = torch.cat([onehot.sum(0, keepdim=True).T, onehot.T @ z], dim=1)
        dist.all_reduce(stats)
        self.sizes.mul_(self.decay).add_(stats[:, 0], alpha=1 - self.decay)
        self.sums.mul_(self.decay).add_(stats[:, 1:], alpha=1 - self.decay)
        self.codes.copy_(self.sums / self.sizes.clamp_min(1e-3).unsqueeze(1))


class VQ(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 3))
        self.codebook = Codebook(16, 3)
        self.decoder = nn.Sequential(nn.Linear(3, 24), nn.ReLU(), nn.Linear(24, 12))

    def forward(self, x):
        z, commitment = self.codebook(self.encoder(x))
        return nn.functional.mse_loss(self.decoder(z), x) + 0.25 * commitment


def batch(step, rank):
    g = torch.Generator().manual_seed(9_000 + 31 * step + rank)
    centres = torch.linspace(-2, 2, 6 * 12).view(6, 12).sin() * 2
    return centres[torch.randint(6, (BATCH,), generator=g)] + 0.2 * torch.randn(
        BATCH, 12, generator=g
    )


def train_vq():
    rank = ray.train.get_context().get_world_rank()
    world = ray.train.get_context().get_world_size()
    torch.manual_seed(21)
    model = VQ()
    adam = torch.optim.Adam(model.parameters(), lr=4e-3, amsgrad=True)
    first = 0
    resumed = ray.train.get_checkpoint()
    if resumed:
        with resumed.as_directory() as folder:
            saved = torch.load(os.path.join(folder, "vq.pt"))
            model.load_state_dict(saved["vq"])
            adam.load_state_dict(saved["adam"])
            first = saved["step"]

    for step in range(first, STEPS):
        loss = model(batch(step, rank))
        adam.zero_grad()
        loss.backward()
        for p in model.parameters():
            dist.all_reduce(p.grad)
            p.grad /= world
        adam.step()
        if (step + 1) % SAVE_EVERY == 0:
            mean = loss.detach().clone()
            dist.all_reduce(mean)
            with tempfile.TemporaryDirectory() as folder:
                if rank == 0:
                    saved = {"vq": model.state_dict(), "adam": adam.state_dict(), "step": step + 1}
                    torch.save(saved, os.path.join(folder, "vq.pt"))
                ray.train.report(
                    {"loss": mean.item() / world, "step": step + 1},
                    checkpoint=ray.train.Checkpoint.from_directory(folder),
                )


if __name__ == "__main__":
    TorchTrainer(
        train_vq,
        scaling_config=ray.train.ScalingConfig(num_workers=3),
        run_config=ray.train.RunConfig(
            failure_config=ray.train.FailureConfig(max_failures=3),
            checkpoint_config=ray.train.CheckpointConfig(num_to_keep=2),
        ),
    ).fit()
