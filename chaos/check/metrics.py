"""Checks of reported values: counters, and what chooses a model or stops training."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.attempt import Commit
from chaos.check.divergence import divergence_place
from chaos.check.result import conclude, inconclusive, nothing_due, own_check
from chaos.check.storage import kept_at_the_end
from chaos.check.values import Value, flat, is_below
from chaos.model.places import RankName
from chaos.model.verdict import Anomaly, CheckResult
from chaos.words import plural

# -- metrics ---------------------------------------------------------------------------------------


METRICS = "metrics"


# A metric, by the place of the reporting rank in the report: its value in each epoch.
_Series: TypeAlias = Mapping[RankName, Mapping[int, int]]


@own_check(METRICS, asks="Do the job's own counters count on after a resume?")
def check_metrics(analysis: RunAnalysis) -> CheckResult:
    """Require that every reported counter goes on as in the baseline: no reset, gap or repetition.

    The promise of the metric series. A logger's step that begins at 0 again draws the curve over
    itself (Lightning-AI/pytorch-lightning#12991, wandb/wandb#4793). A counter is a whole number
    that grows from each of the baseline's reports to the next, and that had the baseline's values
    before the fault. The log is wrong then, and not the model: cosmetic. `trajectory` compares
    other metrics.
    """
    if not analysis.plan.ops:
        return nothing_due(METRICS, "no fault was planned, so there is nothing to compare")
    if analysis.reference is None:
        return inconclusive(METRICS, f"{analysis.no_reference} to know the job's counters by")
    due = _due_counters(analysis, analysis.reference)
    if not due:
        return nothing_due(METRICS, "no counter was reported before the fault")
    if not analysis.run.lineage.commits and analysis.error_was_expected:
        return nothing_due(METRICS, "the job ended with the expected error before its first report")
    ours = _whole_numbers(analysis.run.lineage.commits)
    names = sorted({name for _, name in due})
    return conclude(
        METRICS,
        anomalies=list(_wrong_counters(analysis.run.lineage.commits, ours, due)),
        evidence=sum(len(ours.get(key, {})) for key in due),
        summary=f"{', '.join(f'`{name}`' for name in names)} counted on over "
        f"{plural(len(analysis.restarts), 'restart')}",
        measures={"counters": ", ".join(names)},
    )


def counters(analysis: RunAnalysis) -> frozenset[str]:
    """Return the metrics that count training."""
    if analysis.reference is None or analysis.is_by_steps:
        return frozenset()
    return frozenset(name for _, name in _due_counters(analysis, analysis.reference))


def _due_counters(analysis: RunAnalysis, reference: RunTables) -> _Series:
    due = _counters(reference.lineage.commits, analysis.plan.expect.ignore_metrics)
    before = _whole_numbers(
        c for a in analysis.run.attempts for c in a.commits if c.number < analysis.began
    )
    return {key: series for key, series in due.items() if _agrees(before.get(key, {}), series)}


def _whole_numbers(commits: Iterable[Commit]) -> _Series:
    found: dict[RankName, dict[int, int]] = {}
    for commit in commits:
        for place, record in enumerate(commit.metrics):
            for name, value in flat(record):
                if _is_whole(value):
                    assert isinstance(value, int)
                    found.setdefault(RankName(place, name), {})[commit.epoch] = value
    return found


def _is_whole(value: Value) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _counters(commits: Sequence[Commit], ignore: tuple[str, ...]) -> _Series:
    """Return the whole numbers that grow with every report, and are in all of them."""
    found = {}
    for key, series in _whole_numbers(commits).items():
        values = [series[epoch] for epoch in sorted(series)]
        grows = all(a < b for a, b in pairwise(values))
        if grows and 1 < len(values) == len(commits) and not is_below(key.name, ignore):
            found[key] = series
    return found


def _agrees(ours: Mapping[int, int], due: Mapping[int, int]) -> bool:
    return bool(ours) and all(due.get(epoch) == value for epoch, value in ours.items())


def _wrong_counters(commits: Sequence[Commit], ours: _Series, due: _Series) -> Iterator[Anomaly]:
    named: set[str] = set()
    numbers = {commit.epoch: commit.number for commit in commits}
    for (place, name), theirs in sorted(due.items()):
        mine = ours.get(RankName(place, name), {})
        for epoch in sorted(mine):
            if name in named or mine[epoch] == theirs.get(epoch, mine[epoch]):
                continue
            named.add(name)
            last = max((e for e in mine if e < epoch), default=None)
            did = _jump_words(mine[epoch], None if last is None else mine[last])
            yield Anomaly(
                message=f"counter `{name}` {did} at the report of epoch {epoch}: "
                f"{mine[epoch]} instead of {theirs[epoch]}",
                events=(numbers[epoch],),
                severity="cosmetic",
            )


def _jump_words(value: int, before: int | None) -> str:
    if before is None or value > before:
        return "jumps"
    return "stands still" if value == before else "goes back"


# -- selection -------------------------------------------------------------------------------------


SELECTION = "selection"


_NAMES = re.compile(
    r"(^|[._/-])(best|patience|stale|stop|stopped|should_stop|early_stop(ping)?|wait|"
    r"(num_)?bad(_epochs)?)([._/-]|$)"
)
_Report: TypeAlias = Mapping[RankName, Value]


@own_check(SELECTION, asks="Was the same model chosen, and training stopped by the same rule?")
def check_selection(analysis: RunAnalysis) -> CheckResult:
    """Require the baseline's best value, patience and stop, and its choice of checkpoints.

    The promise of the callbacks' state. Patience that is counted anew never stops a job that is
    preempted often (huggingface/transformers#28544). A best value that is forgotten keeps another
    model (Lightning-AI/pytorch-lightning#4911). Judged by the values that are reported under such a
    name, and by the checkpoints kept at the end. Where losses or other metrics differed before, the
    choice follows from them.
    """
    if not analysis.plan.ops:
        return nothing_due(SELECTION, "no fault was planned, so there is nothing to compare")
    if analysis.reference is None:
        return inconclusive(SELECTION, f"{analysis.no_reference} to compare with")
    ignored = analysis.plan.expect.ignore_metrics
    compared = [
        (commit, theirs, name)
        for commit, theirs in _side_by_side(analysis, analysis.reference)
        for name in _report_values(theirs)
        if _NAMES.search(name.name) and not is_below(name.name, ignored)
    ]
    kept = _kept_alike(analysis, analysis.reference)
    if not compared and kept is None:
        return nothing_due(
            SELECTION, "the job reports no best value and no patience, and keeps all"
        )
    anomalies = list(_other_choice(analysis, compared))
    if not anomalies and isinstance(kept, Anomaly):
        anomalies = [kept]
    return conclude(
        SELECTION,
        anomalies=anomalies,
        evidence=len(compared) + (kept is not None),
        summary=f"{plural(len({n for *_, n in compared}), 'value')} that choose or stop, and the "
        "checkpoints that were kept, as in the baseline",
    )


def _side_by_side(analysis: RunAnalysis, reference: RunTables) -> Iterator[tuple[Commit, Commit]]:
    due = {commit.epoch: commit for commit in reference.lineage.commits}
    for commit in analysis.run.lineage.commits:
        if commit.epoch in due and not commit.of_survivors:
            yield commit, due[commit.epoch]


def _report_values(commit: Commit) -> _Report:
    return {
        RankName(rank, name): value
        for rank, record in enumerate(commit.metrics)
        for name, value in flat(record)
    }


def _other_choice(
    analysis: RunAnalysis, compared: list[tuple[Commit, Commit, RankName]]
) -> Iterator[Anomaly]:
    # A value that no report before the fault shows may differ from run to run, and so proves
    # nothing.
    before = [(m, due, name) for m, due, name in compared if m.number < analysis.began]
    loose = {name for mine, due, name in before if _choice_differs(mine, due, name)}
    proven = {name for *_, name in before} - loose
    after = [(m, due, name) for m, due, name in compared if m.number >= analysis.began]
    for mine, due, name in after:
        if name not in proven or not _choice_differs(mine, due, name):
            continue
        if _numbers_parted_before(analysis, mine, due):
            return
        ours, theirs = _report_values(mine).get(name), _report_values(due)[name]
        yield Anomaly(
            message=f"`{name.name}` is {ours} at the report of epoch {mine.epoch}, {theirs} in the "
            "baseline, while what it is chosen by is the same: its state did not come back",
            events=(mine.number,),
        )
        return


def _choice_differs(mine: Commit, due: Commit, name: RankName) -> bool:
    return _report_values(mine).get(name) != _report_values(due)[name]


def _numbers_parted_before(analysis: RunAnalysis, mine: Commit, due: Commit) -> bool:
    """Return whether a loss, inputs or another metric explains the difference."""
    where = divergence_place(analysis)
    if where is not None and where < (mine.epoch, float("inf")):
        return True
    ours, theirs = _report_values(mine), _report_values(due)
    others = {key for key in theirs if not _NAMES.search(key.name)}
    comparison = analysis.comparison
    loose = () if comparison is None else (*comparison.not_compared, *comparison.ignored)
    return any(ours.get(key) != theirs[key] for key in others if not is_below(key.name, loose))


def _kept_alike(analysis: RunAnalysis, reference: RunTables) -> Anomaly | bool | None:
    """Compare the epochs whose checkpoints are left; None where nothing follows.

    A job that saves more than its baseline, as at a notice, keeps other checkpoints.
    """
    ours, theirs = kept_at_the_end(analysis.run), kept_at_the_end(reference)
    made, due = ([c.epoch for c in t.lineage.commits] for t in (analysis.run, reference))
    # The choice is made by the reported values: once they part, other checkpoints are kept rightly.
    if ours is None or theirs is None or made != due or divergence_place(analysis) is not None:
        return None
    if analysis.unsaved or _saved_epochs(analysis.run) > _saved_epochs(reference):
        return None
    mine, due = _of_epochs(analysis.run, ours[1]), _of_epochs(reference, theirs[1])
    if mine == due:
        return True
    return Anomaly(
        message=f"the checkpoints of epochs {mine} were kept, in the baseline those of {due}",
        events=(ours[0],),
    )


def _of_epochs(tables: RunTables, kept: Mapping[str, int]) -> list[int]:
    """Return the epochs whose checkpoints were kept; one from before training belongs to none."""
    early = {commit.checkpoint for attempt in tables.attempts for commit in attempt.early}
    return sorted(epoch for name, epoch in kept.items() if name not in early)


def _saved_epochs(tables: RunTables) -> set[int]:
    return {commit.epoch for commit in tables.lineage.commits if commit.checkpoint is not None}
