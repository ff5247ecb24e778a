"""Which parts that did not come back at a resume are causes, and which changed nothing.

A rank is looked at before its first optimizer step, after its first forward
call. What each part can change, and when, is known:

    first loss        model, buffers, scaler, generators, inputs, what is declared
    second loss       an optimizer's state, gradients, a learning rate
    third loss        a schedule alone: the learning rate of the first step was right

So the place of the first difference says which parts may be its cause. Where
nothing differs that lasts (no loss, no metric, no part of what is shipped),
what did not come back is told, and is no finding.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

from chaos.check.aftermath import Aftermath, Later, aftermath
from chaos.check.components import Row
from chaos.check.parting import left_before, parting
from chaos.check.restarts import Restart
from chaos.check.sightings import is_rng, parts_of
from chaos.check.trajectory import divergence
from chaos.check.trial import Trial
from chaos.model.diagnosis import GROUPS

_AT_ONCE, _WITH_LR, _BY_SCHEDULE = 1, 2, 3


@dataclass(frozen=True)
class Cause:
    """Rows with one reason, the nearest to it first; `explains` the first difference, or cannot."""

    rows: tuple[Row, ...]
    explains: bool


@dataclass(frozen=True)
class Blame:
    """What one resume is to blame for: causes in order, and the `idle` rows without consequence."""

    after: Aftermath
    causes: tuple[Cause, ...] = ()
    idle: tuple[Row, ...] = ()

    @property
    def at_once(self) -> bool:
        """Whether the loss of the first forward call differs, or inputs before any loss."""
        return self.after.losses == _AT_ONCE or bool(self.after.inputs)

    @property
    def rows(self) -> tuple[Row, ...]:
        """The rows of all causes."""
        return tuple(row for cause in self.causes for row in cause.rows)

    @property
    def is_explained(self) -> bool:
        """Whether a cause explains the first difference; so it is where nothing is blamed."""
        return not self.causes or any(cause.explains for cause in self.causes)


def blamed(trial: Trial, restart: Restart) -> Blame:
    """Give what one resume is to blame for."""
    return _all_blamed(trial)[restart.attempt.index]


@lru_cache(maxsize=2)  # of the run that is being judged: many checks ask for it
def _all_blamed(trial: Trial) -> Mapping[int, Blame]:
    return {restart.attempt.index: _blamed(trial, restart) for restart in trial.restarts}


def _blamed(trial: Trial, restart: Restart) -> Blame:
    mine = [r for r in trial.components if r.attempt == restart.attempt.index and r.is_broken]
    place, after = restart.attempt.place, aftermath(trial, restart)
    if not mine:
        return Blame(after)
    had_left = place is not None and left_before(trial, *place)
    solid = [r for r in mine if not is_rng(r.component)]
    solid = [r for r in solid if r.standing != "different" or not had_left]
    seen = Later(trial, restart)
    idle = [r for r in solid if seen.shows_nothing_of(r, after)]
    solid = [r for r in solid if r not in idle]
    near = [r for r in solid if _is_moved_a_little(trial, r)]
    drawn = _random(trial, restart, after, [r for r in solid if r not in near])
    solid = [r for r in solid if r not in near or not _follows_a_first_forward(r, after, drawn)]
    causes = [*_causes(solid, after), *_causes([r for r in drawn if r.copied_from is None], after)]
    causes.sort(key=lambda cause: not cause.explains)
    lost = {id(r) for r in (*solid, *drawn)}
    quiet = [r for r in mine if is_rng(r.component) and id(r) not in lost]
    return Blame(after, tuple(causes), (*idle, *quiet))


def random_rows(trial: Trial, restart: Restart) -> list[Row]:
    """Give the generators that did not come back, where numbers are seen to depend on them."""
    mine = [r for r in trial.components if r.attempt == restart.attempt.index and r.is_broken]
    solid = [r for r in mine if not is_rng(r.component) and not _is_moved_a_little(trial, r)]
    return _random(trial, restart, aftermath(trial, restart), solid)


def follows_a_first_forward(trial: Trial, restart: Restart, row: Row) -> bool:
    """Say whether buffers differ by what they were given in the first forward call."""
    after, drawn = aftermath(trial, restart), random_rows(trial, restart)
    return _is_moved_a_little(trial, row) and _follows_a_first_forward(row, after, drawn)


# -- random numbers -----------------------------------------------------------------------------


def _random(trial: Trial, restart: Restart, after: Aftermath, solid: Sequence[Row]) -> list[Row]:
    """Give the generators to blame: numbers part, and nothing else explains it.

    A generator that never moves in the baseline is drawn from by nobody.
    Inputs in another order are the sampler's; inputs that the baseline never
    saw were drawn by generators, if every rank with such a generator has them.
    """
    mine = [r for r in trial.components if r.attempt == restart.attempt.index and r.is_broken]
    rows = [r for r in mine if is_rng(r.component) and _moves(trial, r)]
    if not rows:
        return []
    if after.inputs:
        feeds = trial.feeds
        assert feeds is not None
        anew = {apart.rank for apart in after.inputs if feeds.drawn_anew(apart)}
        is_theirs = len(anew) == len(after.inputs) and {r.rank for r in rows} <= anew
        return rows if is_theirs else []
    if any(_explains(row, solid, after) for row in solid):
        return []
    if after.losses is not None:
        is_near = _AT_ONCE < after.losses < math.inf
        return [r for r in rows if not is_near or _moves(trial, r, within_an_epoch=True)]
    where, place = parting(trial), restart.attempt.place
    if where is None or place is None or where < place or divergence(trial) is not None:
        return []
    later = (r.attempt for r in trial.restarts if r.attempt.index > restart.attempt.index)
    return [] if any(a.place is not None and a.place <= where for a in later) else rows


def _moves(trial: Trial, row: Row, *, within_an_epoch: bool = False) -> bool:
    """Say whether the baseline draws from a generator; so it does where that was not seen."""
    assert trial.reference is not None
    seen = [s for _, s in trial.reference.sightings.all if s.rank == row.rank]
    digests: dict[int, list[str]] = {}
    for state in seen:
        part = parts_of(state).get(row.component)
        if part is not None:
            digests.setdefault(state.epoch if within_an_epoch else 0, []).append(part.digest)
    told = [of for of in digests.values() if len(of) > 1]
    return not told or any(len(set(of)) > 1 for of in told)


def _follows_a_first_forward(row: Row, after: Aftermath, drawn: Sequence[Row]) -> bool:
    """Say whether other inputs or other random numbers had moved a rank's buffers already."""
    fed = any(a.epoch == row.epoch and a.first.step == row.step + 1 for a in after.inputs)
    return fed or (bool(drawn) and after.losses == _AT_ONCE)


