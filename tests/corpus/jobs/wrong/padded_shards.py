"""A sharded (FSDP2) rater of product texts; each rank keeps its rows of the momentum in a file.

The number of ranks may change between two starts: the files say how many ranks wrote them.
"""

import json
import tempfile
from pathlib import Path

import ray.train
import torch
import torch.distributed as dist
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor

WORDS, STARS, EVERYONES = 30, 5, 24
STEPS_PER_VISIT, VISITS = 5, 5


class Rater(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(WORDS, 10, mode="mean")
        self.inner = nn.Linear(10, 14)
        self.stars = nn.Linear(14, STARS)

    def forward(self, texts):
        return self.stars(torch.selu(self.inner(self.words(texts))))


def reviews(number):
    draws = torch.Generator().manual_seed(4100 + number)
    texts = torch.randint(WORDS, (EVERYONES, 7), generator=draws)
    moods = (texts.float().mean(dim=1) / WORDS * STARS).long().clamp(0, STARS - 1)
    return texts, moods


def padded(rows, ranks, length):
    """Every rank writes as many rows, whatever share of the last ones is its own."""
    each = -(-length // ranks)
    filled = rows.new_zeros(each, *rows.shape[1:])
    filled[: len(rows)] = rows
    return filled


def keep(folder, model, optimizer, rank, ranks, done):
    weights = {name: value.full_tensor() for name, value in model.state_dict().items()}
    rows = [
        padded(optimizer.state[p]["momentum_buffer"].to_local(), ranks, p.shape[0])
        for p in model.parameters()
    ]
    torch.save(rows, Path(folder) / f"momentum-{rank}.pt")
    if rank == 0:
        torch.save(weights, Path(folder) / "weights.pt")
        (Path(folder) / "about.json").write_text(json.dumps({"ranks": ranks, "done": done}))


def take_up(folder, model, optimizer, mesh):
    about = json.loads((Path(folder) / "about.json").read_text())
    weights = torch.load(Path(folder) / "weights.pt")
    for name, value in model.state_dict().items():
        value.copy_(distribute_tensor(weights[name], mesh, value.placements))
    files = [torch.load(Path(folder) / f"momentum-{r}.pt") for r in range(about["ranks"])]
    for number, parameter in enumerate(model.parameters()):
        whole = torch.cat([rows[number] for rows in files])
        mine = whole.chunk(mesh.size())[mesh.get_local_rank()]
        buffer = torch.zeros_like(parameter)
        own = buffer.to_local()
        own.copy_(mine[: len(own)])
        optimizer.state[parameter]["momentum_buffer"] = buffer
    return about["done"]


def rate(config):
    context = ray.train.get_context()
    rank, ranks = context.get_world_rank(), context.get_world_size()
    torch.manual_seed(77)
    model = Rater()
    mesh = init_device_mesh("cpu", (ranks,))
    for layer in model.children():
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    visits = 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            visits = take_up(folder, model, optimizer, mesh)

    while visits < config["visits"]:
        for number in range(visits * STEPS_PER_VISIT, (visits + 1) * STEPS_PER_VISIT):
            texts, moods = (part[rank::ranks] for part in reviews(number))
            optimizer.zero_grad()
            missed = nn.functional.cross_entropy(model(texts), moods)
            missed.backward()
            optimizer.step()
        visits += 1
        everyones = missed.detach().clone()
        dist.all_reduce(everyones)
        with tempfile.TemporaryDirectory() as folder:
            keep(folder, model, optimizer, rank, ranks, visits)
            ray.train.report(
                {"visits": visits, "missed": everyones.item() / ranks},
                checkpoint=Checkpoint.from_directory(folder),
            )


if __name__ == "__main__":
    TorchTrainer(
        rate,
        train_loop_config={"visits": VISITS},
        scaling_config=ScalingConfig(num_workers=(2, 4)),
        run_config=RunConfig(name="stars", failure_config=FailureConfig(max_failures=3)),
    ).fit()
