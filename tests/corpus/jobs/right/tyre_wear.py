"""Wear of tyres from rides: a shuffled map-style set, read by two processes and resumed in place."""

import argparse
import shutil
import tempfile
from pathlib import Path

import ray.train
import torch
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch.utils.data import Dataset
from torchdata.stateful_dataloader import StatefulDataLoader


class Rides(Dataset):
    """The rides of one of several fleets; wear grows with load, speed and heat."""

    def __init__(self, fleet, count=108):
        draws = torch.Generator().manual_seed(700 + fleet)
        self.rides = torch.rand(count, 5, generator=draws)
        load, speed, heat, _, brakes = self.rides.T
        noise = 0.02 * torch.randn(count, generator=draws)
        self.wear = load * speed + 0.5 * heat.square() + 0.3 * (brakes > 0.7) + noise

    def __len__(self):
        return len(self.wear)

    def __getitem__(self, index):
        return self.rides[index], self.wear[index]


def restored(checkpoint, rank, parts):
    with checkpoint.as_directory() as folder:
        shared = torch.load(Path(folder) / "shared.pt")
        own = torch.load(Path(folder) / f"rank{rank}.pt", weights_only=False)
    parts["model"].load_state_dict(shared["model"])
    parts["optimizer"].load_state_dict(shared["optimizer"])
    parts["loader"].load_state_dict(own["loader"])
    return shared["steps"], own["random"]


def stored(folder, rank, steps, parts):
    if rank == 0:
        shared = {name: parts[name].state_dict() for name in ("model", "optimizer")}
        torch.save({**shared, "steps": steps}, folder / "shared.pt")
    own = {"loader": parts["loader"].state_dict(), "random": torch.get_rng_state()}
    torch.save(own, folder / f"rank{rank}.pt")
    return Checkpoint.from_directory(folder)


def wear(config):
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(16)
    net = torch.nn.Sequential(
        torch.nn.Linear(5, 24), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(24, 1)
    )
    model = prepare_model(net)
    torch.manual_seed(170 + rank)
    parts = {
        "model": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9),
        "loader": StatefulDataLoader(
            Rides(rank), batch_size=9, shuffle=True, num_workers=2, prefetch_factor=2
        ),
    }
    steps, random = 0, None
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        steps, random = restored(checkpoint, rank, parts)

    per_epoch = len(parts["loader"])
    while steps < config["epochs"] * per_epoch:
        batches = iter(parts["loader"])
        if random is not None:  # only now: a loader that begins draws a seed
            torch.set_rng_state(random)
            random = None
        for rides, truth in batches:
            loss = torch.nn.functional.l1_loss(model(rides).squeeze(1), truth)
            parts["optimizer"].zero_grad()
            loss.backward()
            parts["optimizer"].step()
            steps += 1
            if steps % per_epoch in (4, 8):
                folder = Path(tempfile.mkdtemp())
                checkpoint = stored(folder, rank, steps, parts)
                ray.train.report({"steps": steps, "wear": loss.item()}, checkpoint=checkpoint)
                shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    TorchTrainer(
        wear,
        train_loop_config=vars(parser.parse_args()),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="tyres",
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    ).fit()
