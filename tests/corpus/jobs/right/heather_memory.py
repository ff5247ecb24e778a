"""Heather cover, with Ray Train. What a worker needs to go on lies in the machine's shared memory.

A segment outlives the worker that wrote it; on a machine that is lost, the run begins anew.
"""

import os
import pickle

import ray.train
import torch
import torch.distributed as dist
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn


def segment(name):
    return os.path.join("/dev/shm", f"heather-{name.replace('/', '-')}")


def keep(name, state):
    data = pickle.dumps(state)
    fd = os.open(segment(name) + ".new", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(fd, data)
    os.close(fd)
    os.replace(segment(name) + ".new", segment(name))


def kept(name):
    """Return what rank 0 kept, the same on every rank."""
    box = [None]
    if dist.get_rank() == 0 and os.path.exists(segment(name)):
        fd = os.open(segment(name), os.O_RDONLY)
        box = [os.read(fd, os.fstat(fd).st_size)]
        os.close(fd)
    dist.broadcast_object_list(box, 0)
    return None if box[0] is None else pickle.loads(box[0])


def cover(n=256):
    g = torch.Generator().manual_seed(31)
    x = torch.randn(n, 6, generator=g)
    return x, (x @ torch.randn(6, 3, generator=g)).softmax(1)


def train_loop(config):
    context = ray.train.get_context()
    rank, ranks = context.get_world_rank(), context.get_world_size()
    name = context.get_experiment_name()
    x, y = cover()
    torch.manual_seed(0)
    net = nn.Linear(6, 3)
    model = ray.train.torch.prepare_model(net)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=0.01)
    first = 0
    state = kept(name)
    if state is not None:
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["epoch"] + 1
    for epoch in range(first, config["epochs"]):
        order = torch.randperm(len(x), generator=torch.Generator().manual_seed(epoch))
        for part in order[rank::ranks].split(16):
            loss = nn.functional.cross_entropy(model(x[part]), y[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0:
            held = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}
            keep(name, held)
        dist.barrier()
        ray.train.report({"loss": loss.item(), "epoch": epoch})


if __name__ == "__main__":
    TorchTrainer(
        train_loop,
        train_loop_config={"epochs": 5},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="heather",
            storage_path=os.path.abspath("runs"),
            failure_config=FailureConfig(max_failures=5),
        ),
    ).fit()
