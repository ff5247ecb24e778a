"""Regression on logs that two standing loader processes read; they start with where to go on."""

import io
import pickle
import tempfile
from pathlib import Path

import numpy as np
import ray.train
import torch
from ray import train
from ray.train.torch import TorchTrainer, prepare_model
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

LOGS, LINES = 4, 64


class Logs(IterableDataset):
    """The lines of this rank's logs in blocks, pass after pass, each with its place."""

    def __init__(self, logs, places):
        super().__init__()
        self.logs, self.places = logs, dict(places)

    def lines(self, log, turn):
        draws = np.random.default_rng([log, turn])
        x = draws.normal(size=(LINES, 7)).astype(np.float32)
        return x, (x @ np.arange(-3, 4, dtype=np.float32)) ** 2 / 20

    def __iter__(self):
        info = get_worker_info()
        mine = self.logs[info.id :: info.num_workers]
        while True:
            for log in mine:
                turn, line = self.places.get(log, (0, 0))
                x, y = self.lines(log, turn)
                block = torch.from_numpy(x[line : line + 16]), torch.from_numpy(y[line : line + 16])
                line += 16
                self.places[log] = (turn + 1, 0) if line == LINES else (turn, line)
                yield (*block, log, self.places[log])


def whole(state):
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def fit_logs():
    rank, world = (
        train.get_context().get_world_rank(),
        train.get_context().get_world_size(),
    )
    torch.manual_seed(100)
    model = prepare_model(
        torch.nn.Sequential(torch.nn.Linear(7, 20), torch.nn.Softplus(), torch.nn.Linear(20, 1))
    )
    optimizer = torch.optim.Adamax(model.parameters(), lr=0.01)
    seen, places = 0, {}
    if given := train.get_checkpoint():
        with given.as_directory() as folder:
            shared = torch.load(Path(folder, "weights"))
            places = pickle.loads(Path(folder, f"places-{rank}").read_bytes())
        model.module.load_state_dict(shared["model"])
        optimizer.load_state_dict(shared["optimizer"])
        seen = shared["blocks"]

    logs = Logs([log for log in range(LOGS) if log % world == rank], places)
    blocks = iter(DataLoader(logs, batch_size=None, num_workers=2, persistent_workers=True))
    # the two processes take turns: after an odd number of blocks the second one was next
    while seen < 32:
        x, y, log, places[log] = next(blocks)
        loss = torch.nn.functional.huber_loss(model(x).squeeze(1), y)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        seen += 1
        if seen % 4 == 0:
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, f"places-{rank}").write_bytes(pickle.dumps(places))
                if rank == 0:
                    state = {
                        "model": model.module.state_dict(),
                        "optimizer": optimizer.state_dict(),
                        "blocks": seen,
                    }
                    Path(folder, "weights").write_bytes(whole(state))
                train.report(
                    {"huber": float(loss.detach())},
                    checkpoint=train.Checkpoint.from_directory(folder),
                )


if __name__ == "__main__":
    TorchTrainer(
        fit_logs,
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(name="logs", failure_config=train.FailureConfig(max_failures=3)),
    ).fit()
