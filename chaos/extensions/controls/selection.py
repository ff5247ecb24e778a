"""The losses that can be planted at a resume: what had moved by then, and came back.

A part of the state, or a plain value of the job's, is worth losing only where a loss would show:
where the value at the resume is another one than at the start.
"""

import ast
import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from chaos.check.analysis import RunAnalysis
from chaos.check.census import (
    GIVEN_BACK,
    CensusDifference,
    collect_censuses,
    find_repeatable_paths,
    has_value,
    sort_key,
)
from chaos.check.resumes import is_resumed
from chaos.model.event import CensusTaken, NamesGiven, StepDone
from chaos.model.events.state import (
    HOOKS,
    IN_LOADER,
    IS_PARAM_GROUPS,
    OPTIMIZER_STATE,
    SHARED_STATE,
    find_group,
)
from chaos.model.history import History
from chaos.model.places import START, TrainingPlace
from chaos.probe.state.restored_values import STATE_PART

CONTROLS_MAX = 12
#: the kinds of state whose parts can be set, in the order in which they are tried
_GROUPS = (
    "model",
    "optimizer",
    "rng",
    "schedule",
    "optimizer settings",
    "averaged model",
    "scaler",
    "buffers",
)
_OPTIMIZER = re.compile(r"(optimizer(?:\.\d+)?)\.")
#: of these a loss is one of another part, or cannot be planted
_NO_VALUES = (HOOKS, IN_LOADER, IS_PARAM_GROUPS, OPTIMIZER_STATE, SHARED_STATE)


class Control(NamedTuple):
    """A loss that can be planted."""

    #: as findings name the part
    part: str
    #: as an order to a worker names it
    path: str

    @property
    def is_state(self) -> bool:
        """Whether it is a part of the state, and no value of the job's own."""
        return self.path.startswith(STATE_PART) or self.part in GIVEN_BACK

    def is_named(self, names: Collection[str]) -> bool:
        """Return whether one of the names that a finding gives is the part, or of it."""
        if not self.path.startswith(STATE_PART) or not _OPTIMIZER.fullmatch(f"{self.part}."):
            return self.part in names
        return any(find_owner(name) == self.part for name in names)


class LossSite(NamedTuple):
    """The last resume of a right run, at which losses can be planted."""

    attempt: int
    place: TrainingPlace
    #: how many steps and ends of an epoch came after it
    steps_after: int
    epochs_after: int


def find_owner(component: str) -> str:
    """Return the optimizer whose moments a part of the state is of; empty for any other part."""
    owner = _OPTIMIZER.match(component) if find_group(component) == "optimizer" else None
    return "" if owner is None else owner[1]


def find_resume(analysis: RunAnalysis) -> LossSite | None:
    """Return the last restart of a run; None where it did not resume, or no step follows.

    A loss at an earlier one could be undone by the next, which may read an older save.
    """
    last_restart = next(reversed(analysis.restarts), None)
    if last_restart is None or not is_resumed(analysis, last_restart):
        return None
    attempt = last_restart.attempt.index
    steps = [
        TrainingPlace(event.epoch, event.step)
        for _, event in analysis.history.select_events(StepDone)
        if event.attempt == attempt and event.rank == 0
    ]
    place = _find_census_place(analysis.history, attempt)
    if place is None or not steps or place <= START:
        return None
    return LossSite(attempt, place, len(steps), max(steps).epoch - place.epoch)


def find_part_controls(analysis: RunAnalysis, resume: LossSite) -> list[Control]:
    """Return a control for each part of the state that had moved, and came back at the resume."""
    if analysis.reference is None:
        return []
    entries = analysis.reference.snapshots.entries
    first_digests = {
        (rank, part.name): part.digest
        for (attempt, rank), (_, snapshot) in entries.items()
        if attempt == 0
        for part in snapshot.components
    }
    rows = [row for row in analysis.state_rows if row.attempt == resume.attempt]
    lost_parts = {row.component for row in rows if row.standing != "restored"}
    moved_parts = {
        row.component
        for row in rows
        if row.expected is not None
        and row.expected.digest != first_digests.get((row.rank, row.component))
        # The settings of an optimizer that the job makes later have not moved for that.
        and (row.group != "optimizer settings" or (row.rank, row.component) in first_digests)
    }
    return _order_parts(moved_parts - lost_parts)


