"""Where the records offer a choice, is exactly one made?

A job is a script or a train loop, an entry has one fault, a trigger names a
step or a moment. This is asked of the plain values, before the records:
pydantic would ask only once everything else is right, and for a trigger whose
keys leave the choice open it would speak of the wrong record.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from chaos.model.fault_entry import FAULTS
from chaos.model.trigger import KINDS, MOMENTS
from chaos.scenario_file.problem import Loc, Problem
from chaos.scenario_file.source import Lines, Plain
from chaos.scenario_file.spelling import nearest, quoted

SOURCES = ("script", "train_loop")
# What stands in for the value of a key that was misspelt, so that its place is known.
_FOR: dict[str, dict[str, Any]] = {
    "step": {"step": 1},
    "moment": {"moment": "saving"},
    "recovering_from": {"recovering_from": 0},
    "starting": {"starting": 0},
    "state": {"state": "RUNNING"},
    "seconds": {"seconds": 1},
}
_EXAMPLE = "Write `at: {epoch: 2, step: 5}`"


def settled(value: dict[str, Any], lines: Lines) -> tuple[dict[str, Any], list[Problem]]:
    """Give the scenario with every `at` of one kind, and the choices that were not made."""
    problems = list(_sources(value.get("job"), lines))
    faults = value.get("faults")
    if not isinstance(faults, list):
        return value, problems
    entries: list[Plain] = []
    for number, entry in enumerate(faults):
        loc = ("faults", number)
        problems += _faults(entry, loc, lines)
        entries.append(entry)
        if isinstance(entry, dict) and "at" in entry:
            at, problem = _trigger(entry["at"], (*loc, "at"), lines)
            entries[-1] = {**entry, "at": at}
            problems += [problem] if problem else []
    return {**value, "faults": entries}, problems


def _sources(job: Plain, lines: Lines) -> Iterator[Problem]:
    if not isinstance(job, dict):
        return
    named = _given(job, SOURCES)
    text = "job needs either script or train_loop"
    if len(named) > 1:
        yield Problem(lines.key(("job", named[1])), text, "It has both.", ("job",))
    elif not named and not _is_misspelt(job, SOURCES):
        yield Problem(lines.value(("job",)), text, "It has neither.", ("job",))


def _faults(entry: Plain, loc: Loc, lines: Lines) -> Iterator[Problem]:
    if not isinstance(entry, dict):
        return
    named = _given(entry, FAULTS)
    empty = [key for key in entry if key in FAULTS and entry[key] is None]
    if len(named) > 1:
        text = f"an entry of faults has two faults, {named[0]} and {named[1]}"
        hint = "Give each its own entry, with its own at."
        yield Problem(lines.key((*loc, named[1])), text, hint, loc)
    elif empty and not named:
        place = (*loc, empty[0])
        hint = f"Write `{empty[0]}: {{}}` to take every default."
        yield Problem(lines.key(place), f"{empty[0]} has no value", hint, place)
    elif not named and not _is_misspelt(entry, FAULTS):
        hint = f"Add one of {', '.join(FAULTS)}."
        yield Problem(lines.value(loc), "an entry of faults needs a fault", hint, loc)


def _trigger(at: Plain, loc: Loc, lines: Lines) -> tuple[dict[str, Any], Problem | None]:
    if not isinstance(at, dict):
        text = f"at must be a mapping, got {quoted(at)}"
        return {"epoch": 0, "step": 1}, Problem(lines.value(loc), text, f"{_EXAMPLE}.", loc)
    named = [key for key in at if key in KINDS]
    if len(named) > 1:
        hint = "Keep the one that is meant."
        text = f"at has both {named[0]} and {named[1]}"
        problem = Problem(lines.key((*loc, named[1])), text, hint, loc)
        return {key: at[key] for key in at if key != named[1]}, problem
    if not named:
        hint = f"{_EXAMPLE}, or one of the moments {', '.join(MOMENTS)}."
        problem = Problem(lines.value(loc), "at needs step or moment", hint, loc)
        meant = next((kind for key in at if (kind := nearest(key, KINDS))), None)
        # A key that was probably meant is the mistake to report: the rest is judged as if it were.
        return {**at, **_FOR[meant or "step"]}, None if meant else problem
    return at, None


def _given(record: dict[str, Any], choices: Sequence[str]) -> list[str]:
    return [key for key in record if key in choices and record[key] is not None]


def _is_misspelt(record: dict[str, Any], choices: Sequence[str]) -> bool:
    """Say whether a key was probably meant as a choice: then that is the mistake to report."""
    return any(nearest(key, choices) for key in record)
