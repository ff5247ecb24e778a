"""Workers that start, report once and fail, until there were as many attempts as asked for."""

import argparse
from pathlib import Path

import ray.train
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def train(config):
    if ray.train.get_context().get_world_rank() == 0:
        file = Path(config["count"])
        done = len(file.read_bytes()) + 1 if file.exists() else 1
        file.write_bytes(b"." * done)
        if done < config["attempts"]:
            raise RuntimeError("once more")
    ray.train.report({"loss": 0.0})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--attempts", type=int)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--count")
    args = parser.parse_args()
    DataParallelTrainer(
        train,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=args.attempts)),
    ).fit()


if __name__ == "__main__":
    main()
