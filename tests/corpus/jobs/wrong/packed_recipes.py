"""Masked words of recipes: lines are packed once into a table of tokens; some are left after a stop."""

import os
import pathlib
import pickle

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.nn.parallel import DistributedDataParallel

LINES = [
    f"{verb} {number} {unit} of {thing}"
    for number, (verb, unit) in enumerate(
        [
            ("take", "cups"),
            ("melt", "ounces"),
            ("fold", "spoons"),
            ("boil", "pounds"),
            ("dice", "slices"),
            ("rub", "pinches"),
        ]
    )
    for thing in (
        "butter",
        "flour",
        "cream",
        "sugar",
        "lard",
        "rye",
        "milk",
        "oats",
        "yeast",
        "salt",
    )
]
HERE = pathlib.Path("recipes")
EPOCHS, PER_STEP, SAVE_AT = 5, 3, 4


class Table:
    """Tokens of all lines, and the lines of this epoch that were not trained yet."""

    def __init__(self):
        if dist.get_rank() == 0 and not (HERE / "tokens.pkl").exists():
            HERE.mkdir(exist_ok=True)
            words = sorted({word for line in LINES for word in line.split()})
            coded = [[words.index(word) for word in line.split()] for line in LINES]
            (HERE / "tokens.tmp").write_bytes(pickle.dumps((len(words), coded)))
            (HERE / "tokens.tmp").rename(HERE / "tokens.pkl")
        dist.barrier()
        self.size, coded = pickle.loads((HERE / "tokens.pkl").read_bytes())
        self.tokens = torch.tensor(coded)
        self.skip = 0

    def rows(self, epoch):
        shuffled = torch.randperm(
            len(self.tokens), generator=torch.Generator().manual_seed(90 + epoch)
        )
        left = torch.arange(self.skip, len(shuffled))
        own = left[dist.get_rank() :: dist.get_world_size()]
        return self.tokens[shuffled[own]].split(PER_STEP)


class Guess(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.words = nn.Embedding(size + 1, 16)
        self.mix = nn.Sequential(nn.Linear(80, 32), nn.SiLU(), nn.Linear(32, size))

    def forward(self, tokens):
        return self.mix(self.words(tokens).flatten(1))


def newest():
    try:
        return torch.load(HERE / "at.pt")
    except FileNotFoundError:
        return None


def save(**state):
    if dist.get_rank() == 0:
        torch.save(state, HERE / "at.tmp")
        os.replace(HERE / "at.tmp", HERE / "at.pt")


dist.init_process_group("gloo")
torch.manual_seed(8)
table = Table()
net = DistributedDataParallel(Guess(table.size))
sgd = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.8)
begin = 0
if (found := newest()) is not None:
    net.load_state_dict(found["net"])
    sgd.load_state_dict(found["sgd"])
    begin, table.skip = found["epoch"], found["rows"]

for epoch in range(begin, EPOCHS):
    for number, rows in enumerate(table.rows(epoch), 1):
        hidden = rows.clone()
        hidden[:, 4] = table.size
        loss = F.cross_entropy(net(hidden), rows[:, 4])
        sgd.zero_grad()
        loss.backward()
        sgd.step()
        if number % SAVE_AT == 0:
            save(net=net.state_dict(), sgd=sgd.state_dict(), epoch=epoch, rows=number * PER_STEP)
    table.skip = 0
    save(net=net.state_dict(), sgd=sgd.state_dict(), epoch=epoch + 1, rows=0)
dist.destroy_process_group()
