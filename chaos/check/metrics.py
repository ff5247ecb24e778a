"""Checks of reported values: counters, and what chooses a model or stops training."""

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.anomaly import build_anomaly
from chaos.check.divergence import find_unequal_place
from chaos.check.kinds.metrics import ChoiceStateLost, OtherCheckpointsKept, WrongCounter
from chaos.check.result import builtin_check, conclude, inconclusive, not_applicable
from chaos.check.storage import find_final_checkpoints
from chaos.check.values import Value, flatten_values, matches_name
from chaos.model.places import RankName
from chaos.model.verdict import Anomaly, CheckResult
from chaos.resume.attempt import Commit
from chaos.wording import plural

# -- metrics ---------------------------------------------------------------------------------------


METRICS = "metrics"


# A metric, by the place of the reporting rank in the report: its value in each epoch.
_Series: TypeAlias = Mapping[RankName, Mapping[int, int]]


@builtin_check(METRICS, asks="Do the job's own counters count on after a resume?")
def check_metrics(analysis: RunAnalysis) -> CheckResult:
    """Require that every reported counter goes on as in the baseline: no reset, gap or repetition.

    A logger's step that begins at 0 again draws the curve over itself
    (Lightning-AI/pytorch-lightning#12991, wandb/wandb#4793). A counter is a whole number that grows
    from each of the baseline's reports to the next, and had the baseline's values before the fault.
    The log is wrong then, and not the model: cosmetic. `trajectory` compares other metrics.
    """
    if not analysis.plan.ops:
        return not_applicable(METRICS, "no fault was planned, so there is nothing to compare")
    if analysis.reference is None:
        return inconclusive(METRICS, f"{analysis.no_baseline_reason} to know the job's counters by")
    expected_counters = _find_expected_counters(analysis, analysis.reference)
    if not expected_counters:
        return not_applicable(METRICS, "no counter was reported before the fault")
    if not analysis.run.lineage.commits and analysis.has_expected_error:
        return not_applicable(
            METRICS, "the job ended with the expected error before its first report"
        )
    run_counters = _collect_run_counters(analysis, expected_counters)
    names = sorted({name for _, name in expected_counters})
    return conclude(
        METRICS,
        anomalies=list(_find_wrong_counters(analysis, run_counters, expected_counters)),
        evidence=sum(len(run_counters.get(key, {})) for key in expected_counters),
        summary=f"{', '.join(f'`{name}`' for name in names)} counted on over "
        f"{plural(len(analysis.restarts), 'restart')}",
        measures={"counters": ", ".join(names)},
    )


def _collect_run_counters(analysis: RunAnalysis, expected_counters: _Series) -> _Series:
    """Return the run's counters as far as they are comparable.

    After other steps than the baseline's only a counter of reports is.
    """
    commits = analysis.run.lineage.commits
    other_epochs = {c.epoch for c in commits if _follows_other_steps(analysis, c)}
    report_counters = {
        key
        for key, series in expected_counters.items()
        if len({value - epoch for epoch, value in series.items()}) == 1
    }
    return {
        key: {e: value for e, value in series.items() if e not in other_epochs}
        if key not in report_counters
        else series
        for key, series in _collect_integers(commits).items()
    }


def _follows_other_steps(analysis: RunAnalysis, commit: Commit) -> bool:
    """Return whether a report follows steps of other workers, or some that are made twice."""
    repeat_start = min((steps.start_number for steps in analysis.repeated_steps), default=math.inf)
    return commit.attempt in analysis.resized_attempts or commit.number >= repeat_start


def find_counters(analysis: RunAnalysis) -> frozenset[str]:
    """Return the metrics that count training."""
    if analysis.reference is None or analysis.is_step_aligned:
        return frozenset()
    return frozenset(name for _, name in _find_expected_counters(analysis, analysis.reference))


def _find_expected_counters(analysis: RunAnalysis, reference: RunTables) -> _Series:
    counters = _select_counters(reference.lineage.commits, analysis.plan.expect.ignore_metrics)
    early_numbers = _collect_integers(
        commit
        for attempt in analysis.run.attempts
        for commit in attempt.commits
        if commit.number < analysis.fault_start
    )
    return {
        key: series
        for key, series in counters.items()
        if _is_equal_series(early_numbers.get(key, {}), series)
    }


def _collect_integers(commits: Iterable[Commit]) -> _Series:
    numbers: dict[RankName, dict[int, int]] = {}
    for commit in commits:
        for rank_position, record in enumerate(commit.metrics):
            for name, value in flatten_values(record):
                if _is_integer(value):
                    assert isinstance(value, int)
                    numbers.setdefault(RankName(rank_position, name), {})[commit.epoch] = value
    return numbers


