"""Did every part of the job's state come back at each resume?"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby

from chaos.check.components import Row
from chaos.check.parting import left_before, parting
from chaos.check.remedy import sentence
from chaos.check.restarts import Restart
from chaos.check.result import blind, conclude, nothing_due, plural, without_restart
from chaos.check.sightings import is_rng
from chaos.check.trial import Trial
from chaos.model.diagnosis import GROUPS
from chaos.model.verdict import Anomaly, CheckResult

NAME = "state"


def check(trial: Trial) -> CheckResult:
    """Require that a rank enters a resumed attempt with the baseline's state at that place.

    The promise of the state's round trip, part by part: model, optimizer
    (its momentum is what is forgotten most often: mozilla/DeepSpeech#3620),
    settings, schedule (PolymathicAI/the_well PR #63), scaler
    (huggingface/transformers PR #11663), averaged models (lightly-ai/lightly-train
    PR #892), generators and what the job declares. The first broken part is
    the likely cause: what is gone before what merely differs. A part that
    differs from the baseline before any fault is compared with the run's own
    at the commit, or not at all; so is, within a leeway, what the run itself
    had saved. A generator that did not come back is broken
    only where numbers depend on it: nothing else explains that they differ
    (huggingface/transformers PR #11582). What differs because the run had
    left its baseline before the resume is a consequence.
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
    guilty = broken(trial)
    idle = sorted(
        {row.component for row in compared if row.is_broken} - {r.component for r in guilty}
    )
    note = f"; {', '.join(idle)} did not come back, and nothing was seen to depend on it" * bool(
        idle
    )
    return conclude(
        NAME,
        anomalies=list(_anomalies(guilty)),
        doubts=list(_doubts(trial)),
        evidence=len(compared),
        summary=f"{plural(len({r.component for r in compared}), 'part')} of the state came back "
        f"at {plural(len(trial.restarts), 'resume')}{note}",
        measures={
            "components_compared": len(compared),
            "components_broken": len(guilty),
            "components_without_consequence": ", ".join(idle) or None,
            "components_not_repeatable": ", ".join(sorted(trial.unstable)) or None,
        },
    )


def broken(trial: Trial) -> tuple[Row, ...]:
    """Give the rows that the job is to blame for, the likely cause of each resume first."""
    return tuple(row for restart in trial.restarts for row in _of_restart(trial, restart))


def _of_restart(trial: Trial, restart: Restart) -> list[Row]:
    mine = [r for r in trial.components if r.attempt == restart.attempt.index and r.is_broken]
    had_left = restart.attempt.place is not None and left_before(trial, *restart.attempt.place)
    solid = [r for r in mine if not is_rng(r.component)]
    solid = [r for r in solid if r.standing != "different" or not had_left]
    scheduled = any(row.group == "schedule" for row in solid)
    if solid:
        return sorted(solid, key=partial(_blame, scheduled=scheduled))
    drawn = [r for r in mine if is_rng(r.component) and r.copied_from is None]
    return drawn if drawn and matters(trial, restart) else []


def matters(trial: Trial, restart: Restart) -> bool:
    """Say whether numbers part after a resume, and nothing but random numbers explains it.

    Inputs in another order explain it; inputs that the baseline never saw
    were drawn anew, by the generators.
    """
    where = parting(trial)
    place = restart.attempt.place
    if where is None or place is None or where < place:
        return False
    later = [
        r for r in trial.restarts if r is not restart and r.attempt.index > restart.attempt.index
    ]
    if any(r.attempt.place is not None and r.attempt.place <= where for r in later):
        return False
    if trial.feeds is None or not trial.feeds.repeat:
        return True
    fed = [a for a in trial.feeds.apart if (a.epoch, a.first.step) <= where]
    return all(trial.feeds.drawn_anew(apart) for apart in fed)


def _blame(row: Row, *, scheduled: bool) -> tuple[int, int, str, int]:
    """Order rows by how near they are to the cause; settings follow a schedule that is wrong."""
    follows = scheduled and row.group == "optimizer settings"
    gone = 2 if follows or row.standing == "different" else row.standing == "reset"
    group = GROUPS.index(row.group) + (2 if follows else 0)
    return int(gone), group, row.component, row.rank


def _anomalies(guilty: Sequence[Row]) -> Iterator[Anomaly]:
    def alike(row: Row) -> tuple[int, str, str]:
        return row.attempt, row.component, row.standing

    seen: dict[tuple[int, str, str], list[Row]] = {}
    for key, rows in groupby(guilty, key=alike):
        seen.setdefault(key, []).extend(rows)
    for found in seen.values():
        yield Anomaly(message=sentence(found), events=tuple(row.number for row in found))


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
