"""Clean runs with noise of many kinds, and small trainings with a defect, against bands."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from chaos.check.prediction_band import BandCounts, Series, learn_intervals
from chaos.model.bounds import Tolerance

STEPS, RANKS = 60, 2
LEVEL, PART = 1.0, 0.01  # a loss, and the part of it that noise moves
STRUCK = 30  # the step at which a defect begins

Losses: TypeAlias = NDArray[np.float64]  # by run, step and rank
Shape: TypeAlias = tuple[int, int, int]


def _drifting(draws: np.random.Generator, shape: Shape) -> Losses:
    runs, steps, ranks = shape
    return np.repeat(np.cumsum(draws.normal(size=(runs, steps, 1)), axis=1), ranks, axis=2)


def _growing(draws: np.random.Generator, shape: Shape) -> Losses:
    """Return rounding that each step makes larger by a tenth, the same for all ranks."""
    runs, steps, ranks = shape
    off = np.zeros((runs, steps))
    for step in range(1, steps):
        off[:, step] = 1.1 * off[:, step - 1] + 1e-3 * draws.normal(size=runs)
    return np.repeat(off[:, :, None], ranks, axis=2)


def _offset(draws: np.random.Generator, shape: Shape) -> Losses:
    return draws.normal(size=(shape[0], 1, 1)) + 0.1 * draws.normal(size=shape)


NOISES: Mapping[str, Callable[[np.random.Generator, Shape], Losses]] = {
    "independent normal": lambda draws, shape: draws.normal(size=shape),
    "heavy tails (t, 3 degrees)": lambda draws, shape: draws.standard_t(3, size=shape),
    "runs that drift (random walk)": _drifting,
    "rounding that grows": _growing,
    "an offset per run": _offset,
}


def rate(
    noise: str, *, clean: int, trials: int, seed: int = 1, allowance: Tolerance | None = None
) -> int:
    """Return how many of so many further clean runs leave the band of `clean` runs."""
    draws = np.random.default_rng(seed)
    shape = (clean + 1, STEPS, RANKS)
    runs = (LEVEL * (1 + PART * NOISES[noise](draws, shape)) for _ in range(trials))
    return sum(leaves(each, allowance or Tolerance()) for each in runs)


def leaves(losses: Losses, allowance: Tolerance) -> bool:
    """Return whether the last run leaves the band of the others somewhere."""
    series = _series(losses[:-1])
    bands = learn_intervals(series, BandCounts.from_series([series]))
    return any(
        not band.add_tolerance(allowance).contains(float(losses[-1][key]))
        for key, band in bands.items()
    )


def hidden(losses: Losses) -> float:
    """Return how far a loss can be off within the band, in spreads of clean runs; the median."""
    series = _series(losses)
    halves = [
        band.half_width
        for band in learn_intervals(series, BandCounts.from_series([series])).values()
    ]
    return float(np.median(halves) / losses.std(axis=0, ddof=1).mean())


def _series(losses: Losses) -> Series:
    _, steps, ranks = losses.shape
    return {
        step: {(step, rank): losses[:, step, rank].tolist() for rank in range(ranks)}
        for step in range(steps)
    }


# -- trainings -----------------------------------------------------------------------------------

EPOCH = 10
DEFECTS = (
    "none",
    "the optimizer's state is lost",
    "the learning rate is half as large again",
    "an epoch is skipped",
    "the weights are those of five steps before",
)


def trained(defect: str, *, runs: int, seed: int, noise: float) -> Losses:
    """Return the losses of least squares by SGD with momentum, the last run with a defect.

    All runs see the same batches, an order of its own in each epoch. Noise is
    what a gradient is off by, as a part of it: runs drift apart by it.
    """
    draws = np.random.default_rng(seed)
    batches = draws.normal(size=(EPOCH, 16, 8))
    truth = draws.normal(size=8)
    targets = batches @ truth + 0.3 * draws.normal(size=(EPOCH, 16))
    order = np.concatenate([draws.permutation(EPOCH) for _ in range(STEPS // EPOCH + 1)])
    struck = [""] * (runs - 1) + [defect]
    return np.stack([_course(batches, targets, order, draws, noise, what) for what in struck])


def _course(
    batches: Losses,
    targets: NDArray[np.float64],
    order: NDArray[np.int64],
    draws: np.random.Generator,
    noise: float,
    defect: str,
) -> Losses:
    weights, moved, rate = np.zeros(8), np.zeros(8), 0.01
    losses, past = np.zeros((STEPS, 1)), list[NDArray[np.float64]]()
    for step in range(STEPS):
        if step == STRUCK:
            moved = np.zeros(8) if "optimizer" in defect else moved
            rate *= 1.5 if "learning rate" in defect else 1
            weights = past[-5] if "weights" in defect else weights
        skipped = EPOCH if "skipped" in defect and step >= STRUCK else 0
        x, y = batches[order[step + skipped]], targets[order[step + skipped]]
        off = x @ weights - y
        losses[step, 0] = (off**2).mean()
        gradient = 2 * x.T @ off / len(y)
        moved = 0.9 * moved + gradient * (1 + noise * draws.normal(size=8))
        weights = weights - rate * moved
        past.append(weights)
    return losses


def found(defect: str, *, clean: int, trials: int, noise: float, allowance: Tolerance) -> int:
    """Return in how many of so many trainings a defect shows against the band of clean ones."""
    runs = (
        trained(defect, runs=clean + 1, seed=seed, noise=noise) for seed in range(1, trials + 1)
    )
    return sum(leaves(each, allowance) for each in runs)
