"""Mistakes in the ranges, returns and lifetimes of a scenario whose records are right."""

import json
from collections.abc import Iterator

from chaos.model.draws import Every, UpTo
from chaos.model.fault_entry import FaultEntry
from chaos.model.scenario import Scenario
from chaos.model.trigger import AtMoment, AtRecovery, AtStart, AtStep, AtTime
from chaos.plan.entries import (
    count_max_losses,
    count_sites,
    find_retry_budget,
    has_own_saves,
    may_use_retry,
)
from chaos.scenario_file.yaml_lines import Loc, Plain, YamlLines, YamlProblem

SECONDS_MAX = 86_400.0
_DISTANCE_TRIGGERS = {
    "epochs": (AtStep | AtMoment, "an epoch"),
    "steps": (AtStep, "an epoch and a step"),
    "attempts": (AtStart, "`starting`"),
    "seconds": (AtTime, "`seconds`"),
}


def find_draw_problems(scenario: Scenario, lines: YamlLines) -> Iterator[YamlProblem]:
    """Yield what cannot be drawn, each at its line."""
    for number, entry in enumerate(scenario.faults):
        loc: Loc = ("faults", number)
        if entry.up_to is not None:
            yield from _find_range_problems(entry, entry.up_to, scenario, lines, (*loc, "up_to"))
        if entry.every is not None:
            yield from _find_return_problems(entry, entry.every, lines, (*loc, "every"))
        if entry.every is not None and entry.every.until is not None:
            yield from _find_budget_problems(number, scenario, lines, (*loc, "every", "until"))
        yield from _find_recovery_problems(entry, scenario, lines, (*loc, "at", "recovering_from"))
    if scenario.lifetimes is not None:
        yield from _find_lifetime_problems(scenario, lines)


def build_worst_entries(scenario: Scenario) -> list[Plain]:
    """Return as plain values the most entries that the seed may draw, wherever their places are."""
    entry_groups = [
        [entry] * count_sites(number, scenario) for number, entry in enumerate(scenario.faults)
    ]
    entry_texts = [
        entry.model_dump_json(exclude_none=True) for group in entry_groups for entry in group
    ]
    values: list[Plain] = [json.loads(entry) for entry in entry_texts]
    lifetimes = scenario.lifetimes
    if lifetimes is not None:
        values += [{f"kill_{lifetimes.lost}": {}}] * count_max_losses(lifetimes, scenario)
    return values


def _find_range_problems(
    entry: FaultEntry, up_to: UpTo, scenario: Scenario, lines: YamlLines, loc: Loc
) -> Iterator[YamlProblem]:
    for key, high in up_to.model_dump(exclude_none=True).items():
        low, value_loc = getattr(entry.at, key, None), (*loc, key)
        text, hint = "", f"A range goes from at.{key} to up_to.{key}."
        if low is None:
            text = f"up_to.{key} needs at.{key}, where the range begins"
        elif high < low:
            text = f"up_to.{key} must be >= at.{key} ({low}), got {high}"
        elif key == "rank" and high >= scenario.job.workers:
            text = f"up_to.rank must be below job.workers ({scenario.job.workers}), got {high}"
            hint = "Ranks count from 0."
        if text:
            yield YamlProblem(lines.find_value_line(value_loc), text, hint, value_loc)


def _find_return_problems(
    entry: FaultEntry, repetition: Every, lines: YamlLines, loc: Loc
) -> Iterator[YamlProblem]:
    kind, trigger_text = _DISTANCE_TRIGGERS[repetition.distance]
    distance_loc = (*loc, repetition.distance)
    if not isinstance(entry.at, kind):
        text = f"every.{repetition.distance} needs a place that is {trigger_text}"
        yield YamlProblem(
            lines.find_key_line(distance_loc), text, "`at` is another kind of place.", distance_loc
        )
        return
    if getattr(entry.at, "attempt", None) is not None:
        text = "every goes on in later attempts, and at.attempt names one"
        yield YamlProblem(lines.find_key_line(loc), text, "Leave at.attempt out.", loc)
    furthest = max(getattr(trigger, "step", None) or 0 for trigger in (entry.at, entry.up_to))
    if repetition.steps_per_epoch is not None and furthest > repetition.steps_per_epoch:
        text = f"step {furthest} lies behind the last of an epoch, {repetition.steps_per_epoch}"
        hint = "Correct every.steps_per_epoch, or the step."
        yield YamlProblem(lines.find_value_line((*loc, "steps_per_epoch")), text, hint, loc)
    if (
        repetition.seconds is not None
        and repetition.seconds * (repetition.times or 1) > SECONDS_MAX
    ):
        text = "every goes on for more than a day"
        yield YamlProblem(
            lines.find_value_line(distance_loc),
            text,
            "Lower its seconds or its times.",
            distance_loc,
        )


