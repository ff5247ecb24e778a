"""Forecasts compared with recorded runs."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any

import numpy as np

from chaos.check.analysis import RunAnalysis
from chaos.errors import UsageError
from chaos.extensions.preflight.capacity import Floats
from chaos.extensions.preflight.estimate import Estimate, bootstrap_mean
from chaos.extensions.preflight.forecast import goodput, simulate
from chaos.extensions.preflight.load import find_launcher_facts, has_reports, measure_step_s
from chaos.extensions.preflight.market import Market
from chaos.extensions.preflight.question import Question, change_question, remove_limits
from chaos.extensions.preflight.simulated_runs import SimulatedRuns, pack_luck
from chaos.model.event import (
    ControllerState,
    FailureDecided,
    FileSaved,
    FitCalled,
    WorkerGroupStarted,
)
from chaos.model.history import History


@dataclass(frozen=True)
class FigureComparison:
    """One figure over `runs` runs, each side a mean with its 95 % interval."""

    figure: str
    unit: str
    runs: int
    #: the interval for the mean of so many runs; it is exact if the model has all inputs but the
    #: costs
    predicted: Estimate
    measured: Estimate
    #: the share of runs within the 5 to 95 % of single runs that the model expects, 0.9 if it is
    #: right; None if it makes no distribution
    inside: float | None = None

    @property
    def difference(self) -> float:
        """The relative error of the prediction."""
        if self.measured.value == 0:
            return 0.0 if self.predicted.value == 0 else math.inf
        return self.predicted.value / self.measured.value - 1

    @property
    def agrees(self) -> bool:
        """Whether the measured mean lies in the predicted interval of means of so many runs."""
        return self.predicted.low <= self.measured.value <= self.predicted.high

    def dump_values(self) -> dict[str, Any]:
        plain = asdict(self)
        inside = plain.pop("inside")
        derived_values = {
            "difference": self.difference,
            "agrees": self.agrees,
            "inside_5_to_95": inside,
        }
        return plain | derived_values


@dataclass(frozen=True)
class Validation:
    """The comparison of a model with runs: a description of the runs, and each figure."""

    what: str
    rows: tuple[FigureComparison, ...] = ()
    notes: tuple[str, ...] = ()

    def dump_values(self) -> dict[str, Any]:
        """Return the comparison as plain values."""
        rows = [row.dump_values() for row in self.rows]
        return {"what": self.what, "notes": list(self.notes), "figures": rows}


# -- measured runs ------------------------------------------------------------------------------

# Of Ray 2.60: a state of its controller, and its error if a placement group is not ready.
SCHEDULING, NO_ROOM = "SCHEDULING", "WorkerGroupStartupTimeoutError"
FIGURES = (
    ("attempts", "", "attempts"),
    ("steps lost", "", "lost_steps"),
    ("finish", "s", "finish_s"),
    ("goodput", "", "goodput"),
)


@dataclass(frozen=True)
class RunFigures:
    """One run: attempts, steps lost per rank, seconds from its beginning to the last commit.

    An attempt is a start after a loss, even if it did not come to train; a start by which an
    elastic job grows again is none.
    """

    attempts: float
    lost_steps: float
    finish_s: float
    goodput: float


def run_figures(analysis: RunAnalysis, *, steps: int, schedule_s: float = 0.0) -> RunFigures | None:
    """Measure a run of a job of so many steps; return None if it did not finish.

    Its time begins when Ray's controller first looks for places for workers, or `schedule_s` before
    the first workers of another launcher: the controller's own start is no part of a forecast. Its
    goodput counts each step with the mean time of its own steps.
    """
    history, completion = analysis.history, _find_completion(analysis)
    began_ns = _find_start_ns(history, schedule_s)
    if began_ns is None or completion is None:
        return None
    lost, end_ns = completion
    finish_s = (end_ns - began_ns) / 1e9
    own_step_s = measure_step_s([(history, attempt) for attempt in analysis.run.attempts])
    failures = sum(
        event.decision == "RETRY" and NO_ROOM not in event.error  # such a start lost no worker
        for _, event in history.select_events(FailureDecided)
    )
    return RunFigures(1 + failures, lost, finish_s, steps * own_step_s / finish_s)


def _find_completion(analysis: RunAnalysis) -> tuple[int, int] | None:
    """Return a rank's lost steps and the time of the last save; None if it did not finish."""
    save_numbers = [
        commit.number for attempt in analysis.run.attempts for commit in attempt.commits
    ]
    if not has_reports(analysis.history):
        save_numbers = [number for number, _ in analysis.history.select_events(FileSaved)]
    if not save_numbers or not analysis.run.ending.is_finished:
        return None
    lost = sum(max(restart.lost_steps_by_rank.values(), default=0) for restart in analysis.restarts)
    return lost, analysis.history.time_ns(max(save_numbers))


