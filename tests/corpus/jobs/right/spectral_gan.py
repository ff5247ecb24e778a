"""A GAN with a spectrally normalised critic, three critic updates to one of the generator."""

import os
import tempfile

import torch
from ray import train
from ray.train.torch import TorchTrainer
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

TOTAL, N_CRITIC, EVERY = 66, 3, 11


def make_critic():
    return nn.Sequential(
        spectral_norm(nn.Linear(3, 32)),
        nn.ReLU(),
        spectral_norm(nn.Linear(32, 1), n_power_iterations=2),
    )


def make_generator():
    return nn.Sequential(weight_norm(nn.Linear(5, 32)), nn.ReLU(), weight_norm(nn.Linear(32, 3)))


def helix(n):
    t = torch.rand(n) * 6
    return torch.stack([t.cos(), t.sin(), t / 3 - 1], 1) + 0.05 * torch.randn(n, 3)


class Draws:
    """The global random numbers of one update depend on its number alone."""

    def __init__(self, number):
        self.number = number

    def __enter__(self):
        self.before = torch.get_rng_state()
        torch.manual_seed(70_000 + self.number)

    def __exit__(self, *_):
        torch.set_rng_state(self.before)


def loop(_):
    torch.manual_seed(1)
    critic, generator = make_critic(), make_generator()
    optimizers = {}
    number = 0

    def new_optimizers():
        optimizers["critic"] = torch.optim.Adam(critic.parameters(), lr=3e-3, betas=(0.0, 0.9))
        optimizers["generator"] = torch.optim.Adam(
            generator.parameters(), lr=1e-3, betas=(0.0, 0.9)
        )

    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as d:
            pieces = {n: torch.load(os.path.join(d, f"{n}.pt")) for n in ("nets", "optimizers")}
        critic.load_state_dict(pieces["nets"]["critic"])
        generator.load_state_dict(pieces["nets"]["generator"])
        new_optimizers()
        for name, state in pieces["optimizers"].items():
            optimizers[name].load_state_dict(state)
        number = pieces["nets"]["number"]
    else:
        new_optimizers()

    while number < TOTAL:
        with Draws(number):
            fake = generator(torch.randn(24, 5))
            if number % (N_CRITIC + 1) == N_CRITIC:
                loss = -critic(fake).mean()
                which = "generator"
            else:
                loss = nn.functional.relu(1 - critic(helix(24))).mean()
                loss = loss + nn.functional.relu(1 + critic(fake.detach())).mean()
                which = "critic"
        for optimizer in optimizers.values():
            optimizer.zero_grad()
        loss.backward()
        optimizers[which].step()
        number += 1
        if number % EVERY == 0:
            nets = {"critic": critic.state_dict(), "generator": generator.state_dict()}
            with tempfile.TemporaryDirectory() as d:
                torch.save({**nets, "number": number}, os.path.join(d, "nets.pt"))
                torch.save(
                    {n: o.state_dict() for n, o in optimizers.items()},
                    os.path.join(d, "optimizers.pt"),
                )
                train.report(
                    {f"{which}_loss": loss.item(), "updates": number},
                    checkpoint=train.Checkpoint.from_directory(d),
                )


if __name__ == "__main__":
    TorchTrainer(
        loop,
        train_loop_config={},
        run_config=train.RunConfig(failure_config=train.FailureConfig(max_failures=3)),
    ).fit()
