"""Did every part of the job's state come back at each resume?"""

from collections.abc import Iterator

from chaos.check.blame import blamed
from chaos.check.components import Row
from chaos.check.remedy import sentence
from chaos.check.result import blind, conclude, nothing_due, plural, without_restart
from chaos.check.sightings import is_rng
from chaos.check.trial import Trial
from chaos.model.verdict import Anomaly, CheckResult

NAME = "state"


def check(trial: Trial) -> CheckResult:
    """Require that a rank enters a resumed attempt with the baseline's state at that place.

    The promise of the state's round trip, part by part: model, optimizer
    (its momentum is what is forgotten most often: mozilla/DeepSpeech#3620),
    settings, schedule (PolymathicAI/the_well PR #63), scaler
    (huggingface/transformers PR #11663), averaged models (lightly-ai/lightly-train
    PR #892), generators and what the job declares. Each cause is an anomaly,
    those first that can have moved the first number that differs (see
    `blame`). A part that differs from the baseline before any fault is
    compared with the run's own at the commit, or not at all; so is, within a
    leeway, what the run itself had saved. A part without which the model is
    the baseline's all the same, to the last bit, is told and not broken; a
    generator is broken only where numbers depend on it: nothing else explains
    that they differ (huggingface/transformers PR #11582). What differs because
    the run had left its baseline before the resume is a consequence.
    """
    if not trial.restarts:
        return without_restart(NAME, trial)
    theirs = trial.reference is not None and bool(trial.reference.sightings.names)
    unseen = blind(NAME, trial, "state", ours=bool(trial.run.sightings.names), theirs=theirs)
    if unseen is not None:
        return unseen
    if trial.why_no_step_was_due is not None:
        return nothing_due(NAME, trial.why_no_step_was_due)
    compared = [row for row in trial.components if row.standing != "not compared"]
    guilty = {row.component for row in broken(trial)}
    quiet = sorted({row.component for row in idle(trial)} - guilty)
    note = f"; {', '.join(quiet)} did not come back, and nothing was seen to depend on it"
    return conclude(
        NAME,
        anomalies=list(_anomalies(trial)),
        doubts=list(_doubts(trial)),
        evidence=len(compared),
        summary=f"{plural(len({r.component for r in compared}), 'part')} of the state came back "
        f"at {plural(len(trial.restarts), 'resume')}{note if quiet else ''}",
        measures={
            "components_compared": len(compared),
            "components_broken": len(broken(trial)),
            "components_without_consequence": ", ".join(quiet) or None,
            "components_not_repeatable": ", ".join(sorted(trial.unstable)) or None,
        },
    )


def broken(trial: Trial) -> tuple[Row, ...]:
    """Give the rows that the job is to blame for, the likely cause of each resume first."""
    return tuple(row for restart in trial.restarts for row in blamed(trial, restart).rows)


def idle(trial: Trial) -> tuple[Row, ...]:
    """Give the rows that did not come back, and nothing that was seen depends on them."""
    return tuple(row for restart in trial.restarts for row in blamed(trial, restart).idle)


def _anomalies(trial: Trial) -> Iterator[Anomaly]:
    """Give one anomaly per cause; only random streams make no wrong result, but another one."""
    for restart in trial.restarts:
        blame = blamed(trial, restart)
        for cause in blame.causes:
            is_random = blame.at_once and all(is_rng(row.component) for row in cause.rows)
            yield Anomaly(
                message=sentence(cause.rows),
                events=tuple(row.number for row in cause.rows),
                parts=tuple(dict.fromkeys(row.component for row in cause.rows)),
                severity="not reproducible" if is_random else "wrong result",
            )


def _doubts(trial: Trial) -> Iterator[str]:
    rounded = sorted({row.component for row in trial.components if row.rounded})
    if rounded:
        yield (
            f"{', '.join(rounded)} came back near to what the run had saved, and not the same to "
            "the last bit: saved in fewer bits than it is trained in, or of another moment"
        )
    heard = {(row.attempt, row.rank) for row in trial.components}
    for restart in trial.restarts:
        attempt = restart.attempt
        unheard = [r for r in attempt.first_steps if (attempt.index, r) not in heard]
        entered = [r for r in unheard if (attempt.index, r) in trial.run.sightings.entries]
        if unheard and not entered:
            yield f"how rank {unheard[0]} entered attempt {attempt.index} was not seen"
