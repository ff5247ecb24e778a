"""Flow of a glacier from its slope, on two ranks; folders of an earlier start are used if complete."""

import os
import sys
from pathlib import Path

import ray.train
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ray.train import Checkpoint, CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

STEPS, EVERY, BATCH = 24, 4, 16


def slopes(step, rank):
    draws = torch.Generator().manual_seed(900 * rank + step)
    slope = torch.rand(BATCH, 4, generator=draws)
    depth = slope.cumsum(1)
    return torch.cat([slope, depth], 1), (slope**3 * depth).sum(1, keepdim=True)


class Archive:
    """One folder per saved step. The index of a folder is written last, when all else is there."""

    def __init__(self, root, rank):
        self.root, self.rank = Path(root), rank
        self.group = dist.new_group(backend="gloo")

    def has(self, folder):
        answer = [(folder / ".metadata").is_file()]
        dist.broadcast_object_list(answer, src=0)
        return answer[0]

    def put(self, step, state):
        folder = self.root / f"{step:04d}"
        if not self.has(folder):
            dcp.async_save(state, checkpoint_id=folder, process_group=self.group).result()
        return Checkpoint.from_directory(folder) if self.rank == 0 else None


def train_flow(config):
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(5)
    model = prepare_model(nn.Sequential(nn.Linear(8, 20), nn.Softplus(), nn.Linear(20, 1)))
    optimizer = torch.optim.NAdam(model.parameters(), lr=0.02)
    archive = Archive(config["root"], rank)
    done = torch.zeros((), dtype=torch.int64)
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        weights, moments = get_state_dict(model, optimizer)
        with checkpoint.as_directory() as folder:
            dcp.load({"w": weights, "m": moments, "done": done}, checkpoint_id=folder)
        set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)

    while done < STEPS:
        features, flow = slopes(int(done), rank)
        loss = nn.functional.mse_loss(model(features), flow)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done += 1
        if done % EVERY == 0:
            weights, moments = get_state_dict(model, optimizer)
            saved = archive.put(int(done), {"w": weights, "m": moments, "done": done})
            ray.train.report({"done": int(done), "loss": loss.item()}, checkpoint=saved)


if __name__ == "__main__":
    TorchTrainer(
        train_flow,
        train_loop_config={"root": sys.argv[1] if len(sys.argv) > 1 else os.path.abspath("flow")},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="glacier",
            failure_config=FailureConfig(max_failures=4),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    ).fit()
