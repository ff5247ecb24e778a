"""Terns' clutches by the weather; each save lies on the machine first, and a thread takes it to the store."""

import argparse
import os
import queue
import shutil
import tempfile
import threading
import time
from pathlib import Path

import torch
from torch import nn


class Carrier:
    """A thread that copies files to the store, one after the other."""

    def __init__(self, store: Path):
        self.store, self.due = store, queue.Queue()
        threading.Thread(target=self.work, daemon=True).start()

    def work(self):
        while True:
            file = self.due.get()
            time.sleep(0.05)
            part = self.store / f".{file.name}"
            shutil.copyfile(file, part)
            os.replace(part, self.store / file.name)
            for old in sorted(self.store.glob("season-*.pt"))[:-2]:
                old.unlink()
            self.due.task_done()


def seasons(folder: Path) -> dict[int, Path]:
    return {int(file.stem.split("-")[1]): file for file in folder.glob("season-*.pt")}


def newest(near: Path, store: Path) -> Path | None:
    there = {**seasons(store), **seasons(near)}  # the near copy, where there are two
    return there[max(there)] if there else None


def main(seasons_due: int, store: Path):
    near = Path(tempfile.gettempdir()) / "terns"
    near.mkdir(exist_ok=True)
    store.mkdir(exist_ok=True)
    torch.manual_seed(17)
    birds = nn.Sequential(nn.Linear(5, 14), nn.ELU(), nn.Linear(14, 1))
    rule = torch.optim.RMSprop(birds.parameters(), lr=2e-3)
    season = 0
    if (file := newest(near, store)) is not None:
        held = torch.load(file)
        birds.load_state_dict(held["birds"])
        rule.load_state_dict(held["rule"])
        season = held["season"] + 1
    carrier = Carrier(store)
    for number, file in sorted(seasons(near).items()):
        if number > max(seasons(store), default=-1):  # not carried before the last end
            carrier.due.put(file)
    while season < seasons_due:
        draw = torch.Generator().manual_seed(4000 + 10 * season)
        for _ in range(7):
            weather = torch.randn(12, 5, generator=draw)
            eggs = weather[:, :1].clamp(0) + 0.3 * weather[:, 1:2] + 1.5
            loss = nn.functional.smooth_l1_loss(birds(weather), eggs)
            rule.zero_grad()
            loss.backward()
            rule.step()
            time.sleep(0.01)
        file = near / f"season-{season:03d}.pt"
        state = {"birds": birds.state_dict(), "rule": rule.state_dict(), "season": season}
        torch.save(state, near / "draft")
        os.replace(near / "draft", file)
        carrier.due.put(file)
        for number, old in seasons(near).items():
            if number < max(seasons(store), default=-1):
                old.unlink()
        season += 1
    carrier.due.join()


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--seasons", type=int, default=7)
    options.add_argument("--store", type=Path, default=Path("store"))
    main(options.parse_args().seasons, options.parse_args().store)
