"""A job that needs PyTorch Lightning, on a machine that does not have it, wherever it runs."""

import sys

import ray.train
from ray.train.torch import TorchTrainer


class Absent:
    """Finds what is there as if it were not."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "lightning":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def need():
    sys.meta_path.insert(0, Absent())
    for name in [name for name in sys.modules if name.partition(".")[0] == "lightning"]:
        del sys.modules[name]
    import lightning.pytorch as pl

    return pl


def train_loop(config):
    need()


if "--late" not in sys.argv:
    need()

TorchTrainer(train_loop, scaling_config=ray.train.ScalingConfig(num_workers=1)).fit()
