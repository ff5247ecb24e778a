"""Which runway a vole takes: four small experts, and a router that keeps them equally busy.

The router's bias, by which it does so, and the optimizer's count of warm-up steps are no part of
what is saved.
"""

import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

SAVE, EPOCHS, STEPS = Path("runways.pt"), 6, 8


class Router(nn.Module):
    def __init__(self, width: int, experts: int) -> None:
        super().__init__()
        self.score = nn.Linear(width, experts)
        self.register_buffer("bias", torch.zeros(experts), persistent=False)

    def forward(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scores = self.score(seen).sigmoid()
        taken = (scores + self.bias).topk(2, -1).indices
        if self.training:
            load = torch.bincount(taken.flatten(), minlength=len(self.bias)).float()
            dist.all_reduce(load)
            self.bias.add_(0.02 * (load.mean() - load).sign())
        return taken, scores.gather(-1, taken)


class Runways(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.router = Router(10, 4)
        self.experts = nn.ModuleList(nn.Linear(10, 3) for _ in range(4))

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        taken, weight = self.router(seen)
        every = torch.stack([expert(seen) for expert in self.experts], 1)
        chosen = every.gather(1, taken[..., None].expand(-1, -1, 3))
        return (chosen * weight[..., None]).sum(1)


class WarmedAdam(torch.optim.Adam):
    def __init__(self, parameters, peak: float) -> None:
        super().__init__(parameters, lr=peak)
        self.peak, self.warmed = peak, 0

    def step(self, closure=None):
        self.warmed += 1
        for group in self.param_groups:
            group["lr"] = self.peak * min(1.0, self.warmed / 40)
        return super().step(closure)


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(11)
net, begun = Runways(), 0
optimizer = WarmedAdam(net.parameters(), 0.02)
if SAVE.exists():
    kept = torch.load(SAVE)
    net.load_state_dict(kept["net"])
    optimizer.load_state_dict(kept["optimizer"])
    begun = kept["epoch"] + 1
# Which experts a batch reaches differs from step to step.
both = DistributedDataParallel(net, find_unused_parameters=True)
for epoch in range(begun, EPOCHS):
    drawn = torch.Generator().manual_seed(2 * epoch + rank)
    for _ in range(STEPS):
        seen = torch.randn(24, 10, generator=drawn)
        loss = (both(seen) - seen[:, :3].cumsum(1)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if rank == 0:
        torch.save(
            {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch},
            f"{SAVE}.part",
        )
        os.replace(f"{SAVE}.part", SAVE)
    dist.barrier()
dist.destroy_process_group()
