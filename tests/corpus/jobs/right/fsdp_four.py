"""A sharded (FSDP2) sequence tagger on four ranks, with distributed checkpoints."""

import os
import tempfile

import ray.train
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.checkpoint.stateful import Stateful
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

VOCAB, TAGS, LENGTH = 20, 4, 10


class Tagger(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, dim)
        self.mix = nn.Conv1d(dim, dim, 3, padding=1)
        self.hidden = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, TAGS)

    def forward(self, tokens):
        x = self.mix(self.embed(tokens).transpose(1, 2)).transpose(1, 2)
        return self.out(torch.tanh(self.hidden(torch.relu(x))))


class AppState(Stateful):
    """What PyTorch's tutorial calls so: model and optimizer, sharded, and the step."""

    def __init__(self, model, optimizer):
        self.model, self.optimizer = model, optimizer
        self.step = 0

    def state_dict(self):
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "step": torch.tensor(self.step)}

    def load_state_dict(self, state):
        set_state_dict(
            self.model,
            self.optimizer,
            model_state_dict=state["model"],
            optim_state_dict=state["optimizer"],
        )
        self.step = int(state["step"])


def sentences(step, rank, n=8):
    g = torch.Generator().manual_seed(4 * step + rank)
    tokens = torch.randint(VOCAB, (n, LENGTH), generator=g)
    tags = (tokens + tokens.roll(1, dims=1)) % TAGS
    return tokens, tags


def fit_tagger(config):
    context = ray.train.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    torch.manual_seed(23)
    mesh = init_device_mesh("cpu", (world,), mesh_dim_names=("shard",))
    model = Tagger()
    fully_shard(model.hidden, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, weight_decay=0.05)
    app = AppState(model, optimizer)

    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            dcp.load({"app": app}, checkpoint_id=folder)

    while app.step < config["steps"]:
        tokens, tags = sentences(app.step, rank)
        loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tags.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        app.step += 1
        if app.step % config["save_every"] == 0:
            everyones = [torch.zeros(()) for _ in range(world)]
            dist.all_gather(everyones, loss.detach())
            with tempfile.TemporaryDirectory() as folder:
                dcp.save(
                    {"app": app},
                    storage_writer=dcp.FileSystemWriter(folder, sync_files=False),
                )
                ray.train.report(
                    {"step": app.step, "loss": torch.stack(everyones).mean().item()},
                    checkpoint=Checkpoint.from_directory(folder),
                )


if __name__ == "__main__":
    TorchTrainer(
        fit_tagger,
        train_loop_config={"steps": 20, "save_every": 4},
        scaling_config=ScalingConfig(num_workers=4),
        run_config=RunConfig(name="tagger", failure_config=FailureConfig(max_failures=3)),
    ).fit()
