"""A compiled stack of mixing blocks on noisy chords, saved by its own names."""

import tempfile
from pathlib import Path

import ray.train.torch
import torch
from ray import train
from torch import nn

TONES, BARS = 16, 120


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        return x + torch.nn.functional.silu(self.mix(self.norm(x)))


def new_model():
    return nn.Sequential(nn.Linear(TONES, 20), Block(20), Block(20), nn.Linear(20, TONES))


def chords(epoch):
    draws = torch.Generator().manual_seed(70 + epoch)
    roots = torch.randint(TONES, (BARS, 1), generator=draws)
    clean = torch.zeros(BARS, TONES).scatter_(1, (roots + torch.tensor([0, 4, 7])) % TONES, 1.0)
    return (clean + 0.4 * torch.randn(BARS, TONES, generator=draws)).split(20), clean.split(20)


def build(checkpoint):
    """Return the network that is saved, the compiled one, and what was saved before."""
    network = new_model()
    if checkpoint is None:
        return network, torch.compile(network, backend="eager"), None
    with checkpoint.as_directory() as folder:
        saved = torch.load(Path(folder) / "blocks.pth")
    network = torch.compile(network, backend="eager")
    network.load_state_dict({f"_orig_mod.{name}": v for name, v in saved["model"].items()})
    return network, network, saved


def denoise():
    torch.manual_seed(19)
    network, model, saved = build(train.get_checkpoint())
    optimizer = torch.optim.NAdam(network.parameters(), lr=0.004)
    first = 0
    if saved is not None:
        optimizer.load_state_dict(saved["optimizer"])
        first = saved["epoch"] + 1

    for epoch in range(first, 7):
        total = 0.0
        for noisy, clean in zip(*chords(epoch), strict=True):
            loss = (model(noisy) - clean).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item()
        with tempfile.TemporaryDirectory() as folder:
            torch.save(
                {
                    "model": network.state_dict(),
                    "optimizer": optimizer.state_dict(),
                    "epoch": epoch,
                },
                Path(folder) / "blocks.pth",
            )
            train.report({"mse": total}, checkpoint=train.Checkpoint.from_directory(folder))


if __name__ == "__main__":
    ray.train.torch.TorchTrainer(
        denoise,
        scaling_config=train.ScalingConfig(num_workers=1),
        run_config=train.RunConfig(
            name="chords", failure_config=train.FailureConfig(max_failures=4)
        ),
    ).fit()
