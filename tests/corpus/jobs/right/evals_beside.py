"""A classifier of spirals; answers to a probe set are written each pass, checkpoints every second pass."""

import os
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

PASSES = 6


def spirals(count=240):
    draw = torch.Generator().manual_seed(11)
    kind = torch.randint(3, (count,), generator=draw)
    far = torch.rand(count, generator=draw)
    angle = 4 * far + 2.1 * kind + 0.1 * torch.randn(count, generator=draw)
    return torch.stack([far * angle.cos(), far * angle.sin()], 1), kind


def answer(net, points, number):
    with torch.no_grad():
        logits = net(points[:40])
    with tempfile.NamedTemporaryFile(suffix=".bin", delete=False) as scratch:
        torch.save(logits, scratch)
    torch.save(
        {"logits": torch.load(scratch.name), "labels": logits.argmax(1)}, f"answers_{number}.pt"
    )
    os.remove(scratch.name)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    if not os.path.exists("norms.pt") and rank == 0:
        points, _ = spirals()
        torch.save({"mean": points.mean(0), "std": points.std(0)}, "norms.pt")
    dist.barrier()
    norms = torch.load("norms.pt")
    points, kind = spirals()
    points = (points - norms["mean"]) / norms["std"]
    torch.manual_seed(1)
    net = nn.Sequential(nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 3))
    optimizer = torch.optim.RMSprop(net.parameters(), lr=3e-3)
    first = 0
    if os.path.exists("spiral.ckpt"):
        held = torch.load("spiral.ckpt")
        net.load_state_dict(held["net"])
        optimizer.load_state_dict(held["optimizer"])
        first = held["passes"]
    for number in range(first, PASSES):
        order = torch.randperm(240, generator=torch.Generator().manual_seed(number))[rank::world]
        for chosen in order.split(20):
            loss = F.cross_entropy(net(points[chosen]), kind[chosen])
            optimizer.zero_grad()
            loss.backward()
            for p in net.parameters():
                dist.all_reduce(p.grad)
                p.grad /= world
            optimizer.step()
        if rank == 0:
            answer(net, points, number)
            if number % 2:
                torch.save(
                    {
                        "net": net.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "passes": number + 1,
                    },
                    "spiral.new",
                )
                os.replace("spiral.new", "spiral.ckpt")
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
