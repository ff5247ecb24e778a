"""A GRU learns to repeat a sequence backwards; sequences grow when it is good enough."""

import os
import shutil
import tempfile

import torch
from ray import train
from ray.train import RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch import nn

SYMBOLS = 4
LENGTHS = [1, 2, 3, 4, 6]


class Reverser(nn.Module):
    def __init__(self, hidden=32):
        super().__init__()
        self.embed = nn.Embedding(SYMBOLS + 1, 12)
        self.reader = nn.GRU(12, hidden, batch_first=True)
        self.writer = nn.GRUCell(12, hidden)
        self.out = nn.Linear(hidden, SYMBOLS)

    def forward(self, sequence):
        _, hidden = self.reader(self.embed(sequence))
        hidden = hidden[0]
        go = torch.full((len(sequence),), SYMBOLS)
        answers = []
        for position in range(sequence.shape[1]):
            hidden = self.writer(self.embed(go), hidden)
            answers.append(self.out(hidden))
            go = sequence[:, -1 - position]
        return torch.stack(answers, dim=1)


class Teacher:
    """Decides how long the sequences are; moves on after three good marks in a row."""

    def __init__(self, enough=0.7):
        self.level = 0
        self.streak = 0
        self.enough = enough

    @property
    def length(self):
        return LENGTHS[self.level]

    def mark(self, accuracy):
        self.streak = self.streak + 1 if accuracy >= self.enough else 0
        if self.streak == 3 and self.level + 1 < len(LENGTHS):
            self.level += 1
            self.streak = 0


def lesson(step, length, batch=24):
    dice = torch.Generator().manual_seed(10_000 + step)
    return torch.randint(SYMBOLS, (batch, length), generator=dice)


def save(path, **things):
    os.makedirs(path, exist_ok=True)
    torch.save(things, os.path.join(path, "pupil.pt"))
    return train.Checkpoint.from_directory(path)


def study(config):
    torch.manual_seed(config["seed"])
    net, teacher = Reverser(), Teacher()
    optimizer = torch.optim.Adam(net.parameters(), lr=config["lr"])
    step = 0
    resumed = train.get_checkpoint()
    if resumed:
        with resumed.as_directory() as path:
            things = torch.load(os.path.join(path, "pupil.pt"))
        net.load_state_dict(things["net"])
        optimizer.load_state_dict(things["optimizer"])
        step = things["step"]

    while step < config["steps"]:
        sequence = lesson(step, teacher.length)
        answers = net(sequence)
        target = sequence.flip(1)
        loss = nn.functional.cross_entropy(answers.reshape(-1, SYMBOLS), target.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        accuracy = (answers.argmax(-1) == target).float().mean().item()
        teacher.mark(accuracy)
        if step % 6 == 0:
            path = tempfile.mkdtemp()
            train.report(
                {"step": step, "loss": loss.item(), "accuracy": accuracy, "level": teacher.level},
                checkpoint=save(
                    path, net=net.state_dict(), optimizer=optimizer.state_dict(), step=step
                ),
            )
            shutil.rmtree(path)


if __name__ == "__main__":
    trainer = TorchTrainer(
        study,
        train_loop_config={"seed": 21, "lr": 0.02, "steps": 54},
        scaling_config=ScalingConfig(num_workers=1),
        run_config=RunConfig(name="curriculum", failure_config=train.FailureConfig(max_failures=3)),
    )
    trainer.fit()
