"""A recurrent network over long series, cut into windows; the hidden state is carried on.

Each of the two workers reads series of its own. Gradients are averaged by a DDP wrapper.
"""

import math
import os
import tempfile

import torch
from ray import train
from ray.train.torch import TorchTrainer
from torch import nn
from torch.nn.parallel import DistributedDataParallel

N_SERIES, WINDOW, WINDOWS, PASSES = 6, 16, 12, 3


class Forecaster(nn.Module):
    def __init__(self, hidden=20):
        super().__init__()
        self.rnn = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, x, h):
        y, h = self.rnn(x, h)
        return self.out(y), h


def series(rank):
    g = torch.Generator().manual_seed(40 + rank)
    t = torch.arange(WINDOW * WINDOWS + 1) / 7
    phase = torch.rand(N_SERIES, 1, generator=g) * 2 * math.pi
    speed = 0.5 + torch.rand(N_SERIES, 1, generator=g)
    clean = torch.sin(t * speed + phase) + 0.5 * torch.sin(t * speed * 2.3)
    return (clean + 0.05 * torch.randn(clean.shape, generator=g)).unsqueeze(-1)


def loop():
    rank = train.get_context().get_world_rank()
    data = series(rank)
    torch.manual_seed(0)
    model = DistributedDataParallel(Forecaster())
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3, momentum=0.5, centered=True)
    hidden, position = None, 0

    checkpoint = train.get_checkpoint()
    if checkpoint:
        with checkpoint.as_directory() as d:
            saved = torch.load(os.path.join(d, "forecaster.pt"))
        model.module.load_state_dict(saved["weights"])
        optimizer.load_state_dict(saved["rmsprop"])
        hidden, position = saved["hidden"], saved["position"]

    losses = []
    while position < PASSES * WINDOWS:
        at = position % WINDOWS * WINDOW
        if at == 0:
            hidden = None
        x, y = data[:, at : at + WINDOW], data[:, at + 1 : at + WINDOW + 1]
        prediction, hidden = model(x, hidden)
        hidden = hidden.detach()
        loss = nn.functional.mse_loss(prediction, y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        position += 1
        if position % 5 == 0 or position == PASSES * WINDOWS:
            with tempfile.TemporaryDirectory() as d:
                checkpoint = None
                if rank == 0:
                    torch.save(
                        {
                            "weights": model.module.state_dict(),
                            "rmsprop": optimizer.state_dict(),
                            "hidden": hidden,
                            "position": position,
                        },
                        os.path.join(d, "forecaster.pt"),
                    )
                    checkpoint = train.Checkpoint.from_directory(d)
                train.report({"mse": sum(losses) / len(losses)}, checkpoint=checkpoint)
            losses = []


if __name__ == "__main__":
    TorchTrainer(
        loop,
        scaling_config=train.ScalingConfig(num_workers=2),
        run_config=train.RunConfig(failure_config=train.FailureConfig(max_failures=3)),
    ).fit()
