"""Facts on a part of the state that did not come back, with a hint on how to repair it."""

from collections.abc import Mapping, Sequence
from typing import get_args

from chaos.check.analysis import RunAnalysis
from chaos.check.kinds.base import Facts
from chaos.check.kinds.state import (
    SAVED_OPTIMIZER,
    ChangeHint,
    ModelRestructured,
    PartChanged,
    PartFacts,
    PartNotRestored,
    PartOfOtherMoment,
    PartStanding,
    PartValue,
    RestoreHint,
    SavedModelUnused,
    ShardsMisplaced,
    UntiedParameters,
    WrongModelSaved,
)
from chaos.check.prose.state import describe_part_value
from chaos.check.saved_model import (
    are_buffers_in_file,
    find_wrong_save,
    is_model_in_file,
    is_optimizer_in_file,
)
from chaos.model.event import Component, ParametersNamed, StateSeen
from chaos.model.history import History
from chaos.model.places import TrainingPlace
from chaos.resume.state_at_resume import ResumeRow
from chaos.resume.state_snapshots import holds_nothing

_STANDINGS: Mapping[str, PartStanding] = {name: name for name in get_args(PartStanding)}
_RESTORE_HINTS: Mapping[str, RestoreHint] = {name: name for name in get_args(RestoreHint)}
_CHANGE_HINTS: Mapping[str, ChangeHint] = {name: name for name in get_args(ChangeHint)}


def build_part_facts(analysis: RunAnalysis, rows: Sequence[ResumeRow]) -> Facts:
    """Return the facts of a defect by the rows of one cause, nearest first."""
    if rows[0].is_restructured:
        return _build_structure_facts(analysis, rows)
    return _build_value_facts(analysis, rows)


def _build_value_facts(analysis: RunAnalysis, rows: Sequence[ResumeRow]) -> PartFacts:
    row = rows[0]
    shared_facts = (
        row.component,
        _find_ranks(rows),
        _STANDINGS[row.standing],
        TrainingPlace(row.epoch, row.step),
        build_part_value(row.actual),
        build_part_value(row.expected),
        row.expects_own_state,
        _find_other_parts(rows),
    )
    if row.is_resharded and row.standing == "different":
        return ShardsMisplaced(*shared_facts)
    if row.group == "model":
        wrong_save = find_wrong_save(analysis, row)
        if wrong_save is not None:  # of several files, what came back is that of this one
            return WrongModelSaved(*shared_facts, wrong_save)
        if is_model_in_file(analysis, row, row.expected):
            return SavedModelUnused(*shared_facts)
    moment = _find_moment(analysis, row)
    if moment is not None:
        return PartOfOtherMoment(*shared_facts, moment)
    change_hint = _find_change_hint(analysis, row)
    if change_hint is not None:
        return PartChanged(*shared_facts, change_hint)
    return PartNotRestored(*shared_facts, _find_restore_hint(analysis, row))


def _find_ranks(rows: Sequence[ResumeRow]) -> tuple[int, ...]:
    """Return the ranks on which the first part is lost in the same way."""
    first_key = (rows[0].component, rows[0].standing)
    return tuple(sorted({row.rank for row in rows if (row.component, row.standing) == first_key}))


def _find_other_parts(rows: Sequence[ResumeRow]) -> tuple[str, ...]:
    names = dict.fromkeys(row.component for row in rows)
    return tuple(name for name in names if name != rows[0].component)


def _find_change_hint(analysis: RunAnalysis, row: ResumeRow) -> ChangeHint | None:
    is_other_buffer = row.group == "buffers" and row.standing == "different"
    if is_other_buffer and are_buffers_in_file(analysis, row):
        return "saved buffers"
    component_kind = _find_component_kind(row)
    is_whole = component_kind == row.group or component_kind not in _RESTORE_HINTS
    return _CHANGE_HINTS.get(row.group) if row.standing == "different" and is_whole else None


def _find_restore_hint(analysis: RunAnalysis, row: ResumeRow) -> RestoreHint:
    if row.group == "optimizer" and is_optimizer_in_file(analysis, row):
        return SAVED_OPTIMIZER
    hint = _RESTORE_HINTS.get(_find_component_kind(row))
    return hint or _RESTORE_HINTS.get(row.group, "declared")


def _find_component_kind(row: ResumeRow) -> str:
    """Return the name of a part, the same for each of several models."""
    return row.component.rstrip(".0123456789")


def _find_moment(analysis: RunAnalysis, row: ResumeRow) -> TrainingPlace | None:
    """Return the other moment at which the rank had a part as it came back, if it was seen there.

    The run's own moments count up to the resume, and all of the baseline's.
    """
    if row.standing != "different" or row.actual is None or not row.actual.digest:
        return None
    places = {
        TrainingPlace(snapshot.epoch, snapshot.step)
        for tables in filter(None, (analysis.run, analysis.reference))
        for number, snapshot in tables.snapshots.numbered_snapshots
        if snapshot.rank == row.rank and (tables is not analysis.run or number < row.number)
        if _has_part(snapshot, row)
    }
    resume_place = TrainingPlace(row.epoch, row.step)
    if not places or min(places) <= resume_place <= max(places):
        return None
    return min(places) if min(places) > resume_place else max(places)


def _has_part(snapshot: StateSeen, row: ResumeRow) -> bool:
    assert row.actual is not None
    digest = row.actual.digest
    return any(part.name == row.component and part.digest == digest for part in snapshot.components)


def _build_structure_facts(
    analysis: RunAnalysis, rows: Sequence[ResumeRow]
) -> UntiedParameters | ModelRestructured:
    """Return which parameters a model has after a resume, and which it had, by name."""
    row = rows[0]
    shared_facts = (
        _find_ranks(rows),
        TrainingPlace(row.epoch, row.step),
        _find_other_parts(rows),
    )
    run_names = _find_parameters(analysis.history, row.attempt, row.rank)
    baseline_names = _find_parameters(analysis.aligned_baseline, 0, row.rank)
    missing_names, added_names = (
        sorted(baseline_names - run_names),
        sorted(run_names - baseline_names),
    )
    for tied in missing_names:
        names = tied.split(" = ")
        if len(names) > 1 and set(names) <= set(added_names):
            return UntiedParameters(*shared_facts, tuple(names))
    counts = len(run_names), len(baseline_names)
    if not missing_names and not added_names:
        counts = _count_entries(row.actual), _count_entries(row.expected)
    return ModelRestructured(*shared_facts, *counts, tuple(missing_names), tuple(added_names))


def _count_entries(part: Component | None) -> int:
    return 0 if part is None else part.count


def _find_parameters(history: History | None, attempt: int, rank: int) -> frozenset[str]:
    records = () if history is None else history.select_events(ParametersNamed)
    matching_names = (
        record.names for _, record in records if (record.attempt, record.rank) == (attempt, rank)
    )
    return frozenset(next(matching_names, ()))


def build_part_value(part: Component | None) -> PartValue | None:
    """Return the value of a part of the state; None where it is missing."""
    if part is None:
        return None
    return PartValue(is_empty=holds_nothing(part), entry_count=part.count, size=part.size)


def describe_value(part: Component | None, group: str) -> str:
    """Return a component's size in readable form; an empty text where it has none."""
    name = "" if part is None else part.name
    return describe_part_value(build_part_value(part), name, group)
