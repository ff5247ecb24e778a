"""Mistakes in the ranges, returns and lifetimes of a scenario whose records are right."""

import json
from collections.abc import Iterator

from chaos.model.draws import Every, UpTo
from chaos.model.fault_entry import FaultEntry
from chaos.model.scenario import Scenario
from chaos.model.trigger import AtMoment, AtRecovery, AtStart, AtStep, AtTime
from chaos.plan.entries import budget, may_charge, most, times
from chaos.scenario_file.yaml_lines import Lines, Loc, Plain, Problem

SECONDS_MAX = 86_400.0
_PLACES = {
    "epochs": (AtStep | AtMoment, "an epoch"),
    "steps": (AtStep, "an epoch and a step"),
    "attempts": (AtStart, "`starting`"),
    "seconds": (AtTime, "`seconds`"),
}


def unfit_draws(scenario: Scenario, lines: Lines) -> Iterator[Problem]:
    """Yield what cannot be drawn, each at its line."""
    for number, entry in enumerate(scenario.faults):
        loc: Loc = ("faults", number)
        if entry.up_to is not None:
            yield from _bad_range(entry, entry.up_to, scenario, lines, (*loc, "up_to"))
        if entry.every is not None:
            yield from _bad_return(entry, entry.every, lines, (*loc, "every"))
        if entry.every is not None and entry.every.until is not None:
            yield from _no_budget(number, scenario, lines, (*loc, "every", "until"))
        yield from _recovers_from_many(entry, scenario, lines, (*loc, "at", "recovering_from"))
    if scenario.lifetimes is not None:
        yield from _bad_lifetimes(scenario, lines)


def worst(scenario: Scenario) -> list[Plain]:
    """Return as plain values the most entries that the seed may draw, wherever their places are."""
    every = [[entry] * times(number, scenario) for number, entry in enumerate(scenario.faults)]
    found = [entry.model_dump_json(exclude_none=True) for of in every for entry in of]
    plain: list[Plain] = [json.loads(entry) for entry in found]
    lives = scenario.lifetimes
    if lives is not None:
        plain += [{f"kill_{lives.lost}": {}}] * most(lives, scenario)
    return plain


def _bad_range(
    entry: FaultEntry, up_to: UpTo, scenario: Scenario, lines: Lines, loc: Loc
) -> Iterator[Problem]:
    for key, high in up_to.model_dump(exclude_none=True).items():
        low, place = getattr(entry.at, key, None), (*loc, key)
        text, hint = "", f"A range goes from at.{key} to up_to.{key}."
        if low is None:
            text = f"up_to.{key} needs at.{key}, where the range begins"
        elif high < low:
            text = f"up_to.{key} must be >= at.{key} ({low}), got {high}"
        elif key == "rank" and high >= scenario.job.workers:
            text = f"up_to.rank must be below job.workers ({scenario.job.workers}), got {high}"
            hint = "Ranks count from 0."
        if text:
            yield Problem(lines.value(place), text, hint, place)


def _bad_return(entry: FaultEntry, every: Every, lines: Lines, loc: Loc) -> Iterator[Problem]:
    kind, named = _PLACES[every.distance]
    place = (*loc, every.distance)
    if not isinstance(entry.at, kind):
        text = f"every.{every.distance} needs a place that is {named}"
        yield Problem(lines.key(place), text, "`at` is another kind of place.", place)
        return
    if getattr(entry.at, "attempt", None) is not None:
        text = "every goes on in later attempts, and at.attempt names one"
        yield Problem(lines.key(loc), text, "Leave at.attempt out.", loc)
    furthest = max(getattr(at, "step", None) or 0 for at in (entry.at, entry.up_to))
    if every.steps_per_epoch is not None and furthest > every.steps_per_epoch:
        text = f"step {furthest} lies behind the last of an epoch, {every.steps_per_epoch}"
        hint = "Correct every.steps_per_epoch, or the step."
        yield Problem(lines.value((*loc, "steps_per_epoch")), text, hint, loc)
    if every.seconds is not None and every.seconds * (every.times or 1) > SECONDS_MAX:
        text = "every goes on for more than a day"
        yield Problem(lines.value(place), text, "Lower its seconds or its times.", place)


def _no_budget(number: int, scenario: Scenario, lines: Lines, loc: Loc) -> Iterator[Problem]:
    entry = scenario.faults[number]
    key = "max_preemption_failures" if entry.fault.is_announced else "max_failures"
    text, hint = "", ""
    repeated = next((e for e in scenario.faults if e.fault.is_repeated and may_charge(e)), None)
    if not may_charge(entry):
        text = f"{entry.kind} takes nothing from a budget"
        hint = "Write `times:` instead."
    elif repeated is not None:
        text = f"`until: budget` cannot count {repeated.kind}, which comes again by itself"
        hint = "Write `times:` instead."
    elif budget(entry, scenario) < 0:
        text = f"`until: budget` needs a limit, job.failure.{key}"
        hint = f"Add `failure: {{{key}: 3}}` to the job, or write `times:`."
    elif times(number, scenario) == 0:
        text = f"nothing is left of job.failure.{key} ({budget(entry, scenario)})"
        hint = "The other faults take all of it: raise it, or leave the entry out."
    if text:
        yield Problem(lines.value(loc), text, hint, loc)


def _recovers_from_many(
    entry: FaultEntry, scenario: Scenario, lines: Lines, loc: Loc
) -> Iterator[Problem]:
    if not isinstance(entry.at, AtRecovery):
        return
    cause = entry.at.recovering_from
    if scenario.faults[cause].every is not None:
        text = f"entry {cause} of faults comes again and again, and recovering_from means one fault"
        yield Problem(lines.value(loc), text, "Give that one an entry of its own.", loc)


def _bad_lifetimes(scenario: Scenario, lines: Lines) -> Iterator[Problem]:
    lives, job = scenario.lifetimes, scenario.job
    assert lives is not None
    loc: Loc = ("lifetimes",)
    ending = next((entry for entry in scenario.faults if may_charge(entry)), None)
    if ending is not None:
        text = f"lifetimes counts every attempt that ends, and {ending.kind} may end one too"
        yield Problem(lines.key(loc), text, "Give each a scenario of its own.", loc)
    if job.min_workers is not None:
        text = "lifetimes needs a machine for each worker, and the job goes on with fewer"
        yield Problem(lines.key(loc), text, "Leave job.min_workers out.", loc)
    has_one_node = not job.facts.loses_nodes and (scenario.cluster.nodes or 1) == 1
    if lives.lost == "node" and has_one_node:
        text = f"`lost: node` needs several nodes under {job.launcher}"
        hint = "Write `cluster: {nodes: N}`, or `lost: worker`."
        yield Problem(lines.value((*loc, "lost")), text, hint, loc)
    if job.facts.lacks_part("reports") and lives.steps_per_epoch == 1:
        text = f"under {job.launcher} lifetimes needs epochs of two steps or more"
        hint = "A rank saves after the last one, whatever becomes of the others."
        yield Problem(lines.value((*loc, "steps_per_epoch")), text, hint, loc)
    if most(lives, scenario) == 0:
        text = "job.failure.max_failures allows no loss"
        yield Problem(lines.key(loc), text, "Raise it: each loss is a failure.", loc)
