"""Checkpoint intervals: closed forms, and simulated goodput around their results."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from chaos.extensions.preflight.estimate import estimate_mean
from chaos.extensions.preflight.forecast import Outcomes, goodput
from chaos.extensions.preflight.market import loss_interval_s
from chaos.extensions.preflight.question import Question, change_question, remove_limits

_EXPONENT_MAX = 700.0  # beyond it e^x is no number
SMALL = 0.1  # a first-order formula is trusted up to C = 0.1 M


@dataclass(frozen=True)
class ClosedForm:
    """Seconds of training between two checkpoints."""

    name: str
    seconds: float
    source: str
    #: a reason not to trust them
    out_of_range: str | None


def young(save_s: float, loss_every_s: float) -> ClosedForm:
    """Return Young's first-order optimum, sqrt(2 C M)."""
    seconds, source = math.sqrt(2 * save_s * loss_every_s), "Communications of the ACM 17(9)"
    return ClosedForm("Young", seconds, f"Young 1974, {source}", _too_rare(save_s, loss_every_s))


def daly(save_s: float, loss_every_s: float) -> ClosedForm:
    """Return Daly's higher-order optimum; M itself if C >= 2 M."""
    c, m, ratio = save_s, loss_every_s, save_s / (2 * loss_every_s)
    source = "Daly 2006, Future Generation Computer Systems 22(3)"
    if ratio >= 1:
        why = f"a save of {c:g} s takes longer than 2 M = {2 * m:g} s"
        return ClosedForm("Daly", m, source, why)
    seconds = math.sqrt(2 * c * m) * (1 + math.sqrt(ratio) / 3 + ratio / 9) - c
    return ClosedForm("Daly", seconds, source, None)


def availability_optimal(save_s: float, loss_every_s: float, restart_s: float) -> ClosedForm:
    """Return the interval of NVIDIA's availability model: period Ts + sqrt(2 (Tf + Tr) Ts + Ts^2).

    The period holds the save itself; the seconds here do not.
    """
    seconds = math.sqrt(2 * (loss_every_s + restart_s) * save_s + save_s**2)
    why = _too_rare(save_s, loss_every_s)
    if why is None and restart_s > loss_every_s:
        why = f"a restart of {restart_s:g} s takes longer than M = {loss_every_s:g} s"
    return ClosedForm("availability-optimal", seconds, "arXiv 2410.18124 (2024)", why)


def find_exact_interval(save_s: float, loss_every_s: float) -> ClosedForm:
    """Return the interval of highest `efficiency`: (1 - x) e^x = e^-C/M with x = tau / M.

    It does not depend on R. It is found by bisection, since (1 - x) e^x is monotonic.
    """
    goal = math.exp(-save_s / loss_every_s)
    low, high = 0.0, 1.0  # (1 - x) e^x falls from 1 to 0 between them
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if (1 - middle) * math.exp(middle) > goal else (low, middle)
    seconds = loss_every_s * (low + high) / 2 if save_s else 0.0
    return ClosedForm("exact", seconds, "minimum of Daly's equation for the wall time", None)


def efficiency(interval_s: float, *, save_s: float, loss_every_s: float, restart_s: float) -> float:
    """Return the share of time that is useful: Daly's tau / (M e^(R/M) (e^((tau+C)/M) - 1)).

    Exact for memoryless losses that may also happen in a restart; 0 if the
    exponentials leave the range of numbers.
    """
    m = loss_every_s
    if not math.isfinite(m):
        return interval_s / (interval_s + save_s)
    exponent = restart_s / m + math.log(
        math.expm1(min(_EXPONENT_MAX, (interval_s + save_s) / m)) * m
    )
    return 0.0 if exponent > _EXPONENT_MAX else interval_s / math.exp(exponent)


def _too_rare(save_s: float, loss_every_s: float) -> str | None:
    if save_s <= SMALL * loss_every_s:
        return None
    return (
        f"first order needs C << M; here C = {save_s:g} s is more than a tenth of "
        f"M = {loss_every_s:g} s"
    )


# -- the simulated curve ------------------------------------------------------------------------

# Of the curve of goodput over intervals, spread evenly on a logarithmic scale.
POINTS = 11
FLAT = 0.01  # of goodput
REACH = 8.0  # times shorter and longer than the best by theory

Simulate = Callable[[Sequence[Question]], list[Outcomes]]  # each on the same draws


@dataclass(frozen=True)
class CurvePoint:
    """One interval: simulated goodput with its 95 % interval, and that of Daly's equation."""

    steps: int
    seconds: float
    simulated: float
    low: float
    high: float
    theory: float


@dataclass(frozen=True)
class IntervalCurve:
    """Points by rising interval; in the flat region goodput is within 0.01 of the best.

    At the best one, uploads keep up with saves.
    """

    points: tuple[CurvePoint, ...]
    best_steps: int
    flat_s: tuple[float, float]
    theory: tuple[ClosedForm, ...]

    @property
    def best(self) -> CurvePoint:
        """The point of highest simulated goodput."""
        return self.find_point(self.best_steps)

    def find_point(self, steps: int) -> CurvePoint:
        """Return the point of this interval; one beyond the training is that of its whole."""
        return next((point for point in self.points if point.steps == steps), self.points[-1])


def interval_curve(question: Question, simulate: Simulate) -> IntervalCurve:
    """Return the curve around the best interval by theory, and around the one that is set.

    It has unlimited retries: otherwise an interval could look good because runs fail early.
    """
    every_s = loss_interval_s(question.market, question.job.losable_nodes)
    unlimited_question = remove_limits(question)
    all_steps = _steps(question, every_s)
    questions = [
        change_question(unlimited_question, {"job.checkpoint_every_steps": steps})
        for steps in all_steps
    ]
    pairs = zip(questions, simulate(questions), strict=True)
    points = tuple(
        _point(changed_question, outcomes, every_s) for changed_question, outcomes in pairs
    )
    feasible_points = [point for point in points if point.steps >= question.shortest_steps]
    best = max(feasible_points, key=lambda point: point.simulated)
    flat = [p.seconds for p in points if p.simulated >= best.simulated - FLAT]
    save_s = question.stop_s
    theory = (
        young(save_s, every_s),
        daly(save_s, every_s),
        availability_optimal(save_s, every_s, question.required_costs.restart_s),
        find_exact_interval(save_s, every_s),
    )
    return IntervalCurve(points, best.steps, (min(flat), max(flat)), theory)


def _steps(question: Question, every_s: float) -> list[int]:
    job, best = (
        question.job,
        find_exact_interval(question.stop_s, min(every_s, 10 * question.work_s)),
    )
    middle = max(1.0, best.seconds / question.required_costs.step_s)
    spread = {round(steps) for steps in np.geomspace(middle / REACH, middle * REACH, POINTS)}
    spread |= {question.shortest_steps, job.checkpoint_every_steps}
    return sorted({min(job.steps, max(1, steps)) for steps in spread})


def _point(question: Question, outcomes: Outcomes, every_s: float) -> CurvePoint:
    steps, seconds = question.job.checkpoint_every_steps, question.interval_s
    restart_s, estimate = question.required_costs.restart_s, estimate_mean(goodput(outcomes))
    theory = efficiency(seconds, save_s=question.stop_s, loss_every_s=every_s, restart_s=restart_s)
    return CurvePoint(steps, seconds, estimate.value, estimate.low, estimate.high, theory)
