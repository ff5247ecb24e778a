"""Robust regression by L-BFGS; the script calls fit() again when training failed."""

import argparse
import os
import tempfile

import ray.train
import torch
from ray.train import Checkpoint, RunConfig, ScalingConfig, TrainingFailedError
from ray.train.torch import TorchTrainer


def problem():
    g = torch.Generator().manual_seed(64)
    x = torch.randn(200, 5, generator=g)
    y = x @ torch.tensor([1.0, -2.0, 0.0, 0.5, 3.0]) + 0.1 * torch.randn(200, generator=g)
    y[::17] += 8.0
    return x, y


def solve(config):
    torch.manual_seed(0)
    x, y = problem()
    theta = torch.nn.Parameter(torch.zeros(5))
    scale = torch.nn.Parameter(torch.zeros(()))
    solver = torch.optim.LBFGS([theta, scale], lr=0.3, max_iter=2, history_size=6)
    rounds = 0
    spent_s = 0.0

    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            theta.data, scale.data, state, rounds, spent_s = torch.load(
                os.path.join(folder, "solver.bin")
            )
        solver.load_state_dict(state)

    def closure():
        solver.zero_grad()
        residual = (x @ theta - y) * torch.exp(-scale)
        loss = torch.log1p(residual**2).mean() + scale
        loss.backward()
        return loss

    while rounds < config["rounds"] and spent_s < config["budget_s"]:
        loss = solver.step(closure)
        rounds += 1
        spent_s += 0.01  # what the machine is billed for a round
        if rounds % 2 == 0:
            with tempfile.TemporaryDirectory() as folder:
                torch.save(
                    (theta.data, scale.data, solver.state_dict(), rounds, spent_s),
                    os.path.join(folder, "solver.bin"),
                )
                ray.train.report(
                    {"round": rounds, "loss": loss.item()},
                    checkpoint=Checkpoint.from_directory(folder),
                )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=14)
    parser.add_argument("--budget-s", type=float, default=3600)
    parser.add_argument("--tries", type=int, default=6)
    args = parser.parse_args()

    for number in range(args.tries):
        # the same name each time, so that Ray goes on where the last try was
        trainer = TorchTrainer(
            solve,
            train_loop_config={"rounds": args.rounds, "budget_s": args.budget_s},
            scaling_config=ScalingConfig(num_workers=1),
            run_config=RunConfig(name="robust-regression"),
        )
        try:
            print(trainer.fit().metrics)
            break
        except TrainingFailedError as error:
            print(f"try {number} failed: {error}")
    else:
        raise SystemExit("gave up")


if __name__ == "__main__":
    main()
