"""Two learning rates for the digits, tried side by side: Ray Tune over a Ray Train job.

An ordinary script, in the manner of Ray's own "Hyperparameter tuning with Ray Tune": every trial
is a driver of its own, which makes a trainer and calls its `fit()`. It runs by itself
(`python digits_tune.py`).
"""

import argparse

import ray.train
from digits_ddp import train_loop
from ray import tune
from ray.train import CheckpointConfig, FailureConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from ray.tune.integration.ray_train import TuneReportCallback


def train_driver(config):
    trial = tune.get_context().get_trial_id()
    trainer = TorchTrainer(
        train_loop,
        train_loop_config=config["train_loop_config"],
        scaling_config=ScalingConfig(num_workers=config["workers"]),
        run_config=ray.train.RunConfig(
            name=f"digits-{trial}",
            failure_config=FailureConfig(max_failures=1),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
            callbacks=[TuneReportCallback()],
        ),
    )
    trainer.fit()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1, help="of each trial")
    parser.add_argument("--fail-fast", action="store_true", help="one failed trial ends them all")
    args = parser.parse_args()

    tuner = tune.Tuner(
        train_driver,
        param_space={
            "workers": args.workers,
            "train_loop_config": {
                "epochs": args.epochs,
                "batch_size": 32,
                "lr": tune.grid_search([0.05, 0.02]),
                "seed": 0,
            },
        },
        tune_config=tune.TuneConfig(metric="loss", mode="min"),
        run_config=tune.RunConfig(
            name="digits-tune", failure_config=tune.FailureConfig(fail_fast=args.fail_fast)
        ),
    )
    best = tuner.fit().get_best_result()
    print(f"best: {best.config['train_loop_config']['lr']}, {best.metrics['loss']}")


if __name__ == "__main__":
    main()