def _order_parts(components: Collection[str]) -> list[Control]:
    """Return the controls of components, the most important first; one for all of an optimizer."""
    controls: dict[str, Control] = {}
    groups = {component: find_group(component) for component in components}
    settable = [component for component, group in groups.items() if group in _GROUPS]
    for component in sorted(settable, key=lambda name: (_GROUPS.index(groups[name]), name)):
        group, part = groups[component], find_owner(component) or component
        if group == "rng" and part not in GIVEN_BACK:
            continue
        controls.setdefault(part, Control(part, part if group == "rng" else f"{STATE_PART}{part}"))
    return list(controls.values())


def find_value_controls(analysis: RunAnalysis, resume: LossSite) -> list[Control]:
    """Return a control for each plain value that had moved, came back, and repeats in clean runs.

    What objects of the state hold is lost with these.
    """
    baseline = analysis.aligned_baseline
    clean = {} if baseline is None else collect_censuses(baseline, 0, 0, loop=None)
    run_values = collect_censuses(analysis.history, resume.attempt, 0, loop=None).get(resume.place)
    if run_values is None or resume.place not in clean:
        return []
    first_values, clean_values = next(iter(clean.values())), clean[resume.place]
    early_censuses = collect_censuses(
        analysis.history, 0, 0, loop=None, end_number=analysis.fault_start
    )
    repeatable_paths = find_repeatable_paths(early_censuses, clean)
    owners = find_state_owners(analysis)
    returned_values = [
        CensusDifference(path, first_values[path].text, value.text, is_initial=True)
        for path, value in run_values.items()
        if path in repeatable_paths
        and path in first_values
        and path not in GIVEN_BACK
        and not path.endswith(_NO_VALUES)
        and not path.startswith(owners)
        and not has_value(first_values, value)
        and has_value(clean_values, value)
    ]
    return [Control(value.path, value.path) for value in sorted(returned_values, key=sort_key)]


def find_state_owners(analysis: RunAnalysis) -> tuple[str, ...]:
    """Return how the paths of values begin that an optimizer, a schedule or a scaler holds."""
    kinds = ("optimizer", "schedule", "scaler")
    names = set(kinds)
    for _, event in analysis.history.select_events(NamesGiven):
        names |= {path for part, path in event.parts.items() if part.startswith(kinds)}
    return tuple(f"{name}{mark}" for name in sorted(names) for mark in ".[")


def select_lasting(
    controls: Sequence[Control], clean_run: History, place: TrainingPlace, targets: Collection[str]
) -> list[Control]:
    """Return the controls without variables that a step makes anew, such as a batch.

    What a clean run held as its outermost loop began, and did not make in it, is no such variable;
    nor is a variable of that loop, `targets`, anything that a job brings back.
    """
    held_paths = {
        value.path
        for _, event in clean_run.select_events(CensusTaken)
        if (event.loop, event.epoch, event.step) == (0, *place)
        for value in event.held
    }
    short_lived = {*targets, *_find_made_in_loop(clean_run)}
    return [
        control
        for control in controls
        if control.is_state
        or (control.path in held_paths and control.path not in short_lived)
        or (not held_paths and "." in control.path)
    ]


def _find_made_in_loop(clean_run: History) -> Iterator[str]:
    """Yield the variables that get their first value within the outermost loop."""
    for _, event in clean_run.select_events(NamesGiven):
        for loop in event.loops[:1]:
            yield from (
                path
                for path, line in event.lines.items()
                if line.file == loop.file and loop.first <= line.line <= loop.last
            )


def list_loop_targets(source: str, first_line: int) -> Iterator[str]:
    """Yield the variables of the loop whose body begins at a line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.For) and node.body[0].lineno == first_line:
            yield from (name.id for name in ast.walk(node.target) if isinstance(name, ast.Name))


def _find_census_place(history: History, attempt: int) -> TrainingPlace | None:
    """Return the place of the first census of an attempt: where its first step began."""
    events = (event for _, event in history.select_events(CensusTaken))
    places = (
        TrainingPlace(event.epoch, event.step)
        for event in events
        if event.attempt == attempt and event.loop is None
    )
    return next(places, None)
