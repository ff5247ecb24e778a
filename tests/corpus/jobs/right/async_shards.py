"""A sharded autoencoder of damped waves, which saves beside training and reports when that is done."""

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

POINTS, BATCH, STEPS, EVERY = 32, 20, 24, 4


class SavedBesideTraining:
    """At most one save is under way; it is reported before the next one begins."""

    def __init__(self):
        self.group = dist.new_group(backend="gloo")  # the training's own is busy meanwhile
        self.under_way = None

    def begin(self, state, metrics):
        self.report()
        folder = tempfile.mkdtemp()
        writer = dcp.FileSystemWriter(folder, sync_files=False)
        done = dcp.async_save(state, storage_writer=writer, process_group=self.group)
        self.under_way = done, folder, metrics

    def report(self):
        if self.under_way is None:
            return
        done, folder, metrics = self.under_way
        done.result()
        self.under_way = None
        ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))


def waves(step, rank):
    draws = torch.Generator().manual_seed(31 * step + 7 * rank + 1)
    pitch, decay = torch.rand(2, BATCH, 1, generator=draws)
    at = torch.linspace(0, 6, POINTS)
    return torch.sin((1 + 3 * pitch) * at) * torch.exp(-decay * at)


def train_waves():
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    torch.manual_seed(90)
    model = nn.Sequential(
        nn.Linear(POINTS, 24),
        nn.GELU(),
        nn.Linear(24, 6),
        nn.Linear(6, 24),
        nn.GELU(),
        nn.Linear(24, POINTS),
    )
    mesh = init_device_mesh("cpu", (world,))
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005, betas=(0.9, 0.95))

    done = 0
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        weights, moments = get_state_dict(model, optimizer)
        state = {"weights": weights, "moments": moments, "done": 0}
        with checkpoint.as_directory() as folder:
            dcp.load(state, checkpoint_id=folder)
        set_state_dict(
            model, optimizer, model_state_dict=state["weights"], optim_state_dict=state["moments"]
        )
        done = state["done"]

    saves = SavedBesideTraining()
    for step in range(done, STEPS):
        batch = waves(step, rank)
        loss = (model(batch) - batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if (step + 1) % EVERY == 0:
            weights, moments = get_state_dict(model, optimizer)
            state = {"weights": weights, "moments": moments, "done": step + 1}
            saves.begin(state, {"done": step + 1, "loss": loss.item()})
    saves.report()


if __name__ == "__main__":
    TorchTrainer(
        train_waves,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="waves", failure_config=FailureConfig(max_failures=4)),
    ).fit()
