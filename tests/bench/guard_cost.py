"""The time that the guard takes, as a share of the training that it goes along with.

    python -m tests.bench.guard_cost [STEPS]

ResNet-18 for images of 32 by 32 (11.2 million parameters), batches of 32, SGD with momentum, on the
CPU. The time within the guard's own functions is added up in the same run as the steps, and the
share is that of a training that saves every 100 steps. A start is a process that makes one step of
a model of two numbers, in time of the processor.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn

from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.process import GuardPolicy
from chaos.extensions.guard.watch import GuardedRank

EVERY = 100
OF_STEPS = ("model_called", "step_begins", "step_done", "close_inputs")
STARTS = 5
ONE_STEP = """
import torch
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(1, 1)).sum().backward()
optimizer.step()
"""
spent: dict[str, list[float]] = {}


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self, n_in: int, n_out: int, stride: int) -> None:
        super().__init__()
        self.way = nn.Sequential(
            nn.Conv2d(n_in, n_out, 3, stride, 1, bias=False),
            nn.BatchNorm2d(n_out),
            nn.ReLU(),
            nn.Conv2d(n_out, n_out, 3, 1, 1, bias=False),
            nn.BatchNorm2d(n_out),
        )
        is_same = n_in == n_out and stride == 1
        self.around = nn.Identity() if is_same else nn.Conv2d(n_in, n_out, 1, stride, bias=False)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return (self.way(images) + self.around(images)).relu()


def resnet18() -> nn.Module:
    widths = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1)]
    widths += [(128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10)
    first = nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()
    return nn.Sequential(*first, *(Block(*own) for own in widths), *head)


def timed(name: str) -> None:
    """Add up the time within a function of the guard's; a call within a call counts once."""
    original: Callable[..., Any] = getattr(GuardedRank, name)

    def call(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        try:
            return original(*args, **kwargs)
        finally:
            spent.setdefault(name, []).append(time.perf_counter() - start)

    setattr(GuardedRank, name, call)


def train(folder: str, steps: int) -> tuple[list[float], list[int], int]:
    """Return the seconds of each step, the steps after which was saved, and the model's bytes."""
    torch.manual_seed(0)
    model = resnet18()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    durations, saves = list[float](), list[int]()
    for step in range(steps):
        images, labels = torch.randn(32, 3, 32, 32), torch.randint(10, (32,))
        start = time.perf_counter()
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        durations.append(time.perf_counter() - start)
        if step % 10 == 5:
            state = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            torch.save(state, Path(folder) / "last.pt")
            saves.append(step)
    return durations, saves, sum(t.numel() * t.element_size() for t in model.state_dict().values())


def start_s(guard: tuple[str, ...]) -> float:
    """Return the seconds of a processor that a start takes, from its command to its end."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*guard, sys.executable, "-c", ONE_STEP], check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(steps: int) -> None:
    for name in (*OF_STEPS, "save_ends"):
        timed(name)
    with tempfile.TemporaryDirectory() as folder:
        GuardedRank(GuardFolder(f"{folder}/guard"), GuardPolicy(), report_failure=_failed).install()
        durations, saves, size = train(folder, steps)
        own = (sys.executable, "-m", "chaos", "guard", "--folder", f"{folder}/starts", "--")
        starts = [(start_s(()), start_s(own)) for _ in range(STARTS)]
    # Of a step: one that follows no save. Of a save: its own time, and that of the step after it.
    after = [step + 1 for step in saves if step + 1 < steps]
    plain = [step for step in range(2, steps) if step not in after]
    each = sum(median(spent[name][step] for step in plain) for name in OF_STEPS)
    of_next = sum(median(spent[name][step] for step in after) for name in OF_STEPS)
    of_save = median(spent["save_ends"]) + of_next - each
    step_s = median(durations[step] for step in plain) - each
    gigabytes = 2 * size / 1e9  # with the momentum
    print(f"a step: {step_s * 1e3:.1f} ms, of which the guard takes {each * 1e3:.2f} ms more")
    print(f"a save of {gigabytes * 1e3:.0f} MB: {of_save * 1e3:.0f} ms, twice over the state")
    print(f"{of_save / gigabytes:.2f} s for a gigabyte of state")
    share = (EVERY * each + of_save) / (EVERY * step_s)
    plain_s, guarded_s = (median(times) for times in zip(*starts, strict=True))
    print(f"a start: {plain_s:.2f} s of a processor, and {guarded_s - plain_s:.2f} s more")
    print(f"share of a training that saves every {EVERY} steps: {share:.2%}")


def _failed(where: str, error: Exception) -> None:
    raise AssertionError(where) from error


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
