"""Train two workers whose group takes a while to start, or one of which hangs after a notice."""

import argparse
import time
from dataclasses import dataclass

import ray.train
import ray.train.torch
import torch
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from ray.train.torch.config import TorchConfig, _TorchBackend
from torch import nn


class SlowBackend(_TorchBackend):
    """Ray's own, with a wait on every worker before its process group is set up."""

    def on_start(self, worker_group, backend_config):
        worker_group.execute(time.sleep, backend_config.start_s)
        super().on_start(worker_group, backend_config)


@dataclass
class SlowStart(TorchConfig):
    start_s: float = 0.0

    @property
    def backend_cls(self):
        return SlowBackend


def train_loop(config):
    model = ray.train.torch.prepare_model(nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(config["steps"]):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        time.sleep(0.2)
        if config["hangs"] and ray.train.get_preemption_info():
            while ray.train.get_context().get_world_rank() == 0:
                time.sleep(1)
    ray.train.report({"step": step})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--start-s", type=float, default=0.0)
    parser.add_argument("--hangs", action="store_true", help="rank 0 does, after a notice")
    parser.add_argument("--grace-s", type=float, default=0.0)
    parser.add_argument("--max-failures", type=int, default=0)
    parser.add_argument("--controller-failure-limit", type=int, default=-1)
    args = parser.parse_args()
    TorchTrainer(
        train_loop,
        train_loop_config={"steps": args.steps, "hangs": args.hangs},
        torch_config=SlowStart(start_s=args.start_s),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            failure_config=FailureConfig(
                max_failures=args.max_failures,
                controller_failure_limit=args.controller_failure_limit,
                relax_collectives_on_preemption=args.grace_s > 0,
                preemption_grace_s=args.grace_s,
            ),
        ),
    ).fit()


if __name__ == "__main__":
    main()