def _find_start_ns(history: History, schedule_s: float) -> float | None:
    """Return when a forecast's time begins: as places are first looked for, or at `fit()`."""
    states = history.select_events(ControllerState)
    scheduling = next((number for number, event in states if event.state == SCHEDULING), None)
    if scheduling is not None:
        return history.time_ns(scheduling)
    calls = find_launcher_facts(history).has_call
    start_events = (
        history.select_events(FitCalled) if calls else history.select_events(WorkerGroupStarted)
    )
    start_number = next((number for number, _ in start_events), None)
    if start_number is None:
        return None
    return history.time_ns(start_number) - (0 if calls else 1e9 * schedule_s)


def lead_s(history: History, schedule_s: float) -> float:
    """Return the seconds of a run, and of its time limit, before the forecast's time begins."""
    began_ns = _find_start_ns(history, schedule_s)
    return 0.0 if began_ns is None else (began_ns - history.time_ns(0)) / 1e9


# -- runs with faults at known places -----------------------------------------------------------

_LUCK = np.array([pack_luck(0.0, 1.0, 0.0, 1.0)], dtype=np.uint64)  # hit, without notice
_FOR_EVER_S = 1e12


def validate_runs(question: Question, analyses: Sequence[RunAnalysis]) -> Validation:
    """Compare predicted and measured attempts, lost steps, finish times and goodput.

    `question` holds the costs and the length of the recorded job. Only finished runs
    with faults without notice count; raises `UsageError` if there is none.
    """
    pairs = [pair for analysis in analyses if (pair := _pair(question, analysis)) is not None]
    if not pairs:
        raise UsageError("no recorded run had a fault without notice and finished")
    rows = tuple(
        _row(name, unit, [(getattr(p, field), getattr(m, field)) for p, m in pairs])
        for name, unit, field in FIGURES
    )
    description = f"{len(pairs)} recorded runs, given the steps after which each had its fault"
    return Validation(description, rows)


def _row(name: str, unit: str, pairs: Sequence[tuple[float, float]]) -> FigureComparison:
    """Compare in pairs: the prediction's interval is that of its errors."""
    error = bootstrap_mean([measured - predicted for predicted, measured in pairs])
    value = fmean(predicted for predicted, _ in pairs)
    low, high = value + error.low - error.value, value + error.high - error.value
    measured = bootstrap_mean([measured for _, measured in pairs])
    return FigureComparison(name, unit, len(pairs), Estimate(value, low, high), measured)


def _pair(question: Question, analysis: RunAnalysis) -> tuple[RunFigures, RunFigures] | None:
    attempts, costs, completion = (
        analysis.run.attempts,
        question.required_costs,
        _find_completion(analysis),
    )
    if completion is None or not analysis.restarts or not attempts[0].steps:
        return None
    if any(injection.is_preemption for injection in analysis.injections):
        return None
    # The model's clock begins before the first start; the record's is aligned with it at step 1.
    first_s = analysis.history.time_ns(attempts[0].steps[0].number) / 1e9
    lost, end_ns = completion
    finish_s = end_ns / 1e9 - (first_s - costs.begin_s - costs.step_s)
    measured = RunFigures(len(attempts), lost, finish_s, question.work_s / finish_s)
    ranks = (Counter(step.rank for step in attempt.steps) for attempt in attempts[:-1])
    return predict_run(
        question, [max(rank_counts.values(), default=0) for rank_counts in ranks]
    ), measured