def _is_integer(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _select_counters(commits: Sequence[Commit], ignore: tuple[str, ...]) -> _Series:
    """Return the whole numbers that grow with every report, and are in all of them."""
    counters = {}
    for key, series in _collect_integers(commits).items():
        values = [series[epoch] for epoch in sorted(series)]
        is_growing = all(a < b for a, b in pairwise(values))
        if is_growing and 1 < len(values) == len(commits) and not matches_name(key.name, ignore):
            counters[key] = series
    return counters


def _is_equal_series(run_series: Mapping[int, int], baseline_series: Mapping[int, int]) -> bool:
    return bool(run_series) and all(
        baseline_series.get(epoch) == value for epoch, value in run_series.items()
    )


def _find_wrong_counters(
    analysis: RunAnalysis, run_counters: _Series, expected_counters: _Series
) -> Iterator[Anomaly]:
    reported_names: set[str] = set()
    numbers = {commit.epoch: commit.number for commit in analysis.run.lineage.commits}
    for (rank_position, name), baseline_series in sorted(expected_counters.items()):
        run_series = run_counters.get(RankName(rank_position, name), {})
        for epoch in sorted(run_series):
            if name in reported_names or run_series[epoch] == baseline_series.get(
                epoch, run_series[epoch]
            ):
                continue
            reported_names.add(name)
            previous_epoch = max(
                (earlier_epoch for earlier_epoch in run_series if earlier_epoch < epoch),
                default=None,
            )
            yield build_anomaly(
                WrongCounter(
                    name,
                    epoch,
                    run_series[epoch],
                    baseline_series[epoch],
                    None if previous_epoch is None else run_series[previous_epoch],
                ),
                analysis.launcher_words,
                events=(numbers[epoch],),
                parts=(name,),
                severity="cosmetic",
            )


# -- selection -------------------------------------------------------------------------------------


SELECTION = "selection"


_NAMES = re.compile(
    r"(^|[._/-])(best|patience|stale|stop|stopped|should_stop|early_stop(ping)?|wait|"
    r"(num_)?bad(_epochs)?)([._/-]|$)"
)
_Report: TypeAlias = Mapping[RankName, Value]


@builtin_check(SELECTION, asks="Was the same model chosen, and training stopped by the same rule?")
def check_selection(analysis: RunAnalysis) -> CheckResult:
    """Require the baseline's best value, patience and stop, and its choice of checkpoints.

    Patience that is counted anew never stops a job that is preempted often
    (huggingface/transformers#28544). A best value that is forgotten keeps another model
    (Lightning-AI/pytorch-lightning#4911). Judged by the values that are reported under such a name,
    and by the checkpoints kept at the end.
    """
    if not analysis.plan.ops:
        return not_applicable(SELECTION, "no fault was planned, so there is nothing to compare")
    if analysis.reference is None:
        return inconclusive(SELECTION, f"{analysis.no_baseline_reason} to compare with")
    ignored_names = analysis.plan.expect.ignore_metrics
    compared_values = [
        (commit, baseline_commit, name)
        for commit, baseline_commit in _pair_commits(analysis, analysis.reference)
        for name in _collect_values(baseline_commit)
        if _NAMES.search(name.name) and not matches_name(name.name, ignored_names)
    ]
    retention = _compare_retention(analysis, analysis.reference)
    if not compared_values and retention is None and _has_other_steps(analysis):
        return not_applicable(
            SELECTION, "after other steps than the baseline's the job chooses by other numbers"
        )
    if not compared_values and retention is None:
        return not_applicable(
            SELECTION, "the job reports no best value and no patience, and keeps all"
        )
    anomalies = list(_find_other_choice(analysis, compared_values))
    if not anomalies and isinstance(retention, Anomaly):
        anomalies = [retention]
    return conclude(
        SELECTION,
        anomalies=anomalies,
        evidence=len(compared_values) + (retention is not None),
        summary=f"{plural(len({n for *_, n in compared_values}), 'value')} that choose or stop, "
        f"and the "
        "checkpoints that were kept, as in the baseline",
    )


def _pair_commits(analysis: RunAnalysis, reference: RunTables) -> Iterator[tuple[Commit, Commit]]:
    # After other steps, all that a model is chosen by may be another number.
    baseline_commits = {commit.epoch: commit for commit in reference.lineage.commits}
    for commit in analysis.run.lineage.commits:
        is_comparable = not (commit.has_only_rank_0 or _follows_other_steps(analysis, commit))
        if commit.epoch in baseline_commits and is_comparable:
            yield commit, baseline_commits[commit.epoch]


def _has_other_steps(analysis: RunAnalysis) -> bool:
    return any(_follows_other_steps(analysis, c) for c in analysis.run.lineage.commits)


def _collect_values(commit: Commit) -> _Report:
    return {
        RankName(rank, name): value
        for rank, record in enumerate(commit.metrics)
        for name, value in flatten_values(record)
    }


def _find_other_choice(
    analysis: RunAnalysis, compared_values: list[tuple[Commit, Commit, RankName]]
) -> Iterator[Anomaly]:
    # A value that no report before the fault shows may differ from run to run, and so proves
    # nothing.
    early_values = [
        (commit, baseline_commit, name)
        for commit, baseline_commit, name in compared_values
        if commit.number < analysis.fault_start
    ]
    unstable_names = {
        name
        for run_commit, baseline_commit, name in early_values
        if _has_other_value(run_commit, baseline_commit, name)
    }
    proven_names = {name for *_, name in early_values} - unstable_names
    later_values = [
        (commit, baseline_commit, name)
        for commit, baseline_commit, name in compared_values
        if commit.number >= analysis.fault_start
    ]
    for run_commit, baseline_commit, name in later_values:
        if name not in proven_names or not _has_other_value(run_commit, baseline_commit, name):
            continue
        if _has_earlier_divergence(analysis, run_commit, baseline_commit):
            return
        run_value, baseline_value = (
            _collect_values(run_commit).get(name),
            _collect_values(baseline_commit)[name],
        )
        yield build_anomaly(
            ChoiceStateLost(name.name, run_commit.epoch, run_value, baseline_value),
            analysis.launcher_words,
            events=(run_commit.number,),
            parts=(name.name,),
        )
        return


def _has_other_value(run_commit: Commit, baseline_commit: Commit, name: RankName) -> bool:
    return _collect_values(run_commit).get(name) != _collect_values(baseline_commit)[name]


def _has_earlier_divergence(
    analysis: RunAnalysis, run_commit: Commit, baseline_commit: Commit
) -> bool:
    """Return whether a loss, inputs or another metric explains the difference."""
    divergence = find_unequal_place(analysis)
    if divergence is not None and divergence < (run_commit.epoch, float("inf")):
        return True
    run_values, baseline_values = _collect_values(run_commit), _collect_values(baseline_commit)
    other_keys = {key for key in baseline_values if not _NAMES.search(key.name)}
    comparison = analysis.comparison
    ignored_names = (
        () if comparison is None else (*comparison.unstable_metrics, *comparison.ignored_metrics)
    )
    return any(
        run_values.get(key) != baseline_values[key]
        for key in other_keys
        if not matches_name(key.name, ignored_names)
    )


def _compare_retention(analysis: RunAnalysis, reference: RunTables) -> Anomaly | bool | None:
    """Compare the epochs whose checkpoints are left; None where nothing follows.

    A job that saves more than its baseline, as at a notice, keeps other checkpoints.
    """
    run_retention, baseline_retention = (
        find_final_checkpoints(analysis.run),
        find_final_checkpoints(reference),
    )
    run_epochs, baseline_epochs = (
        [commit.epoch for commit in tables.lineage.commits] for tables in (analysis.run, reference)
    )
    # The choice is made by the reported values: once they part, other checkpoints are kept rightly.
    if (
        _has_other_steps(analysis)
        or run_retention is None
        or baseline_retention is None
        or run_epochs != baseline_epochs
        or find_unequal_place(analysis) is not None
    ):
        return None
    if analysis.unsaved_epochs or _saved_epochs(analysis.run) > _saved_epochs(reference):
        return None
    retained_epochs, baseline_epochs = (
        _select_trained_epochs(analysis.run, run_retention[1]),
        _select_trained_epochs(reference, baseline_retention[1]),
    )
    if retained_epochs == baseline_epochs:
        return True
    return build_anomaly(
        OtherCheckpointsKept(tuple(retained_epochs), tuple(baseline_epochs)),
        analysis.launcher_words,
        events=(run_retention[0],),
    )


def _select_trained_epochs(tables: RunTables, checkpoint_epochs: Mapping[str, int]) -> list[int]:
    """Return the epochs whose checkpoints were kept; one from before training belongs to none."""
    early_checkpoints = {
        commit.checkpoint for attempt in tables.attempts for commit in attempt.early_commits
    }
    return sorted(
        epoch for name, epoch in checkpoint_epochs.items() if name not in early_checkpoints
    )


def _saved_epochs(tables: RunTables) -> set[int]:
    return {commit.epoch for commit in tables.lineage.commits if commit.checkpoint is not None}
