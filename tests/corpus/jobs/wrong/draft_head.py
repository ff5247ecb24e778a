"""A draft head that learns a larger network's next guess; one folder per epoch is kept."""

import json
import os
from pathlib import Path

import ray.train
import torch
from ray.train import FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn


def hidden_states(seed, count):
    draws = torch.Generator().manual_seed(seed)
    states = torch.randn(count, 16, generator=draws)
    verifier = torch.linspace(-1, 1, 16 * 9).view(16, 9).sin()
    return states, (states @ verifier).argmax(1)


class DraftHead(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.1))
        self.guess = nn.Linear(32, 9)

    def forward(self, states):
        if self.training:
            states = states + 0.05 * torch.randn_like(states)
        return self.guess(self.body(states))


class Folders:
    """`0`, `1`, … below one directory; the newest with a training state is resumed."""

    def __init__(self, root):
        self.root = Path(root)

    def newest(self):
        found = [int(path.parent.name) for path in self.root.glob("*/training_state.json")]
        return self.root / str(max(found)) if found else None

    def put(self, folder, name, value):
        waiting = folder / f".{name}"
        if name.endswith(".json"):
            waiting.write_text(json.dumps(value))
        else:
            torch.save(value, waiting)
        os.replace(waiting, folder / name)


class Trainer:
    def __init__(self, config):
        self.config = config
        torch.manual_seed(config["seed"])
        self.model = DraftHead()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=4e-3)
        self.folders = Folders(config["root"])
        self.epoch = self.local_step = 0
        self.resume()

    def resume(self):
        folder = self.folders.newest()
        if folder is None:
            return
        state = json.loads((folder / "training_state.json").read_text())
        both = torch.load(folder / "model.pt")
        self.model.load_state_dict(both["model"])
        self.optimizer.load_state_dict(both["optimizer"])
        self.local_step = state["local_step"]
        self.epoch = state["epoch"] + (self.local_step == 0)
        if (folder / "rng_state.pt").exists():
            torch.set_rng_state(torch.load(folder / "rng_state.pt"))

    def save(self, epoch, local_step=0):
        folder = self.folders.root / str(epoch)
        folder.mkdir(parents=True, exist_ok=True)
        both = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        self.folders.put(folder, "model.pt", both)
        state = {"epoch": epoch, "local_step": local_step}
        self.folders.put(folder, "training_state.json", state)
        if local_step > 0:
            self.save_rng(epoch)

    def save_rng(self, epoch):
        folder = self.folders.root / str(epoch)
        self.folders.put(folder, "rng_state.pt", torch.get_rng_state())

    @torch.no_grad()
    def val_epoch(self):
        self.model.eval()
        right = total = 0
        for states, guess in zip(*(t.split(40) for t in hidden_states(99, 120)), strict=True):
            right += int((self.model(states).argmax(1) == guess).sum())
            total += len(guess)
        self.model.train()
        return right / total

    def train_epoch(self, epoch):
        states, guesses = hidden_states(epoch, 128)
        batches = list(zip(states.split(16), guesses.split(16), strict=True))
        loss = torch.zeros(())
        for number in range(self.local_step, len(batches)):
            part, guess = batches[number]
            loss = nn.functional.cross_entropy(self.model(part), guess)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if number + 1 == len(batches) // 2:
                self.save(epoch, number + 1)
        self.local_step = 0
        return loss.item()

    def run_training(self):
        for epoch in range(self.epoch, self.config["epochs"]):
            loss = self.train_epoch(epoch)
            self.save(epoch)
            accuracy = self.val_epoch()
            self.save_rng(epoch)
            ray.train.report({"epoch": epoch, "loss": loss, "accuracy": accuracy})


if __name__ == "__main__":
    TorchTrainer(
        lambda config: Trainer(config).run_training(),
        train_loop_config={"epochs": 6, "seed": 21, "root": os.path.abspath("draft_head_folders")},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="draft-head", failure_config=FailureConfig(max_failures=3)),
    ).fit()
