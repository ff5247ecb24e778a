"""Train a small network on handwritten digits with PyTorch Lightning, data-parallel, on Ray Train."""

import argparse
import os

import lightning.pytorch as pl
import ray.train
import torch
from ray.train import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig
from ray.train.lightning import (
    RayDDPStrategy,
    RayLightningEnvironment,
    RayTrainReportCallback,
    prepare_trainer,
)
from ray.train.torch import TorchTrainer
from sklearn.datasets import load_digits
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from torch.utils.data import DataLoader, TensorDataset


class DigitsClassifier(pl.LightningModule):
    def __init__(self, lr):
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = nn.functional.cross_entropy(self.net(images), labels)
        self.log("loss", loss, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


class WeightAverage(pl.Callback):
    """Keeps a moving average of the weights, and logs how well it names the images."""

    def __init__(self, images, labels):
        self.images, self.labels = images, labels

    def setup(self, trainer, pl_module, stage):
        self.average = AveragedModel(pl_module.net, multi_avg_fn=get_ema_multi_avg_fn(0.95))

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.average.update_parameters(pl_module.net)

    def on_train_epoch_end(self, trainer, pl_module):
        with torch.no_grad():
            loss = nn.functional.cross_entropy(self.average(self.images), self.labels)
        pl_module.log("average_loss", loss, sync_dist=True)

    def state_dict(self):
        return self.average.state_dict()

    def load_state_dict(self, state):
        self.average.load_state_dict(state)


class ForgetfulWeightAverage(WeightAverage):
    """The same, by somebody who did not know that a callback saves its own state."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def train_loop(config):
    pl.seed_everything(config["seed"])
    digits = load_digits()
    images = torch.tensor(digits.images / 16.0, dtype=torch.float32)
    labels = torch.tensor(digits.target, dtype=torch.int64)
    loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True)

    average = ForgetfulWeightAverage if config["forget_average"] else WeightAverage
    trainer = pl.Trainer(
        max_epochs=config["epochs"],
        accelerator="cpu",
        devices="auto",
        strategy=RayDDPStrategy(),
        plugins=[RayLightningEnvironment()],
        callbacks=[average(images, labels), RayTrainReportCallback()],
        enable_checkpointing=False,
        enable_progress_bar=False,
        logger=False,
    )
    trainer = prepare_trainer(trainer)
    model = DigitsClassifier(lr=config["lr"])
    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as directory:
            path = os.path.join(directory, RayTrainReportCallback.CHECKPOINT_NAME)
            trainer.fit(model, loader, ckpt_path=path, weights_only=False)
    else:
        trainer.fit(model, loader)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--lr", type=float, default=0.003)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--forget-average", action="store_true", help="do not save the moving average"
    )
    args = parser.parse_args()

    trainer = TorchTrainer(
        train_loop,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(
            name="digits-lightning",
            failure_config=FailureConfig(max_failures=3),
            checkpoint_config=CheckpointConfig(num_to_keep=2),
        ),
    )
    result = trainer.fit()
    print(f"finished: {result.metrics}")


if __name__ == "__main__":
    main()