def _is_moved_a_little(trial: Trial, row: Row) -> bool:
    """Say whether buffers may differ by what they were given alone.

    They are looked at after the first forward call, which moves running
    statistics: with other inputs or dropout masks, a little. What is lost is
    nearer to what it was at the very beginning than to the baseline's.
    """
    if row.group != "buffers" or row.standing != "different":
        return False
    fresh = trial.run.sightings.fresh(row.rank).get(row.component)
    ours, due, new = (None if part is None else part.size for part in (row.ours, row.due, fresh))
    if not isinstance(ours, float) or not isinstance(due, float) or not isinstance(new, float):
        return False
    return abs(ours - due) < abs(ours - new)


# -- what is one cause --------------------------------------------------------------------------


def _explains(row: Row, solid: Sequence[Row], after: Aftermath) -> bool:
    """Say whether a part can have moved the first number that differs."""
    if after.inputs and not is_rng(row.component):
        return row.group == "declared"  # a model does not choose what it is given
    if after.losses is None or after.losses == math.inf:
        return True
    if row.group in ("optimizer", "optimizer settings", "gradients"):
        return after.losses >= _WITH_LR
    if row.group == "schedule":
        was_set = any(r.group == "optimizer settings" and r.rank == row.rank for r in solid)
        return after.losses >= (_WITH_LR if was_set else _BY_SCHEDULE)
    return True


def _causes(rows: Sequence[Row], after: Aftermath) -> list[Cause]:
    """Put rows with one reason together, the likely cause first."""
    scheduled = any(row.group == "schedule" for row in rows)
    ordered = sorted(rows, key=partial(_order, scheduled=scheduled))
    found: dict[str, list[Row]] = {}
    for row in ordered:
        found.setdefault(_reason(row, rows), []).append(row)
    return [
        Cause(tuple(of), explains=any(_explains(row, rows, after) for row in of))
        for of in found.values()
    ]


def _reason(row: Row, rows: Sequence[Row]) -> str:
    """Name what rows have in common that are lost by one mistake."""
    head = row.component.partition(".")[0]
    broken = {other.group for other in rows}
    if row.group == "optimizer settings":
        # A learning rate follows its schedule; an optimizer that was not loaded has its first one.
        gone = any(r.group == "optimizer" and r.component.startswith(f"{head}.") for r in rows)
        return "schedule" if "schedule" in broken else head if gone else row.component
    if row.group == "optimizer":
        return head
    if row.group == "rng":
        return "rng"
    if row.group == "buffers":
        whole = any(r.group == "model" for r in rows)
        return head if whole else row.component
    return row.component if row.group != "schedule" else "schedule"


def _order(row: Row, *, scheduled: bool) -> tuple[int, int, str, int]:
    """Order rows by how near they are to the cause; settings follow a schedule that is wrong."""
    follows = scheduled and row.group == "optimizer settings"
    gone = 2 if follows or row.standing == "different" else row.standing == "reset"
    group = GROUPS.index(row.group) + (2 if follows else 0)
    return int(gone), group, row.component, row.rank
