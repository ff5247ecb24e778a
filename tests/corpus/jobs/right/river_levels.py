"""Levels of a river, one day ahead: a stream of windows that knows where it is."""

import os
import tempfile

import torch
from ray import train
from ray.train.torch import TorchTrainer
from torch.utils.data import IterableDataset, get_worker_info
from torchdata.stateful_dataloader import StatefulDataLoader

DAYS, BEFORE, EPOCHS = 90, 6, 3


def levels(station):
    draws = torch.Generator().manual_seed(9000 + station)
    rain = torch.rand(DAYS, generator=draws).pow(4)
    level, kept = [], torch.tensor(0.5)
    for day in range(DAYS):
        kept = 0.85 * kept + rain[day]
        level.append(kept)
    return torch.stack(level) + 0.02 * torch.randn(DAYS, generator=draws)


class Windows(IterableDataset):
    """All windows of some stations; each process that loads has stations of its own."""

    def __init__(self, stations):
        self.stations = stations
        self.at = (0, 0)

    def __iter__(self):
        worker = get_worker_info()
        mine = self.stations[worker.id :: worker.num_workers] if worker else self.stations
        number, day = self.at
        while number < len(mine):
            series = levels(mine[number])
            while day + BEFORE < DAYS:
                window = series[day : day + BEFORE + 1]
                day += 3
                self.at = (number, day)
                yield window[:-1], window[-1]
            number, day = number + 1, 0
        self.at = (0, 0)

    def state_dict(self):
        return {"at": list(self.at)}

    def load_state_dict(self, state):
        self.at = tuple(state["at"])


def forecast():
    torch.manual_seed(4)
    cell = torch.nn.GRU(1, 12, batch_first=True)
    head = torch.nn.Linear(12, 1)
    both = torch.nn.ModuleDict({"cell": cell, "head": head})
    adam = torch.optim.Adam(both.parameters(), lr=0.01)
    windows = StatefulDataLoader(Windows([0, 1, 2, 3]), batch_size=8, num_workers=2)
    epoch, count = 0, 0
    found = train.get_checkpoint()
    if found:
        with found.as_directory() as folder:
            state = torch.load(os.path.join(folder, "state.pt"), weights_only=False)
        both.load_state_dict(state["both"])
        adam.load_state_dict(state["adam"])
        windows.load_state_dict(state["windows"])
        epoch, count = state["epoch"], state["count"]

    for now in range(epoch, EPOCHS):
        for before, after in windows:
            hidden, _ = cell(before.unsqueeze(2))
            error = (head(hidden[:, -1]).squeeze(1) - after).square().mean()
            adam.zero_grad()
            error.backward()
            adam.step()
            count += 1
            if count % 5 == 0:
                with tempfile.TemporaryDirectory() as folder:
                    torch.save(
                        {
                            "both": both.state_dict(),
                            "adam": adam.state_dict(),
                            "windows": windows.state_dict(),
                            "epoch": now,
                            "count": count,
                        },
                        os.path.join(folder, "state.pt"),
                    )
                    train.report(
                        {"error": error.item(), "count": count},
                        checkpoint=train.Checkpoint.from_directory(folder),
                    )


if __name__ == "__main__":
    TorchTrainer(
        forecast,
        scaling_config=train.ScalingConfig(num_workers=1),
        run_config=train.RunConfig(
            name="river", failure_config=train.FailureConfig(max_failures=3)
        ),
    ).fit()
