"""Four ranks read sensor shards through a thread that reads ahead, and train a small detector."""

import argparse
import queue
import tempfile
import threading
from pathlib import Path

import numpy as np
import ray.train
import ray.train.torch
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from torch import nn


class ShardReader:
    """Yields the records of one shard, in order and without an end; `position` counts them."""

    def __init__(self, shard):
        self.shard = shard
        self.position = 0

    def read(self, n):
        rng = np.random.default_rng([self.shard, self.position])
        x = rng.normal(size=(n, 10)).astype(np.float32)
        fault = rng.random(n) < 0.4
        x[fault, :3] += 1.5
        self.position += n
        return torch.from_numpy(x), torch.from_numpy(fault.astype(np.float32))


class Prefetcher:
    """Keeps some batches ready while the model is busy."""

    def __init__(self, reader, batch_size, ahead=3):
        self.reader, self.batch_size = reader, batch_size
        self.ready = queue.Queue(maxsize=ahead)
        self.room = threading.Semaphore(ahead)
        self.thread = threading.Thread(target=self._fill, daemon=True)
        self.thread.start()

    def _fill(self):
        while True:
            self.room.acquire()
            self.ready.put(self.reader.read(self.batch_size))

    def next(self):
        batch = self.ready.get()
        self.room.release()
        return batch


def detector():
    return nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))


def train_loop(config):
    context = ray.train.get_context()
    rank = context.get_world_rank()
    torch.manual_seed(8)
    model = ray.train.torch.prepare_model(detector())
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    reader = ShardReader(shard=rank)
    step = 0

    checkpoint = ray.train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as folder:
            shared = torch.load(Path(folder, "shared.pt"))
            reader.position = int(Path(folder, f"position-{rank}.txt").read_text())
        model.module.load_state_dict(shared["model"])
        optimizer.load_state_dict(shared["optimizer"])
        step = shared["step"]

    batches = Prefetcher(reader, config["batch_size"])
    criterion = nn.BCEWithLogitsLoss()
    losses = []
    while step < config["steps"]:
        x, y = batches.next()
        loss = criterion(model(x).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        step += 1
        if step % config["save_every"] == 0:
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, f"position-{rank}.txt").write_text(str(reader.position))
                if rank == 0:
                    torch.save(
                        {
                            "model": model.module.state_dict(),
                            "optimizer": optimizer.state_dict(),
                            "step": step,
                        },
                        Path(folder, "shared.pt"),
                    )
                ray.train.report(
                    {"step": step, "loss": sum(losses) / len(losses)},
                    checkpoint=Checkpoint.from_directory(folder),
                )
            losses.clear()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--save-every", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--num-workers", type=int, default=4)
    args = parser.parse_args()
    ray.train.torch.TorchTrainer(
        train_loop,
        train_loop_config=vars(args),
        scaling_config=ScalingConfig(num_workers=args.num_workers),
        run_config=RunConfig(name="sensors", failure_config=FailureConfig(max_failures=3)),
    ).fit()


if __name__ == "__main__":
    main()
