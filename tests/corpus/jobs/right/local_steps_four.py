"""Local SGD: four ranks train apart and meet every few steps; each has weights of its own."""

import os
import tempfile

import ray.train as rt
import torch
import torch.distributed as dist
from ray.train.torch import TorchTrainer
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters


def region(rank, step, n=16):
    """Every rank sees another part of the plane."""
    g = torch.Generator().manual_seed(7919 * step + rank)
    corner = torch.tensor([rank % 2, rank // 2]) - 0.5
    x = corner + 0.7 * torch.randn(n, 2, generator=g)
    return x, torch.stack([x.prod(1), x.norm(dim=1)], 1)


@torch.no_grad()
def meet(net, world):
    vector = parameters_to_vector(net.parameters())
    everyones = [torch.empty_like(vector) for _ in range(world)]
    dist.all_gather(everyones, vector)
    vector_to_parameters(torch.stack(everyones).mean(0), net.parameters())


def local_training(config):
    context = rt.get_context()
    rank, world = context.get_world_rank(), context.get_world_size()
    torch.manual_seed(1000 + rank)  # they start apart as well
    net = nn.Sequential(nn.Linear(2, 16), nn.CELU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    step = 0
    checkpoint = rt.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            own = torch.load(os.path.join(folder, f"local-{rank}-of-{world}.pt"))
        net.load_state_dict(own["net"])
        optimizer.load_state_dict(own["optimizer"])
        step = own["step"]

    for step in range(step, config["steps"]):
        if step % config["meet_every"] == 0:
            meet(net, world)
        x, y = region(rank, step)
        loss = nn.functional.mse_loss(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        # not in time with the meetings
        if (step + 1) % config["save_every"] == 0:
            with tempfile.TemporaryDirectory() as folder:
                torch.save(
                    {
                        "net": net.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "step": step + 1,
                    },
                    os.path.join(folder, f"local-{rank}-of-{world}.pt"),
                )
                rt.report(
                    {"step": step + 1, "local_loss": loss.item(), "rank": rank},
                    checkpoint=rt.Checkpoint.from_directory(folder),
                )


if __name__ == "__main__":
    TorchTrainer(
        local_training,
        train_loop_config={"steps": 35, "meet_every": 4, "save_every": 7},
        scaling_config=rt.ScalingConfig(num_workers=4),
        run_config=rt.RunConfig(name="local-sgd", failure_config=rt.FailureConfig(max_failures=3)),
    ).fit()
