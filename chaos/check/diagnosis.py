"""What came back at each resume, as a table, and what is wrong in one sentence."""

from collections.abc import Iterator, Sequence

from chaos.check import cursor, sample_order, samples, state
from chaos.check.components import Row, group_of
from chaos.check.feeds import Feeds
from chaos.check.remedy import value
from chaos.check.restarts import Restart
from chaos.check.result import plural
from chaos.check.shift import shifts
from chaos.check.sightings import is_rng
from chaos.check.trajectory import difference, divergence
from chaos.check.trial import Trial
from chaos.model.diagnosis import GROUPS, Part, Resume, Standing
from chaos.model.verdict import CheckResult

# The checks whose first anomaly names a cause in what came back, or did not.
CAUSES = (
    "start-decision",
    "committed-only",
    "agreement",
    "resume-point",
    cursor.NAME,
    state.NAME,
    "rank-randomness",
    "replicas",
    "selection",
    "batch",
    sample_order.NAME,
    samples.NAME,
)


def diagnosis(trial: Trial, results: Sequence[CheckResult]) -> tuple[Resume, ...]:
    """Give one row per restart that came to a start, with the parts of the state as it entered."""
    return tuple(
        _resume(trial, restart, results) for restart in trial.restarts if restart.attempt.starts
    )


def cause(trial: Trial, results: Sequence[CheckResult]) -> str | None:
    """Say what the job did wrong at a resume, and where the numbers part; None: no check knows."""
    broken = next((r for r in results if r.validity == "invalid"), None)
    if broken is None or broken.check not in CAUSES:
        return None
    return broken.anomalies[0].message + _consequence(trial)


def _resume(trial: Trial, restart: Restart, results: Sequence[CheckResult]) -> Resume:
    attempt = restart.attempt
    epoch, step = attempt.place or (0, 0)
    parts = tuple(_in_order(_parts(trial, restart)))
    message = _first_message(restart, results)
    return Resume(
        attempt=attempt.index,
        epoch=epoch,
        step=step,
        checkpoint=next(iter(restart.handed.values()), None),
        sound=message is None,
        sentence=_sound(parts) if message is None else message + _consequence(trial),
        parts=parts,
        events=tuple(start.number for start in attempt.starts.values()),
    )


def _first_message(restart: Restart, results: Sequence[CheckResult]) -> str | None:
    """Find the most specific anomaly that shows events of this attempt, or of work after it."""
    since = min(start.number for start in restart.attempt.starts.values())
    until = max((step.number for step in restart.attempt.steps[-1:]), default=since)
    for result in results:
        if result.check in CAUSES and result.validity == "invalid":
            for anomaly in result.anomalies:
                if any(since <= number <= until for number in anomaly.events):
                    return anomaly.message
    return None


def _consequence(trial: Trial) -> str:
    first = divergence(trial)
    if first is None:
        return ""
    place = f"epoch {first.epoch}" + ("" if first.step is None else f", step {first.step}")
    what = "loss" if first.what == "loss" else f"`{first.what}`"
    return f"; from {place} on the {what} differs: {difference(first)}"


def _sound(parts: Sequence[Part]) -> str:
    compared = [part for part in parts if part.standing != "not compared"]
    if not compared:
        return "nothing of the state could be compared"
    idle = sorted({part.component for part in compared if part.standing != "restored"})
    if idle:
        return f"all that matters came back; {', '.join(idle)} did not, and nothing depends on it"
    return f"{plural(len({part.component for part in compared}), 'part')} of the state came back"


# -- the parts --------------------------------------------------------------------------------


def _parts(trial: Trial, restart: Restart) -> Iterator[Part]:
    guilty = set(state.broken(trial))
    mine = [row for row in trial.components if row.attempt == restart.attempt.index]
    for row in mine:
        if not _is_told_by_others(row, mine):
            yield _part(
                row, matters=not row.is_broken or row in guilty or not is_rng(row.component)
            )
    if trial.feeds is not None and trial.feeds.are_watched and trial.feeds.were_watched:
        yield from _order(restart, trial.feeds)
    yield from _cursor(trial, restart)


def _is_told_by_others(row: Row, rows: Sequence[Row]) -> bool:
    """Say whether a row is an optimizer's `state`, and what is in it has rows of its own.

    It says which parameters have which state. Where only that did not come
    back, no other row tells it.
    """
    optimizer, _, name = row.component.rpartition(".")
    if name != "state" or row.group != "optimizer":
        return False
    inside = [
        other
        for other in rows
        if other.rank == row.rank
        and other.group == "optimizer"
        and other.component.rpartition(".")[0] == optimizer
        and other is not row
    ]
    return any(other.is_broken or not row.is_broken for other in inside)


def _part(row: Row, *, matters: bool) -> Part:
    return Part(
        group=group_of(row.component),
        component=row.component,
        rank=row.rank,
        standing=row.standing,
        matters=matters,
        ours=value(row.ours, row.group),
        baseline=value(row.due, row.group),
    )


def _order(restart: Restart, feeds: Feeds) -> Iterator[Part]:
    apart = {(a.rank, a.epoch): a for a in feeds.apart}
    for rank, start in sorted(restart.attempt.starts.items()):
        key = (rank, start.epoch)
        if key not in feeds.ours.steps or key not in feeds.theirs.steps or not feeds.repeat:
            standing: Standing = "not compared"
            ours = ""
        elif key not in apart:
            standing, ours = "restored", f"epoch {start.epoch}"
        else:
            other = feeds.other_epoch(apart[key])
            standing = "reset" if other == 0 else "different"
            ours = "other inputs" if other is None else f"epoch {other}"
        yield Part(
            group="data order",
            component="inputs",
            rank=rank,
            standing=standing,
            ours=ours,
            baseline=f"epoch {start.epoch}",
        )


def _cursor(trial: Trial, restart: Restart) -> Iterator[Part]:
    shifted = shifts(trial).get(restart.attempt.index, 0)
    for rank, start in sorted(restart.attempt.starts.items()):
        due = f"epoch {start.epoch}, step {start.step}"
        standing: Standing = "different" if shifted else "restored"
        ours = f"{due} {shifted:+d} steps" if shifted else due
        if restart.attempt.index in trial.began_anew:
            standing, ours = "reset", "the beginning"
        elif trial.reference is None or rank not in restart.attempt.first_steps:
            standing, ours = "not compared", ""
        yield Part(
            group="cursor",
            component="cursor",
            rank=rank,
            standing=standing,
            ours=ours,
            baseline=due,
        )


def _in_order(parts: Iterator[Part]) -> list[Part]:
    return sorted(parts, key=lambda p: (GROUPS.index(p.group), p.component, p.rank))
