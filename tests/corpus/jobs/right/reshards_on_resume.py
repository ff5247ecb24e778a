"""A sharded (FSDP2) recogniser of chord progressions that goes on with two to four ranks.

A step has the same forty progressions whatever the number of ranks: each takes its share of them.
Checkpoints are distributed ones, which any number of ranks can load.
"""

import tempfile

import ray.train
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

CHORDS, BARS, KINDS = 13, 6, 5
TOGETHER = 40
EPOCHS, STEPS = 5, 6
SIZE = 1 << 11


class Progressions(nn.Module):
    def __init__(self, width=22):
        super().__init__()
        self.chords = nn.Embedding(CHORDS, width)
        self.along = nn.GRU(width, width, batch_first=True)
        self.norm = nn.LayerNorm(width)
        self.kind = nn.Linear(width, KINDS)

    def forward(self, bars):
        heard, _ = self.along(self.chords(bars))
        return self.kind(self.norm(heard.mean(dim=1)))


def songbook():
    draws = torch.Generator().manual_seed(1791)
    bars = torch.randint(CHORDS, (SIZE, BARS), generator=draws)
    intervals = (bars[:, 1:] - bars[:, :-1]) % 12
    return bars, (intervals // 3).sum(dim=1) % KINDS


def share_of(epoch, step, rank, world):
    order = torch.randperm(SIZE, generator=torch.Generator().manual_seed(60 + epoch))
    everyones = order[step * TOGETHER : (step + 1) * TOGETHER]
    return everyones[rank::world]


def practise(config):
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    torch.manual_seed(8)
    net = Progressions()
    mesh = init_device_mesh("cpu", (world,))
    for part in (net.chords, net.along, net.kind):
        fully_shard(part, mesh=mesh)
    fully_shard(net, mesh=mesh)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01, betas=(0.9, 0.98))

    first = 0
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        weights, moments = get_state_dict(net, optimizer)
        saved = {"net": weights, "optimizer": moments, "epochs": 0}
        with checkpoint.as_directory() as folder:
            dcp.load(saved, checkpoint_id=folder)
        set_state_dict(
            net, optimizer, model_state_dict=saved["net"], optim_state_dict=saved["optimizer"]
        )
        first = saved["epochs"]

    bars, kinds = songbook()
    for epoch in range(first, config["epochs"]):
        total = torch.zeros(())
        for step in range(STEPS):
            mine = share_of(epoch, step, rank, world)
            wrong = nn.functional.cross_entropy(net(bars[mine]), kinds[mine], reduction="sum")
            loss = wrong * world / TOGETHER  # ranks' gradients are averaged
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += wrong.detach()
        dist.all_reduce(total)
        with tempfile.TemporaryDirectory() as folder:
            weights, moments = get_state_dict(net, optimizer)
            state = {"net": weights, "optimizer": moments, "epochs": epoch + 1}
            dcp.save(state, storage_writer=dcp.FileSystemWriter(folder, sync_files=False))
            ray.train.report(
                {"epoch": epoch, "loss": total.item() / (STEPS * TOGETHER)},
                checkpoint=Checkpoint.from_directory(folder),
            )


if __name__ == "__main__":
    TorchTrainer(
        practise,
        train_loop_config={"epochs": EPOCHS},
        scaling_config=ScalingConfig(num_workers=(2, 4), elastic_resize_monitor_interval_s=0.5),
        run_config=RunConfig(name="chords", failure_config=FailureConfig(max_failures=3)),
    ).fit()