def _find_budget_problems(
    number: int, scenario: Scenario, lines: YamlLines, loc: Loc
) -> Iterator[YamlProblem]:
    entry = scenario.faults[number]
    key = "max_preemption_failures" if entry.fault.is_announced else "max_failures"
    text, hint = "", ""
    repeated_entry = next(
        (
            other_entry
            for other_entry in scenario.faults
            if other_entry.fault.is_repeated and may_use_retry(other_entry)
        ),
        None,
    )
    if not may_use_retry(entry):
        text = f"{entry.kind} takes nothing from a budget"
        hint = "Write `times:` instead."
    elif repeated_entry is not None:
        text = f"`until: budget` cannot count {repeated_entry.kind}, which comes again by itself"
        hint = "Write `times:` instead."
    elif find_retry_budget(entry, scenario) < 0:
        text = f"`until: budget` needs a limit, job.failure.{key}"
        hint = f"Add `failure: {{{key}: 3}}` to the job, or write `times:`."
    elif count_sites(number, scenario) == 0:
        text = f"nothing is left of job.failure.{key} ({find_retry_budget(entry, scenario)})"
        hint = "The other faults take all of it: raise it, or leave the entry out."
    if text:
        yield YamlProblem(lines.find_value_line(loc), text, hint, loc)


def _find_recovery_problems(
    entry: FaultEntry, scenario: Scenario, lines: YamlLines, loc: Loc
) -> Iterator[YamlProblem]:
    if not isinstance(entry.at, AtRecovery):
        return
    cause = entry.at.recovering_from
    if scenario.faults[cause].every is not None:
        text = f"entry {cause} of faults comes again and again, and recovering_from means one fault"
        yield YamlProblem(
            lines.find_value_line(loc), text, "Give that one an entry of its own.", loc
        )


def _find_lifetime_problems(scenario: Scenario, lines: YamlLines) -> Iterator[YamlProblem]:
    lifetimes, job = scenario.lifetimes, scenario.job
    assert lifetimes is not None
    loc: Loc = ("lifetimes",)
    charging_entry = next((entry for entry in scenario.faults if may_use_retry(entry)), None)
    if charging_entry is not None:
        text = (
            f"lifetimes counts every attempt that ends, and {charging_entry.kind} may end one too"
        )
        yield YamlProblem(lines.find_key_line(loc), text, "Give each a scenario of its own.", loc)
    if job.min_workers is not None:
        text = "lifetimes needs a machine for each worker, and the job goes on with fewer"
        yield YamlProblem(lines.find_key_line(loc), text, "Leave job.min_workers out.", loc)
    has_one_node = not job.launcher_facts.replaces_lost_nodes and (scenario.cluster.nodes or 1) == 1
    if lifetimes.lost == "node" and has_one_node:
        text = f"`lost: node` needs several nodes under {job.launcher}"
        hint = "Write `cluster: {nodes: N}`, or `lost: worker`."
        yield YamlProblem(lines.find_value_line((*loc, "lost")), text, hint, loc)
    if has_own_saves(job) and lifetimes.steps_per_epoch == 1:
        text = f"under {job.launcher} lifetimes needs epochs of two steps or more"
        hint = "A rank saves after the last one, whatever becomes of the others."
        yield YamlProblem(lines.find_value_line((*loc, "steps_per_epoch")), text, hint, loc)
    if count_max_losses(lifetimes, scenario) == 0:
        text = "job.failure.max_failures allows no loss"
        yield YamlProblem(lines.find_key_line(loc), text, "Raise it: each loss is a failure.", loc)
