"""The time of a census, against that of the training step before which it is taken.

    python -m tests.bench.census

On one process, one thread: the digits model of the scenarios with 64 samples, and ResNet-18 with 8
images of 64 by 64. A census is taken where an epoch begins; between two of them nothing is done.
"""

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from chaos.probe.state.census import Census
from chaos.probe.state.stored_attributes import iterate_saved_tensors
from chaos.run.clock import SystemClock

TIMES = 21


class Block(nn.Module):  # type: ignore[misc]
    """Two convolutions and a way around them."""

    def __init__(self, given: int, made: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(given, made, 3, stride, 1, bias=False)
        self.second = nn.Conv2d(made, made, 3, 1, 1, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(made) for _ in range(2))
        self.around = nn.Sequential()
        if stride > 1:
            around = nn.Conv2d(given, made, 1, stride, bias=False)
            self.around = nn.Sequential(around, nn.BatchNorm2d(made))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return the output of the block."""
        within = self.norms[0](self.first(x)).relu()
        return (self.norms[1](self.second(within)) + self.around(x)).relu()


def resnet18() -> nn.Module:
    """Return ResNet-18 (He et al., 2015) for ten classes."""
    sizes = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
    sizes += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    head = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2)
    tail = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)
    return nn.Sequential(*head, *(Block(*size) for size in sizes), *tail)


def digits() -> nn.Module:
    """Return the model of `scenarios/jobs/digits_ddp.py`, in its size."""
    convolved = nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2)
    return nn.Sequential(
        *convolved, nn.Flatten(), nn.Linear(256, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 10)
    )


def median_ms(call: Callable[[], object]) -> float:
    """Return the median time of a call, in milliseconds; the first is left out."""
    took = []
    for _ in range(TIMES):
        start = time.perf_counter_ns()
        call()
        took.append((time.perf_counter_ns() - start) / 1e6)
    return statistics.median(took[1:])


def measured(name: str, model: nn.Module, batch: torch.Tensor) -> None:
    """Print the time of a step, that of a census, and their ratio."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    target = torch.zeros(len(batch), dtype=torch.long)

    def step() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(batch), target).backward()
        optimizer.step()

    def census() -> Census:
        taken = Census(
            SystemClock().now_ns, compared_tensors=frozenset(map(id, iterate_saved_tensors(model)))
        )
        taken.add_frames(sys._getframe())
        taken.expand_all()
        return taken

    each, count = (median_ms(step), median_ms(census)), len(census().entries)
    print(
        f"{name:10} step {each[0]:7.2f} ms   census of {count} values {each[1]:5.2f} ms   "
        f"{each[1] / each[0]:6.1%}",
    )


def main() -> None:
    torch.set_num_threads(1)
    cases: list[tuple[str, Any, torch.Tensor]] = [
        ("digits", digits(), torch.randn(64, 1, 8, 8)),
        ("ResNet-18", resnet18(), torch.randn(8, 3, 64, 64)),
    ]
    for name, model, batch in cases:
        measured(name, model, batch)


if __name__ == "__main__":
    main()
