"""A scenario that does a restart of a guarded training again: the same kill after the same step."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from chaos.errors import UsageError
from chaos.guard.folder import Folder
from chaos.guard.records import Restart, Save, Start
from chaos.guard.report import restarts_of
from chaos.model.launcher import FACTS, launcher_named


class Incident(NamedTuple):
    """The records that a scenario is made of."""

    killed: Start
    restart: Restart
    #: of the training, each once, in order
    save_steps: tuple[int, ...]
    #: the last step before the restart
    last: int


def scenario_of(folder: Folder) -> str:
    """Return the scenario of the last restart that was wrong, or else of the last, as YAML.

    Raises `UsageError` if there is none, or its job cannot be started by a scenario.
    """
    restarts = [one for one in restarts_of(folder) if one.step is not None or one.is_wrong]
    if not restarts:
        raise UsageError(
            "no restart is recorded in it",
            "A start is one if it goes on from a save that an earlier start has made.",
            place=folder.place,
        )
    chosen = max(restarts, key=lambda one: (one.is_wrong, one.start, -one.rank))
    before = [start for start in folder.starts() if start.start < chosen.start]
    # With more ranks than before, the one that is wrong may be none of those.
    killed = max(before, key=lambda start: (start.start, start.rank == chosen.rank))
    steps = folder.steps(killed.rank, killed.start)
    last = steps[-1].number if steps else killed.step
    return in_yaml(Incident(killed, chosen, _save_steps(folder.saves(), chosen.start), last))


def _save_steps(saves: Sequence[Save], before: int) -> tuple[int, ...]:
    return tuple(sorted({save.step for save in saves if save.start < before and save.is_live}))


def in_yaml(incident: Incident) -> str:
    """Return the scenario's text.

    An epoch of a scenario is the stretch from one report to the next, or without Ray from one save
    to the next.
    """
    killed, restart = incident.killed, incident.restart
    facts = FACTS[launcher_named(killed.launcher)]
    script, args = _script(killed)
    before = [step for step in incident.save_steps if step < incident.last]
    place = {"epoch": len(before), "step": incident.last - (before[-1] if before else 0)}
    of = "" if restart.step is None else f"; it went on from step {restart.step}"
    lines = [
        (
            f"# Start {restart.start} of a guarded training: the one before ended after step "
            f"{incident.last}{of}."
        ),
        *(f"# {finding.level}: {finding.text}" for finding in restart.findings),
        "# Saves are taken for reports." if "reports" in facts.has else "",
        "# Variables that the job needs and this shell has not go under job.env.",
        f"scenario: restart {restart.start} of a guarded training, once more",
        "job:",
        f"  launcher: {killed.launcher}",
        f"  script: {json.dumps(script)}",
        f"  args: {json.dumps(args)}",
        f"  workers: {killed.ranks}",
        "  restart: command" if facts.restarts[0] == "command" else "",
        "  failure: {max_failures: 1}",
        "faults:",
        f"  - at: {{epoch: {place['epoch']}, step: {place['step']}, rank: {killed.ranks - 1}}}",
        "    kill_worker: {}",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _script(killed: Start) -> tuple[str, list[str]]:
    """Return the script of a rank's command, with its arguments."""
    words = list(killed.command)
    at = next((n for n, word in enumerate(words) if word.endswith(".py")), None)
    has = FACTS[launcher_named(killed.launcher)].has
    # Without a run it is the command of one of Ray's workers, and not the driver's.
    is_helper = "queue" in has or ("reports" in has and not killed.run)
    if is_helper or at is None:
        shown = " ".join(words)
        raise UsageError(
            f"a rank of it was started as: {shown}",
            "A scenario is written for a script that torchrun, Ray Train or python starts; for "
            "another one write it by hand: `chaos init`.",
        )
    path = words[at] if words[at].startswith("/") else f"{killed.cwd}/{words[at]}"
    return path, words[at + 1 :]
