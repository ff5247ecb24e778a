"""Depths of silt, mixture of two lines, on two ranks. The state is one row a save, in SQLite."""

import io
import os
import sqlite3

import torch
import torch.distributed as dist
from torch import nn


class Mixture(nn.Module):
    def __init__(self):
        super().__init__()
        self.lines = nn.Linear(3, 2)
        self.gate = nn.Linear(3, 2)

    def forward(self, x):
        return (self.lines(x) * self.gate(x).softmax(1)).sum(1)


def survey(n=192):
    g = torch.Generator().manual_seed(21)
    x = torch.randn(n, 3, generator=g)
    return x, torch.where(x[:, 0] > 0, 2 * x[:, 1] + 1, x[:, 2] - 1)


def averaged(model, ranks):
    for p in model.parameters():
        dist.all_reduce(p.grad)
        p.grad /= ranks


EPOCHS = 6
dist.init_process_group("gloo")
rank, ranks = dist.get_rank(), dist.get_world_size()
x, y = survey()
torch.manual_seed(5)
model = Mixture()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.02)
db = sqlite3.connect(os.path.abspath("silt.sqlite3"), timeout=30)
with db:
    db.execute("create table if not exists run (epoch text primary key, state blob)")
dist.barrier()
epoch = 0
found = db.execute("select epoch, state from run order by rowid desc limit 1").fetchone()
if found is not None:
    state = torch.load(io.BytesIO(found[1]))
    model.load_state_dict(state)
    epoch = int(found[0]) + 1
dist.barrier()
for epoch in range(epoch, EPOCHS):
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(100 + epoch))
    for part in order[rank::ranks].split(16):
        optimizer.zero_grad()
        nn.functional.smooth_l1_loss(model(x[part]), y[part]).backward()
        averaged(model, ranks)
        optimizer.step()
    if rank == 0:
        held = io.BytesIO()
        torch.save(model.state_dict(), held)
        with db:
            db.execute("insert into run values (?, ?)", (str(epoch), held.getvalue()))
    dist.barrier()
db.close()
dist.destroy_process_group()
