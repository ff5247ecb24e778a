"""Three ranks under DDP, whose sums of gradients are rounded by the order in which they are made.

It validates and reports at every start, before it trains.
"""

import tempfile
from pathlib import Path

import ray.train
import torch
from ray.train import Checkpoint, FailureConfig, RunConfig, ScalingConfig
from ray.train.torch import TorchTrainer
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

RANKS, EPOCHS, ROWS, BATCH = 3, 3, 144, 24


class Net(torch.nn.Module):
    """Layers that are declared in another order than they are called in."""

    def __init__(self):
        super().__init__()
        self.last = torch.nn.Linear(64, 3)
        self.body = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(3))
        self.first = torch.nn.Linear(8, 64)

    def forward(self, rows):
        rows = self.first(rows).relu()
        for layer in self.body:
            rows = layer(rows).relu() + rows
        return self.last(rows)


def train():
    torch.manual_seed(1)
    rank = ray.train.get_context().get_world_rank()
    own = torch.Generator().manual_seed(0)
    rows, labels = torch.randn(ROWS, 8, generator=own), torch.randint(0, 3, (ROWS,), generator=own)
    net = DistributedDataParallel(Net(), bucket_cap_mb=0.03)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    start, checkpoint = 0, ray.train.get_checkpoint()
    if checkpoint is not None:
        with checkpoint.as_directory() as folder:
            state = torch.load(Path(folder) / "state.pt")
        net.module.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        start = state["epoch"] + 1
    with torch.no_grad():
        ray.train.report({"validated": cross_entropy(net.module(rows), labels).item()})
    for epoch in range(start, EPOCHS):
        order = torch.randperm(ROWS, generator=torch.Generator().manual_seed(epoch))
        for batch in order.split(BATCH):
            mine = batch[rank::RANKS]
            optimizer.zero_grad()
            loss = cross_entropy(net(rows[mine]), labels[mine])
            loss.backward()
            optimizer.step()
        state = {"net": net.module.state_dict(), "optimizer": optimizer.state_dict()}
        with tempfile.TemporaryDirectory() as folder:
            if rank == 0:
                torch.save({**state, "epoch": epoch}, Path(folder) / "state.pt")
            given = Checkpoint.from_directory(folder) if rank == 0 else None
            ray.train.report({"loss": loss.item()}, checkpoint=given)


if __name__ == "__main__":
    TorchTrainer(
        train,
        scaling_config=ScalingConfig(num_workers=RANKS),
        run_config=RunConfig(failure_config=FailureConfig(max_failures=1)),
    ).fit()
