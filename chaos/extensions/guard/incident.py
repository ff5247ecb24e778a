"""A scenario that does a restart of a guarded training again: the same kill after the same step."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from chaos.errors import UsageError
from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.records import GuardedStart, RankSave, RestartAnswer
from chaos.extensions.guard.report import load_judged_restarts
from chaos.model.launcher import LAUNCHER_FACTS, find_launcher


class Incident(NamedTuple):
    """The records that a scenario is made of."""

    killed_start: GuardedStart
    restart: RestartAnswer
    #: of the training, each once, in order
    save_steps: tuple[int, ...]
    #: the last step before the restart
    last_step: int


def build_scenario(folder: GuardFolder) -> str:
    """Return the scenario of the last restart that was wrong, or else of the last, as YAML.

    Raises `UsageError` if there is none, or its job cannot be started by a scenario.
    """
    restarts = [
        candidate
        for candidate in load_judged_restarts(folder)
        if candidate.step is not None or candidate.is_wrong
    ]
    if not restarts:
        raise UsageError(
            "no restart is recorded in it",
            "A start is one if it goes on from a save that an earlier start has made.",
            location=folder.location,
        )
    chosen_restart = max(
        restarts, key=lambda candidate: (candidate.is_wrong, candidate.start, -candidate.rank)
    )
    earlier_starts = [start for start in folder.load_starts() if start.start < chosen_restart.start]
    # With more ranks than before, the one that is wrong may be none of those.
    killed_start = max(
        earlier_starts, key=lambda start: (start.start, start.rank == chosen_restart.rank)
    )
    steps = folder.load_steps(killed_start.rank, killed_start.start)
    last_step = steps[-1].number if steps else killed_start.step
    return render_yaml(
        Incident(
            killed_start,
            chosen_restart,
            _find_save_steps(folder.load_saves(), chosen_restart.start),
            last_step,
        )
    )


def _find_save_steps(saves: Sequence[RankSave], start_limit: int) -> tuple[int, ...]:
    return tuple(sorted({save.step for save in saves if save.start < start_limit and save.is_live}))


def render_yaml(incident: Incident) -> str:
    """Return the scenario's text.

    An epoch of a scenario is the stretch from one report to the next, or without Ray from one save
    to the next.
    """
    killed_start, restart = incident.killed_start, incident.restart
    facts = LAUNCHER_FACTS[find_launcher(killed_start.launcher)]
    script, args = _find_script(killed_start)
    earlier_steps = [step for step in incident.save_steps if step < incident.last_step]
    training_place = {
        "epoch": len(earlier_steps),
        "step": incident.last_step - (earlier_steps[-1] if earlier_steps else 0),
    }
    origin_text = "" if restart.step is None else f"; it went on from step {restart.step}"
    lines = [
        (
            f"# Start {restart.start} of a guarded training: the one before ended after step "
            f"{incident.last_step}{origin_text}."
        ),
        *(f"# {finding.level}: {finding.text}" for finding in restart.findings),
        facts.words.incident_comment,
        "# Variables that the job needs and this shell has not go under job.env.",
        f"scenario: restart {restart.start} of a guarded training, once more",
        "job:",
        f"  launcher: {killed_start.launcher}",
        f"  script: {json.dumps(script)}",
        f"  args: {json.dumps(args)}",
        f"  workers: {killed_start.ranks}",
        "  restart: command" if facts.restarts[0] == "command" else "",
        "  failure: {max_failures: 1}",
        "faults:",
        (
            f"  - at: {{epoch: {training_place['epoch']}, step: {training_place['step']}, "
            f"rank: {killed_start.ranks - 1}}}"
        ),
        "    kill_worker: {}",
    ]
    return "\n".join(line for line in lines if line) + "\n"


def _find_script(killed_start: GuardedStart) -> tuple[str, list[str]]:
    """Return the script of a rank's command, with its arguments."""
    words = list(killed_start.command)
    script_index = next((n for n, word in enumerate(words) if word.endswith(".py")), None)
    facts = LAUNCHER_FACTS[find_launcher(killed_start.launcher)]
    if facts.starts_by_helper(has_run=bool(killed_start.run)) or script_index is None:
        command_line = " ".join(words)
        raise UsageError(
            f"a rank of it was started as: {command_line}",
            "A scenario is written for a script that torchrun, Ray Train or python starts; for "
            "another one write it by hand: `chaos init`.",
        )
    path = (
        words[script_index]
        if words[script_index].startswith("/")
        else f"{killed_start.cwd}/{words[script_index]}"
    )
    return path, words[script_index + 1 :]
