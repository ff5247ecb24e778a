"""Four workers train apart and meet now and then: an outer Nesterov step on what they moved by (DiLoCo)."""

import os
import tempfile

import torch
import torch.distributed as dist
from ray import train
from ray.train.torch import TorchTrainer
from sklearn.datasets import make_swiss_roll
from torch.nn.utils import parameters_to_vector, vector_to_parameters

CFG = {"rounds": 9, "inner": 4, "save_after": 6, "outer_lr": 0.7, "outer_momentum": 0.6}


class Outer:
    """What all workers hold alike: the weights they last met at, and a velocity."""

    def __init__(self, net):
        self.anchor = parameters_to_vector(net.parameters()).detach().clone()
        self.velocity = torch.zeros_like(self.anchor)

    @torch.no_grad()
    def meet(self, net, cfg):
        moved = self.anchor - parameters_to_vector(net.parameters())
        dist.all_reduce(moved)
        moved /= dist.get_world_size()
        self.velocity = cfg["outer_momentum"] * self.velocity + moved
        step = moved + cfg["outer_momentum"] * self.velocity
        self.anchor = self.anchor - cfg["outer_lr"] * step
        vector_to_parameters(self.anchor.clone(), net.parameters())


def worker(cfg):
    rank = train.get_context().get_world_rank()
    points, along = make_swiss_roll(240, noise=0.1, random_state=rank)
    x = torch.tensor(points / 10, dtype=torch.float32)
    y = torch.tensor(along / 10, dtype=torch.float32)
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(3, 20), torch.nn.Tanh(), torch.nn.Linear(20, 1))
    inner = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.0)
    outer = Outer(net)
    torch.manual_seed(1_000 + rank)
    step = 0

    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as d:
            mine = torch.load(os.path.join(d, f"replica_{rank}.pt"))
        net.load_state_dict(mine["net"])
        inner.load_state_dict(mine["inner"])
        outer.anchor, outer.velocity = mine["outer"]
        torch.set_rng_state(mine["rng"])
        step = mine["step"]

    last = cfg["rounds"] * cfg["inner"]
    while step < last:
        rows = torch.randint(240, (30,))
        loss = torch.nn.functional.mse_loss(net(x[rows])[:, 0], y[rows])
        inner.zero_grad()
        loss.backward()
        inner.step()
        step += 1
        if step % cfg["inner"] == 0:
            outer.meet(net, cfg)
        if step % cfg["save_after"] == 0 or step == last:
            with tempfile.TemporaryDirectory() as d:
                torch.save(
                    {
                        "net": net.state_dict(),
                        "inner": inner.state_dict(),
                        "outer": (outer.anchor, outer.velocity),
                        "rng": torch.get_rng_state(),
                        "step": step,
                    },
                    os.path.join(d, f"replica_{rank}.pt"),
                )
                train.report(
                    {"loss": loss.item(), "apart": step % cfg["inner"]},
                    checkpoint=train.Checkpoint.from_directory(d),
                )


if __name__ == "__main__":
    TorchTrainer(
        worker,
        train_loop_config=CFG,
        scaling_config=train.ScalingConfig(num_workers=4),
        run_config=train.RunConfig(
            failure_config=train.FailureConfig(max_failures=3),
            checkpoint_config=train.CheckpointConfig(num_to_keep=2),
        ),
    ).fit()
