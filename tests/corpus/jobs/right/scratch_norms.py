"""Descends by hand-made steps; the optimizer notes the last slope it saw, and never looks at it."""

import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn


class Noted(torch.optim.Optimizer):
    def __init__(self, parameters, lr, seen):
        super().__init__(parameters, {"lr": lr})
        self.seen = seen

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                pace = state.get("pace", torch.zeros_like(p))
                pace = 0.8 * pace + p.grad
                p.sub_(group["lr"] * pace)
                state["pace"], state["note"] = pace, self.seen()


def descend(config):
    here = ray.train.get_context()
    rank, world = here.get_world_rank(), here.get_world_size()
    hills = torch.randn(128, 5, generator=torch.Generator().manual_seed(6))
    heights = hills.norm(dim=1)
    torch.manual_seed(1)
    guide = prepare_model(nn.Sequential(nn.Linear(5, 16), nn.Softplus(), nn.Linear(16, 1)))
    last = [torch.zeros(())]
    opt = Noted(guide.parameters(), config["lr"], lambda: last[0].clone())
    walk = 0
    if (camp := ray.train.get_checkpoint()) is not None:
        with camp.as_directory() as folder:
            pack = torch.load(os.path.join(folder, "pack"))
        guide.module.load_state_dict(pack["guide"])
        opt.load_state_dict(pack["opt"])
        walk = pack["walk"] + 1
    for walk in range(walk, config["walks"]):
        way = torch.randperm(128, generator=torch.Generator().manual_seed(walk))[rank::world]
        for feet in way.split(16):
            loss = nn.functional.mse_loss(guide(hills[feet])[:, 0], heights[feet])
            last[0] = loss.detach()
            opt.zero_grad()
            loss.backward()
            opt.step()
        if rank:
            ray.train.report({"walk": walk})
            continue
        with tempfile.TemporaryDirectory() as folder:
            pack = {"guide": guide.module.state_dict(), "opt": opt.state_dict(), "walk": walk}
            torch.save(pack, os.path.join(folder, "pack"))
            ray.train.report({"walk": walk}, checkpoint=Checkpoint.from_directory(folder))


if __name__ == "__main__":
    TorchTrainer(
        descend,
        train_loop_config={"walks": 5, "lr": 0.01},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=5)),
    ).fit()
