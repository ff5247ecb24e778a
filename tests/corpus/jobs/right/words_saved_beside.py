"""Word vectors (CBOW); a thread writes checkpoints beside training, the next report takes them."""

import copy
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn

TEXT = """the king rules the land and the queen rules the court while the farmer sows the field
and the baker bakes the bread for the king and the farmer and the queen and the court""".split()
VOCABULARY = sorted(set(TEXT))


class Cbow(nn.Module):
    def __init__(self, dim=10):
        super().__init__()
        self.vectors = nn.Embedding(len(VOCABULARY), dim)
        self.out = nn.Linear(dim, len(VOCABULARY))

    def forward(self, around):
        return self.out(self.vectors(around).mean(1))


def examples(width=2):
    ids = [VOCABULARY.index(word) for word in TEXT]
    around = [
        ids[i - width : i] + ids[i + 1 : i + 1 + width] for i in range(width, len(ids) - width)
    ]
    return torch.tensor(around), torch.tensor(ids[width:-width])


class BackgroundWriter:
    def __init__(self):
        self.pool = ThreadPoolExecutor(max_workers=1)
        self.job = None

    def begin(self, state):
        snapshot = copy.deepcopy(state)
        self.job = self.pool.submit(self._write, snapshot)

    def _write(self, snapshot):
        folder = tempfile.mkdtemp(prefix="cbow-")
        torch.save(snapshot, os.path.join(folder, "cbow.pt"))
        return folder

    def take(self):
        """The folder of the newest checkpoint, once; None if there is none."""
        if self.job is None:
            return None
        job, self.job = self.job, None
        return job.result()


def report_with(folder, **metrics):
    ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder) if folder else None)
    if folder:
        shutil.rmtree(folder)


def train_words(config):
    torch.manual_seed(config["seed"])
    net = Cbow()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.03)
    shuffle = torch.Generator().manual_seed(config["seed"])
    around, middle = examples()
    writer = BackgroundWriter()
    done = 0

    if ray.train.get_checkpoint():
        with ray.train.get_checkpoint().as_directory() as folder:
            state = torch.load(os.path.join(folder, "cbow.pt"))
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        shuffle.set_state(state["shuffle"])
        done = state["done"]

    for epoch in range(done, config["epochs"]):
        total = 0.0
        for rows in torch.randperm(len(middle), generator=shuffle).split(6):
            loss = nn.functional.cross_entropy(net(around[rows]), middle[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        report_with(writer.take(), epoch=epoch, loss=total / len(middle))
        writer.begin(
            {
                "net": net.state_dict(),
                "optimizer": optimizer.state_dict(),
                "shuffle": shuffle.get_state(),
                "done": epoch + 1,
            }
        )
    report_with(writer.take(), epoch=config["epochs"], finished=True)


if __name__ == "__main__":
    TorchTrainer(
        train_words,
        train_loop_config={"epochs": 6, "seed": 30},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="cbow", failure_config=FailureConfig(max_failures=3)),
    ).fit()