def predict_run(question: Question, fault_steps: Sequence[int]) -> RunFigures:
    """Return the model's figures of a job whose attempts end by a fault after so many steps each.

    Nodes are available. A rank at the place of an op is held until all reports before it
    are committed, so the model waits for that as well.
    """
    costs, save_interval = question.required_costs, question.job.checkpoint_every_steps
    unlimited_question = change_question(
        remove_limits(question), {"job.min_nodes": None, "job.spare_nodes": 0}
    )
    nodes = np.array([unlimited_question.job.nodes])
    runs = SimulatedRuns([unlimited_question], nodes, [_FOR_EVER_S])
    for steps in fault_steps:
        saved_s = steps // save_interval * (question.interval_s + question.stop_s)
        committed_s = saved_s + (question.commit_delay_s if saved_s else 0.0)
        trained_s = max(saved_s + steps % save_interval * costs.step_s, committed_s)
        runs.advance(runs.ready_s + trained_s)
        runs.apply_change(nodes, np.array([1]), _LUCK, None)
    runs.advance(np.array([_FOR_EVER_S]))
    end_s, lost = float(runs.end_s[0]), float(runs.lost_steps[0])
    return RunFigures(1 + int(runs.restarts[0]), lost, end_s, question.work_s / end_s)


# -- runs with faults by the clock --------------------------------------------------------------

RUNS = 1_000  # for each set of costs
_HORIZON = 200  # times the work


def build_validation_question(question: Question, market: Market, *, pool: int) -> Question:
    """Return the question of the runs: no goal, unlimited retries, this market.

    Their saves were timed around any kind of `report()`: the time after it is behind training.
    """
    values = {
        "settings.checkpoint_upload_mode": question.settings.background_upload_mode,
        "market": market.model_dump(mode="json"),
        "goal": {},
        "job.spare_nodes": pool - question.job.nodes,
    }
    return remove_limits(change_question(question, values))


def compare_figures(
    questions: Sequence[Question],
    runs: Sequence[RunFigures],
    *,
    seed: int,
    spares_starts: bool = True,
    until_s: float = math.inf,
    cut_off: int = 0,
) -> tuple[FigureComparison, ...]:
    """Compare the means of `runs` with the model's interval for such means.

    `runs` are those that finished within `until_s`, and `cut_off` counts those that did not. The
    model's runs are cut off there as well: else a few long ones would stand in its means alone.

    `questions` differ only in their costs, each resampled from the runs that measured
    them, so that the intervals include both the randomness of losses and the uncertainty
    of costs. With `spares_starts` no loss took a worker before its first step.
    """
    drawn = [
        _simulate_figures(question, seed + n, spares_starts=spares_starts)
        for n, question in enumerate(questions)
    ]
    in_time = [sample["finish_s"] <= until_s for sample in drawn]
    rows = []
    if min(is_in_time.sum() for is_in_time in in_time) >= len(runs):  # else the share says it all
        for name, unit, field in FIGURES:
            timely_values = [
                sample[field][is_in_time] for sample, is_in_time in zip(drawn, in_time, strict=True)
            ]
            rows.append(
                _compare_figure(name, unit, timely_values, [getattr(run, field) for run in runs])
            )
    if math.isfinite(until_s):
        ended = [*[1.0] * len(runs), *[0.0] * cut_off]
        finished = [is_in_time.astype(np.float64) for is_in_time in in_time]
        share = _compare_figure(f"finished in {until_s:.0f} s", "", finished, ended)
        rows.append(replace(share, inside=None))  # a run finishes or not: it has no spread
    return tuple(rows)


def _simulate_figures(question: Question, seed: int, *, spares_starts: bool) -> dict[str, Floats]:
    horizon_s = _HORIZON * question.work_s
    outcomes = simulate(
        question, runs=RUNS, seed=seed, horizon_s=horizon_s, jobs=1, spares_starts=spares_starts
    )
    return {
        "attempts": 1 + outcomes.restarts,
        "lost_steps": outcomes.lost_steps,
        "finish_s": outcomes.end_s,
        "goodput": goodput(outcomes),
    }


def _compare_figure(
    name: str, unit: str, drawn: Sequence[Floats], values: Sequence[float]
) -> FigureComparison:
    count, all_runs = len(values), np.concatenate(drawn)
    groups = [
        sample[: len(sample) // count * count].reshape(-1, count).mean(axis=1) for sample in drawn
    ]
    low, high = np.quantile(np.concatenate(groups), [0.025, 0.975])
    low_limit, high_limit = np.quantile(all_runs, [0.05, 0.95], method="inverted_cdf")
    inside = sum(bool(low_limit <= value <= high_limit) for value in values) / count
    predicted = Estimate(float(all_runs.mean()), float(low), float(high))
    return FigureComparison(name, unit, count, predicted, bootstrap_mean(values), inside)
