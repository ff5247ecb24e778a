"""Captions of unequal length, packed into rows of one length as they stream from shards."""

import tempfile
from pathlib import Path

import ray.train
import torch
import torch.nn.functional as F
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer, prepare_model
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

PACK, SYMBOLS = 24, 26


class PackedShard(IterableDataset):
    """Walks the captions of a rank's shard, over and over, and packs them."""

    def __init__(self, shard, captions=70):
        self.shard = shard
        self.captions = captions

    def caption(self, index):
        draws = torch.Generator().manual_seed(self.shard * 10_007 + index)
        length = int(torch.randint(3, 11, (), generator=draws))
        first, stride = torch.randint(1, SYMBOLS, (2,), generator=draws).tolist()
        return [1 + (first + stride * k) % (SYMBOLS - 1) for k in range(length)] + [0]

    def __iter__(self):
        buffer, index = [], 0
        while True:
            buffer += self.caption(index % self.captions)
            index += 1
            while len(buffer) > PACK:
                yield torch.tensor(buffer[: PACK + 1])
                buffer = buffer[PACK:]


class Captioner(nn.Module):
    def __init__(self):
        super().__init__()
        self.symbols = nn.Embedding(SYMBOLS, 18)
        self.memory = nn.LSTM(18, 28, batch_first=True)
        self.next = nn.Linear(28, SYMBOLS)

    def forward(self, packed):
        return self.next(self.memory(self.symbols(packed))[0])


def train_func(config):
    context = ray.train.get_context()
    torch.manual_seed(2)
    model = prepare_model(Captioner())
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, config["max_steps"])
    start = 0
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder, "state.pt"))
        model.module.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        start = state["step"]

    loader = DataLoader(PackedShard(context.get_world_rank()), batch_size=4)
    for step, packed in enumerate(loader, start=start + 1):
        logits = model(packed[:, :-1])
        loss = F.cross_entropy(logits.transpose(1, 2), packed[:, 1:])
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        if step % config["log_every"] == 0:
            metrics = {"step": step, "loss": loss.item(), "grad_norm": norm.item()}
            with tempfile.TemporaryDirectory() as folder:
                if context.get_world_rank() == 0:
                    state = {
                        "model": model.module.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "scheduler": scheduler.state_dict(),
                        "step": step,
                    }
                    torch.save(state, Path(folder, "state.pt"))
                ray.train.report(metrics, checkpoint=Checkpoint.from_directory(folder))
        if step == config["max_steps"]:
            break


if __name__ == "__main__":
    TorchTrainer(
        train_func,
        train_loop_config={"max_steps": 28, "log_every": 4},
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="captions", failure_config=FailureConfig(max_failures=3)),
    ).fit()
