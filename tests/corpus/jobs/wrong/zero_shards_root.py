"""ZeRO: three ranks share the state of Adam; rank 0 keeps the books."""

import tempfile
from pathlib import Path

import torch
import torch.distributed as dist
from ray import train
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel


def spirals(rank, step, n=20):
    g = torch.Generator().manual_seed(1 + rank + 3 * step)
    r = torch.rand(n, generator=g)
    label = torch.randint(2, (n,), generator=g)
    angle = 6 * r + torch.pi * label + 0.1 * torch.randn(n, generator=g)
    return torch.stack([r * angle.cos(), r * angle.sin()], 1), label


def broadcast(value):
    box = [value]
    dist.broadcast_object_list(box, src=0)
    return box[0]


def work(config):
    rank = train.get_context().get_world_rank()
    torch.manual_seed(12)
    net = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 2))

    saved = None
    checkpoint = train.get_checkpoint()
    if checkpoint is not None and rank == 0:
        with checkpoint.as_directory() as folder:
            saved = torch.load(Path(folder, "zero.pt"), weights_only=False)
        net.load_state_dict(saved["net"])

    ddp = DistributedDataParallel(net)  # hands rank 0's weights to the others
    optimizer = ZeroRedundancyOptimizer(
        ddp.parameters(), optimizer_class=torch.optim.Adam, lr=config["lr"]
    )
    if saved is not None:
        optimizer.load_state_dict(saved["optimizer"])
    step = broadcast(saved["step"] if saved else 0)

    while step < config["steps"]:
        points, labels = spirals(rank, step)
        loss = nn.functional.cross_entropy(ddp(points), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % config["report_every"]:
            continue
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        metrics = {"step": step, "loss": mean.item() / dist.get_world_size()}
        optimizer.consolidate_state_dict(to=0)
        if rank:
            train.report(metrics)
            continue
        with tempfile.TemporaryDirectory() as folder:
            torch.save(
                {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step},
                Path(folder, "zero.pt"),
            )
            train.report(metrics, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    TorchTrainer(
        work,
        train_loop_config={"steps": 36, "report_every": 6, "lr": 0.02},
        scaling_config=ScalingConfig(num_workers=3),
        run_config=RunConfig(name="zero", failure_config=FailureConfig(max_failures=3)),
    ).fit()
