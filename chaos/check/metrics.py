"""Do the job's own counters count on after a resume?"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from chaos.check.attempt import Commit
from chaos.check.result import conclude, nothing_due, plural, unknown
from chaos.check.trial import Course, Trial
from chaos.check.values import Value, flat, is_below
from chaos.model.verdict import Anomaly, CheckResult

NAME = "metrics"

_Key: TypeAlias = tuple[int, str]  # the reporting rank's place in the report, and the metric's name
_Series: TypeAlias = Mapping[_Key, Mapping[int, int]]  # its value in each epoch


def check(trial: Trial) -> CheckResult:
    """Require that every reported counter goes on as in the baseline: no reset, gap or repetition.

    The promise of the metric series: a logger's step that begins at 0 again
    draws the curve over itself (Lightning-AI/pytorch-lightning#12991,
    wandb/wandb#4793). A counter is a whole number that grows from each of the
    baseline's reports to the next, and that had the baseline's values before
    the fault. It is what is logged that is wrong, and not the model: cosmetic.
    Other metrics are `trajectory`'s to compare.
    """
    if not trial.plan.ops:
        return nothing_due(NAME, "no fault was planned, so there is nothing to compare")
    if trial.reference is None:
        return unknown(NAME, f"{trial.no_reference} to know the job's counters by")
    due = _due(trial, trial.reference)
    if not due:
        return nothing_due(NAME, "no counter was reported before the fault")
    if not trial.run.lineage.commits and trial.error_was_expected:
        return nothing_due(NAME, "the job ended with the expected error before its first report")
    ours = _whole_numbers(trial.run.lineage.commits)
    names = sorted({name for _, name in due})
    return conclude(
        NAME,
        anomalies=list(_anomalies(trial.run.lineage.commits, ours, due)),
        evidence=sum(len(ours.get(key, {})) for key in due),
        summary=f"{', '.join(f'`{name}`' for name in names)} counted on over "
        f"{plural(len(trial.restarts), 'restart')}",
        measures={"counters": ", ".join(names)},
    )


def counters(trial: Trial) -> frozenset[str]:
    """Name the metrics that count training."""
    is_known = trial.reference is not None and not trial.is_by_steps
    due = _due(trial, trial.reference) if is_known and trial.reference is not None else {}
    return frozenset(name for _, name in due)


def _due(trial: Trial, reference: Course) -> _Series:
    due = _counters(reference.lineage.commits, trial.plan.expect.ignore_metrics)
    before = _whole_numbers(
        c for a in trial.run.attempts for c in a.commits if c.number < trial.began
    )
    return {key: series for key, series in due.items() if _agrees(before.get(key, {}), series)}


def _whole_numbers(commits: "Iterator[Commit] | Sequence[Commit]") -> _Series:
    found: dict[_Key, dict[int, int]] = {}
    for commit in commits:
        for place, record in enumerate(commit.metrics):
            for name, value in flat(record):
                if _is_whole(value):
                    assert isinstance(value, int)
                    found.setdefault((place, name), {})[commit.epoch] = value
    return found


def _is_whole(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _counters(commits: Sequence[Commit], ignore: tuple[str, ...]) -> _Series:
    """Give the whole numbers that grow with every report, and are in all of them."""
    found = {}
    for key, series in _whole_numbers(commits).items():
        values = [series[epoch] for epoch in sorted(series)]
        grows = all(a < b for a, b in pairwise(values))
        if grows and 1 < len(values) == len(commits) and not is_below(key[1], ignore):
            found[key] = series
    return found


def _agrees(ours: Mapping[int, int], due: Mapping[int, int]) -> bool:
    return bool(ours) and all(due.get(epoch) == value for epoch, value in ours.items())


def _anomalies(commits: Sequence[Commit], ours: _Series, due: _Series) -> Iterator[Anomaly]:
    told: set[str] = set()
    numbers = {commit.epoch: commit.number for commit in commits}
    for (place, name), theirs in sorted(due.items()):
        mine = ours.get((place, name), {})
        for epoch in sorted(mine):
            if name in told or mine[epoch] == theirs.get(epoch, mine[epoch]):
                continue
            told.add(name)
            last = max((e for e in mine if e < epoch), default=None)
            did = _did(mine[epoch], None if last is None else mine[last])
            yield Anomaly(
                message=f"counter `{name}` {did} at the report of epoch {epoch}: "
                f"{mine[epoch]} instead of {theirs[epoch]}",
                events=(numbers[epoch],),
                severity="cosmetic",
            )


def _did(value: int, before: int | None) -> str:
    if before is None or value > before:
        return "jumps"
    return "stands still" if value == before else "goes back"
