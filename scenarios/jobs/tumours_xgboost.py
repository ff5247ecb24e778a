"""Boost trees on scikit-learn's breast cancer data with XGBoost, data-parallel, on Ray Train."""

import argparse

import ray.train
import xgboost
from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.xgboost import RayTrainReportCallback, XGBoostTrainer
from sklearn.datasets import load_breast_cancer


def train_loop(config):
    context = ray.train.get_context()
    rank, world_size = context.get_world_rank(), context.get_world_size()
    features, labels = load_breast_cancer(return_X_y=True)
    train = xgboost.DMatrix(features[:456][rank::world_size], label=labels[:456][rank::world_size])
    valid = xgboost.DMatrix(features[456:], label=labels[456:])

    booster, rounds = None, config["rounds"]
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        booster = RayTrainReportCallback.get_model(checkpoint)
        rounds -= booster.num_boosted_rounds()
        if config["forget_booster"]:
            booster = None

    params = {
        "objective": "binary:logistic",
        "eval_metric": ["logloss", "error"],
        "eta": config["eta"],
        "max_depth": 3,
        "subsample": config["subsample"],
        "seed": config["seed"],
        "nthread": 1,
    }
    xgboost.train(
        params,
        train,
        num_boost_round=rounds,
        evals=[(train, "train"), (valid, "valid")],
        xgb_model=booster,
        verbose_eval=False,
        callbacks=[
            RayTrainReportCallback(
                frequency=config["save_every"], checkpoint_at_end=config["checkpoint_at_end"]
            )
        ],
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--save-every", type=int, default=2, help="rounds")
    parser.add_argument("--checkpoint-at-end", action="store_true", help="whatever round that is")
    parser.add_argument("--forget-booster", action="store_true", help="resume without the trees")
    parser.add_argument("--eta", type=float, default=0.2)
    parser.add_argument("--subsample", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=2)
    args = parser.parse_args()

    trainer = XGBoostTrainer(
        train_loop,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=args.workers),
        run_config=RunConfig(
            name="tumours-xgboost",
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    result = trainer.fit()
    print(f"finished: {result.metrics}")


if __name__ == "__main__":
    main()
