"""Goodput against the checkpoint interval: a curve with its flat region, not one number."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from chaos.preflight.change import changed
from chaos.preflight.closed_form import Interval, efficiency, exact, intervals
from chaos.preflight.market import loss_interval_s
from chaos.preflight.question import Question
from chaos.preflight.simulate import Outcomes

POINTS = 11
FLAT = 0.01  # of goodput
REACH = 8.0  # times shorter and longer than the best that theory gives

Simulate = Callable[[Sequence[Question]], list[Outcomes]]  # each on the same draws


@dataclass(frozen=True)
class Point:
    """One interval: simulated goodput with its 95 % interval, and what Daly's equation gives."""

    steps: int
    seconds: float
    simulated: float
    low: float
    high: float
    theory: float


@dataclass(frozen=True)
class Curve:
    """Points by rising interval; the flat region is where goodput is within 0.01 of the best.

    The best is one at which uploads keep up with saves.
    """

    points: tuple[Point, ...]
    best_steps: int
    flat_s: tuple[float, float]
    theory: tuple[Interval, ...]

    @property
    def best(self) -> Point:
        """The point of highest simulated goodput."""
        return next(point for point in self.points if point.steps == self.best_steps)


def interval_curve(question: Question, simulate: Simulate) -> Curve:
    """Give the curve around what theory thinks best, and around what is set.

    Retries are without limit in it: an interval is not to be praised because
    runs that fail early look good.
    """
    assert question.costs is not None
    every_s = loss_interval_s(question.market, question.job.nodes)
    free = changed(question, {"settings.max_failures": -1, "settings.max_preemption_failures": -1})
    all_steps = _steps(question, every_s)
    asked = [changed(free, {"job.checkpoint_every_steps": steps}) for steps in all_steps]
    pairs = zip(asked, simulate(asked), strict=True)
    points = tuple(_point(other, outcomes, every_s) for other, outcomes in pairs)
    kept_up = [point for point in points if point.steps >= question.shortest_steps]
    best = max(kept_up, key=lambda point: point.simulated)
    flat = [p.seconds for p in points if p.simulated >= best.simulated - FLAT]
    costs = question.costs
    theory = intervals(question.stop_s, every_s, costs.restart_s)
    return Curve(points, best.steps, (min(flat), max(flat)), theory)


def _steps(question: Question, every_s: float) -> list[int]:
    costs, job = question.costs, question.job
    assert costs is not None
    middle = max(
        1.0, exact(question.stop_s, min(every_s, 10 * question.work_s)).seconds / costs.step_s
    )
    spread = {round(steps) for steps in np.geomspace(middle / REACH, middle * REACH, POINTS)}
    spread |= {question.shortest_steps, job.checkpoint_every_steps}
    return sorted({min(job.steps, max(1, steps)) for steps in spread})


def _point(question: Question, outcomes: Outcomes, every_s: float) -> Point:
    costs, steps = question.costs, question.job.checkpoint_every_steps
    assert costs is not None
    good = outcomes.work_s / np.maximum(outcomes.end_s, 1e-9)
    half = 1.96 * float(good.std()) / len(good) ** 0.5
    mean = float(good.mean())
    theory = efficiency(
        question.interval_s,
        save_s=question.stop_s,
        loss_every_s=every_s,
        restart_s=costs.restart_s,
    )
    return Point(steps, steps * costs.step_s, mean, mean - half, mean + half, theory)
