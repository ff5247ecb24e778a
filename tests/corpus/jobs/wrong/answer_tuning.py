"""Fine-tunes a small answer ranker with a loader that knows where it is."""

import os
import tempfile

import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


class ResumableLoader:
    """A loader whose position can be saved; a restored position holds for the next iteration."""

    def __init__(self, loader):
        self.loader = loader
        self.taken = 0
        self._ahead = None

    def __len__(self):
        return len(self.loader)

    def __iter__(self):
        ahead, self._ahead = self._ahead or 0, None
        self.taken = ahead
        for number, batch in enumerate(self.loader):
            if number < ahead:
                continue
            self.taken = number + 1
            yield batch

    def state_dict(self):
        return {"taken": self.taken}

    def load_state_dict(self, state):
        self._ahead = state["taken"]


def answers(count=160):
    generator = torch.Generator().manual_seed(41)
    question = torch.randn(count, 12, generator=generator)
    answer = question.roll(3, dims=1) * 0.7 + 0.5 * torch.randn(count, 12, generator=generator)
    score = torch.cosine_similarity(question, answer)
    return TensorDataset(torch.cat([question, answer], 1), score)


class Trainer:
    def __init__(self, config):
        context = ray.train.get_context()
        self.rank = context.get_world_rank()
        self.config = config
        torch.manual_seed(config["seed"])
        network = nn.Sequential(nn.Linear(24, 32), nn.GELU(), nn.Linear(32, 1))
        self.model = ray.train.torch.prepare_model(network)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        rows = answers()
        self.sampler = DistributedSampler(
            rows, context.get_world_size(), self.rank, seed=config["seed"]
        )
        self.loader = ResumableLoader(DataLoader(rows, batch_size=10, sampler=self.sampler))
        self.global_step = 0
        self.load()

    def load(self):
        checkpoint = ray.train.get_checkpoint()
        if checkpoint is None:
            return
        with checkpoint.as_directory() as folder:
            state = torch.load(os.path.join(folder, "trainer.pt"))
        self.model.module.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.loader.load_state_dict(state["loader"])
        self.global_step = state["global_step"]

    def save(self, metrics):
        with tempfile.TemporaryDirectory() as folder:
            state = {
                "model": self.model.module.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "loader": self.loader.state_dict(),
                "global_step": self.global_step,
            }
            if self.rank == 0:
                torch.save(state, os.path.join(folder, "trainer.pt"))
            ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))

    def fit(self):
        per_epoch = len(self.loader)
        for epoch in range(self.global_step // per_epoch, self.config["epochs"]):
            self.sampler.set_epoch(epoch)
            for features, score in self.loader:
                loss = nn.functional.mse_loss(self.model(features).squeeze(1), score)
                self.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                self.optimizer.step()
                self.global_step += 1
                if self.global_step % self.config["save_freq"] == 0:
                    self.save({"train/loss": loss.item(), "train/step": self.global_step})


if __name__ == "__main__":
    ray.train.torch.TorchTrainer(
        lambda config: Trainer(config).fit(),
        train_loop_config={"epochs": 5, "save_freq": 4, "seed": 5},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="answers", failure_config=FailureConfig(max_failures=3)),
    ).fit()
