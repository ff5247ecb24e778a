"""Do ranks still draw random numbers of their own?"""

from chaos.check.blame import random_rows
from chaos.check.components import Row
from chaos.check.result import blind, conclude, nothing_due, plural, ranks, without_restart
from chaos.check.sightings import is_rng
from chaos.check.trial import Trial
from chaos.model.verdict import Anomaly, CheckResult

NAME = "rank-randomness"


def check(trial: Trial) -> CheckResult:
    """Require that no rank goes on with another rank's generator, if they differ in the baseline.

    The promise that ranks' randomness is distinct: a generator that only
    rank 0 saved, and every rank loaded, gives all of them the same dropout
    (NVIDIA/Megatron-LM PR #6858). Broken only where the numbers part after
    the resume: a job that draws nothing from it loses nothing.
    """
    if not trial.restarts:
        return without_restart(NAME, trial)
    ours = any(is_rng(name) for name in trial.run.sightings.names)
    theirs = trial.reference is not None and any(
        is_rng(name) for name in trial.reference.sightings.names
    )
    unseen = blind(NAME, trial, "generators", ours=ours, theirs=theirs)
    if unseen is not None:
        return unseen
    compared = [row for row in trial.components if is_rng(row.component)]
    if trial.why_no_step_was_due is not None or not compared:
        return nothing_due(NAME, trial.why_no_step_was_due or "no generator could be compared")
    guilty: dict[tuple[int, str, int], list[Row]] = {}
    for restart in trial.restarts:
        for row in random_rows(trial, restart):
            if row.copied_from is not None:
                key = (row.attempt, row.component, row.copied_from)
                guilty.setdefault(key, []).append(row)
    anomalies = [
        Anomaly(
            message=f"{ranks([row.rank for row in rows])} went on with {name} of rank {owner} at "
            f"epoch {rows[0].epoch}: every rank must save and load a generator's state of its own",
            events=tuple(row.number for row in rows),
        )
        for (_, name, owner), rows in guilty.items()
    ]
    return conclude(
        NAME,
        anomalies=anomalies,
        evidence=len(compared),
        summary=f"{plural(len(trial.restarts), 'resume')}; no rank draws another's random numbers",
    )
