"""Local SGD: four workers take steps of their own and average their weights now and then."""

import argparse
import os
import tempfile

import ray.train as rt
import torch
import torch.distributed as dist
from ray.train.torch import TorchConfig, TorchTrainer


def shard(rank, n=96):
    """Every worker has data of its own, of its own distribution."""
    g = torch.Generator().manual_seed(rank)
    x = torch.randn(n, 8, generator=g) + 0.3 * rank
    y = (x[:, 0] * x[:, 1] - x[:, 2].abs() + 0.1 * rank).unsqueeze(1)
    return x, y


@torch.no_grad()
def average_weights(model):
    for p in model.parameters():
        dist.all_reduce(p)
        p /= dist.get_world_size()


def load(path, model, optimizer):
    state = torch.load(path, map_location="cpu")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def train_local(args):
    rank = rt.get_context().get_world_rank()
    torch.manual_seed(12)
    model = torch.nn.Sequential(
        torch.nn.Linear(8, 24),
        torch.nn.Softplus(),
        torch.nn.Linear(24, 24),
        torch.nn.Softplus(),
        torch.nn.Linear(24, 1),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=args["lr"])
    x, y = shard(rank)
    step = 0
    if rt.get_checkpoint():
        with rt.get_checkpoint().as_directory() as d:
            step = load(os.path.join(d, "weights.pt"), model, optimizer)

    while step < args["steps"]:
        rows = torch.randint(
            len(x), (args["batch"],), generator=torch.Generator().manual_seed(step)
        )
        loss = (model(x[rows]) - y[rows]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        step += 1
        if step % args["sync_every"] == 0:
            average_weights(model)
        if step % args["save_every"] == 0 or step == args["steps"]:
            with tempfile.TemporaryDirectory() as d:
                if rank == 0:
                    torch.save(
                        {
                            "model": model.state_dict(),
                            "optimizer": optimizer.state_dict(),
                            "step": step,
                        },
                        os.path.join(d, "weights.pt"),
                    )
                rt.report(
                    {"loss": loss.item(), "step": step},
                    checkpoint=rt.Checkpoint.from_directory(d) if rank == 0 else None,
                )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=48)
    parser.add_argument("--sync-every", type=int, default=6)
    parser.add_argument("--save-every", type=int, default=8)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--lr", type=float, default=0.02)
    parser.add_argument("--num-workers", type=int, default=4)
    args = vars(parser.parse_args())
    TorchTrainer(
        train_local,
        train_loop_config=args,
        torch_config=TorchConfig(backend="gloo"),
        scaling_config=rt.ScalingConfig(num_workers=args["num_workers"]),
        run_config=rt.RunConfig(failure_config=rt.FailureConfig(max_failures=3)),
    ).fit()
