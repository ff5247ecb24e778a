"""A small language model over characters, replicated, with distributed checkpoints."""

import tempfile

import ray.train
import torch
import torch.distributed.checkpoint as dcp
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog and runs away from the other dogs "
LETTERS = sorted(set(TEXT))
STEPS, EVERY, WINDOW = 24, 4, 12


class Letters(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Embedding(len(LETTERS), width)
        self.mix = nn.GRU(width, width, batch_first=True)
        self.out = nn.Linear(width, len(LETTERS))

    def forward(self, letters):
        return self.out(self.mix(self.embed(letters))[0])


def windows(step, rank, count=6):
    draws = torch.Generator().manual_seed(1009 * step + rank)
    starts = torch.randint(len(TEXT) - WINDOW - 1, (count,), generator=draws)
    coded = torch.tensor([LETTERS.index(letter) for letter in TEXT])
    return torch.stack([coded[s : s + WINDOW + 1] for s in starts.tolist()])


def save(folder, model, optimizer, step):
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": torch.tensor(step),
    }
    dcp.save(state, checkpoint_id=folder)


def load(folder, model, optimizer):
    state = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": torch.tensor(0),
    }
    dcp.load(state, checkpoint_id=folder)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def train_letters():
    rank = ray.train.get_context().get_world_rank()
    torch.manual_seed(3)
    model = prepare_model(Letters())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    step = 0
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            step = load(folder, model, optimizer)

    while step < STEPS:
        batch = windows(step, rank)
        guessed = model(batch[:, :-1])
        loss = nn.functional.cross_entropy(guessed.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % EVERY == 0:
            with tempfile.TemporaryDirectory() as folder:
                save(folder, model, optimizer, step)
                ray.train.report(
                    {"loss": loss.item()}, checkpoint=Checkpoint.from_directory(folder)
                )


if __name__ == "__main__":
    TorchTrainer(
        train_letters,
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="letters", failure_config=FailureConfig(max_failures=3)),
    ).fit()
