"""Reef or open sea, by sound; two ranks, and checkpoints that are written while training goes on."""

import tempfile
from concurrent.futures import wait

import ray.train
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

BANDS, CLIPS, BATCH, ROUNDS = 20, 32, 8, 6


def clips(rank):
    draws = torch.Generator().manual_seed(70 + rank)
    is_reef = torch.rand(CLIPS, generator=draws) < 0.5
    noise = torch.randn(CLIPS, BANDS, generator=draws).abs()
    crackle = torch.linspace(0, 1.5, BANDS) * is_reef[:, None]
    return noise + crackle, is_reef.float()


def train_reef():
    rank = ray.train.get_context().get_world_rank()
    writers = dist.new_group(backend="gloo")
    torch.manual_seed(41)
    net = prepare_model(nn.Sequential(nn.Linear(BANDS, 12), nn.SiLU(), nn.Linear(12, 1)))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    state = {"rounds": 0}
    state["net"], state["optimizer"] = get_state_dict(net, optimizer)
    if (checkpoint := ray.train.get_checkpoint()) is not None:
        with checkpoint.as_directory() as folder:
            dcp.load(state, checkpoint_id=folder)
        set_state_dict(
            net, optimizer, model_state_dict=state["net"], optim_state_dict=state["optimizer"]
        )

    sounds, is_reef = clips(rank)
    pending = None
    for number in range(state["rounds"], ROUNDS):
        order = torch.randperm(CLIPS, generator=torch.Generator().manual_seed(8 * number))
        losses = []
        for rows in order.split(BATCH):
            logits = net(sounds[rows]).squeeze(1)
            loss = nn.functional.binary_cross_entropy_with_logits(logits, is_reef[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        if pending is not None:  # the folder of the last round is to be closed before the next
            wait([pending[0]])
            ray.train.report(pending[1], checkpoint=Checkpoint.from_directory(pending[2]))
        folder = tempfile.mkdtemp()
        weights, moments = get_state_dict(net, optimizer)
        done = dcp.async_save(
            {"net": weights, "optimizer": moments, "rounds": number + 1},
            checkpoint_id=folder,
            process_group=writers,
        )
        pending = done, {"round": number + 1, "loss": sum(losses) / len(losses)}, folder
    wait([pending[0]])
    ray.train.report(pending[1], checkpoint=Checkpoint.from_directory(pending[2]))


if __name__ == "__main__":
    TorchTrainer(
        train_reef,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="reef", failure_config=FailureConfig(max_failures=3)),
    ).fit()
