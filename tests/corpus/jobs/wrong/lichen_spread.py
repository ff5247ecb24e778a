"""The spread of lichen on stones; the run before last is set aside before the next one is written."""

from pathlib import Path

import torch
from torch import nn
from torch.distributed import barrier, get_rank, init_process_group


class Stones(nn.Module):
    def __init__(self):
        super().__init__()
        self.moist = nn.Conv1d(1, 6, 3, padding=1)
        self.shade = nn.Conv1d(6, 1, 3, padding=1)

    def forward(self, wall):
        return self.shade(self.moist(wall).relu())


class Notebook:
    def __init__(self, folder):
        self.last, self.before, self.draft = (folder / n for n in ("last", "before-last", "draft"))

    def read(self):
        return torch.load(self.last) if self.last.exists() else None

    def write(self, entry):
        torch.save(entry, self.draft)
        if self.last.exists():
            self.last.rename(self.before)
        self.draft.rename(self.last)


def walls(season):
    draw = torch.Generator().manual_seed(season)
    wall = torch.rand(10, 4, 1, 16, generator=draw)
    return zip(wall, torch.roll(wall, 1, -1) * 0.8)


def grow(book, seasons):
    stones = Stones()
    reduced = nn.parallel.DistributedDataParallel(stones)
    rule = torch.optim.RMSprop(stones.parameters(), lr=0.004, momentum=0.5)
    entry = book.read()
    if entry is not None:
        stones.load_state_dict(entry["stones"])
        rule.load_state_dict(entry["rule"])
    barrier()
    for season in range(entry["season"] if entry else 0, seasons):
        for wall, later in walls(season):
            rule.zero_grad()
            nn.functional.huber_loss(reduced(wall), later).backward()
            rule.step()
        if get_rank() == 0:
            entry = {"season": season + 1, "stones": stones.state_dict(), "rule": rule.state_dict()}
            book.write(entry)
        barrier()


if __name__ == "__main__":
    init_process_group("gloo")
    torch.manual_seed(33)
    Path("lichen").mkdir(exist_ok=True)
    grow(Notebook(Path("lichen")), 7)
