"""First an autoencoder, then a classifier on its encoder; one list of epochs for both phases."""

import os
import tempfile

import ray.train
import ray.train.torch
import torch
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits
from torch import nn

PHASES = [("autoencoder", 4), ("classifier", 4)]


class Autoencoder(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        self.decoder = nn.Linear(16, 64)

    def forward(self, x):
        return self.decoder(self.encoder(x))


def build_phase(name, encoder):
    """A network, wrapped for the workers, and an optimizer of its own."""
    torch.manual_seed(len(name))
    if name == "autoencoder":
        net = Autoencoder(encoder)
        make = lambda parameters: torch.optim.Adam(parameters, lr=3e-3)
    else:
        net = nn.Sequential(encoder, nn.ReLU(), nn.Linear(16, 10))
        make = lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9)
    wrapped = ray.train.torch.prepare_model(net)
    return wrapped, make(wrapped.parameters())


def schedule_of_phases():
    for name, epochs in PHASES:
        for epoch in range(epochs):
            yield name, epoch


def train_two_phases():
    rank = ray.train.get_context().get_world_rank()
    world = ray.train.get_context().get_world_size()
    data = load_digits()
    x = torch.tensor(data.data[:512] / 16, dtype=torch.float32)
    y = torch.tensor(data.target[:512])
    torch.manual_seed(0)
    encoder = nn.Sequential(nn.Linear(64, 32), nn.Sigmoid(), nn.Linear(32, 16))

    saved = None
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as d:
            saved = torch.load(os.path.join(d, "phase.pt"))
        encoder.load_state_dict(saved["encoder"])

    current, net, optimizer = None, None, None
    for index, (phase, epoch) in enumerate(schedule_of_phases()):
        if saved is not None and index <= saved["index"]:
            continue
        if phase != current:
            net, optimizer = build_phase(phase, encoder)
            if saved is not None and saved["phase"] == phase:
                net.load_state_dict(saved["net"])
                optimizer.load_state_dict(saved["optimizer"])
            current = phase
        shuffled = torch.randperm(512, generator=torch.Generator().manual_seed(index))
        for rows in shuffled[rank::world].split(64):
            out = net(x[rows])
            if phase == "autoencoder":
                loss = nn.functional.mse_loss(out, x[rows])
            else:
                loss = nn.functional.cross_entropy(out, y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        with tempfile.TemporaryDirectory() as d:
            if rank == 0:
                torch.save(
                    {
                        "index": index,
                        "phase": phase,
                        "encoder": encoder.state_dict(),
                        "net": net.state_dict(),
                        "optimizer": optimizer.state_dict(),
                    },
                    os.path.join(d, "phase.pt"),
                )
            ray.train.report(
                {f"{phase}_loss": loss.item(), "epoch": epoch},
                checkpoint=ray.train.Checkpoint.from_directory(d),
            )


trainer = TorchTrainer(
    train_two_phases,
    scaling_config=ray.train.ScalingConfig(num_workers=2),
    run_config=ray.train.RunConfig(failure_config=ray.train.FailureConfig(max_failures=3)),
)

if __name__ == "__main__":
    trainer.fit()
