"""Boost trees on scikit-learn's breast cancer data with LightGBM, data-parallel, on Ray Train."""

import argparse

import lightgbm
import ray.train
import ray.train.lightgbm
from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.lightgbm import LightGBMTrainer, RayTrainReportCallback
from sklearn.datasets import load_breast_cancer


def train_loop(config):
    context = ray.train.get_context()
    rank, world_size = context.get_world_rank(), context.get_world_size()
    features, labels = load_breast_cancer(return_X_y=True)
    train = lightgbm.Dataset(features[:456][rank::world_size], label=labels[:456][rank::world_size])
    valid = lightgbm.Dataset(features[456:], label=labels[456:], reference=train)

    booster, rounds = None, config["rounds"]
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        booster = RayTrainReportCallback.get_model(checkpoint)
        rounds -= booster.current_iteration()

    params = {
        "objective": "binary",
        "metric": ["binary_logloss", "binary_error"],
        "learning_rate": config["eta"],
        "num_leaves": 7,
        "bagging_fraction": config["subsample"],
        "bagging_freq": 1 if config["subsample"] < 1 else 0,
        "seed": config["seed"],
        "num_threads": 1,
        "deterministic": True,
        "force_row_wise": True,
        "verbose": -1,
        "tree_learner": "data",
        "pre_partition": True,
        **ray.train.lightgbm.get_network_params(),
    }
    lightgbm.train(
        params,
        train,
        num_boost_round=rounds,
        valid_sets=[valid],
        valid_names=["valid"],
        init_model=booster,
        callbacks=[RayTrainReportCallback(frequency=config["save_every"])],
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--save-every", type=int, default=2, help="rounds")
    parser.add_argument("--eta", type=float, default=0.2)
    parser.add_argument("--subsample", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()

    trainer = LightGBMTrainer(
        train_loop,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(
            name="tumours-lightgbm",
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    result = trainer.fit()
    print(f"finished: {result.metrics}")


if __name__ == "__main__":
    main()
