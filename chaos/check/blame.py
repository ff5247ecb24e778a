"""The causes among the parts that did not come back at a resume, and those without effect.

A state snapshot is taken before a rank's first optimizer step, after its first forward call. For
each part it is known which loss it can change first:

    first loss        model, buffers, scaler, generators, inputs, what is declared
    second loss       an optimizer's state, gradients, a learning rate
    third loss        a schedule alone: the learning rate of the first step was right

So the place of the first difference shows which parts may be its cause. A part that did not come
back is noted, and is no finding, where nothing that lasts differs: no loss, no metric, no part of
what is shipped.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

from chaos.check.analysis import RunAnalysis
from chaos.check.divergence import divergence, divergence_place, left_before
from chaos.check.file_contents import contents_of
from chaos.check.inputs import InputsApart
from chaos.check.restarts import Restart
from chaos.check.state_at_resume import SHIPPED, Row
from chaos.check.state_snapshots import counterparts, holds_nothing, is_rng, parts_of, place_of
from chaos.model.event import CensusTaken, GeneratorsSeen
from chaos.model.events.state import GROUPS, group_of
from chaos.model.places import AttemptRank, RankName

_AT_ONCE, _WITH_LR, _BY_SCHEDULE = 1, 2, 3


@dataclass(frozen=True)
class Aftermath:
    """The first difference from the baseline in the work of one attempt."""

    #: the attempt's steps to the first loss that differs: 1 is the loss of its first forward call;
    #: infinite stands for a later epoch's loss or a metric; None for no difference
    losses: float | None
    #: those of its first epoch with other inputs, if no loss differs before them
    inputs: Sequence[InputsApart] = ()


@dataclass(frozen=True)
class Cause:
    """Rows with one reason, the nearest to it first."""

    rows: tuple[Row, ...]
    #: it can cause the first difference
    explains: bool


@dataclass(frozen=True)
class Blame:
    """The findings of one resume."""

    after: Aftermath
    #: in order, the first one first
    causes: tuple[Cause, ...] = ()
    #: the rows without consequence
    without_consequence: tuple[Row, ...] = ()
    #: generators that began anew, and may have drawn the inputs of an earlier epoch again; so may a
    #: place in the data that was not restored
    suspects: tuple[Row, ...] = ()

    @property
    def at_once(self) -> bool:
        """Whether the loss of the first forward call differs, or inputs before any loss."""
        return self.after.losses == _AT_ONCE or bool(self.after.inputs)

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(row for cause in self.causes for row in cause.rows)

    @property
    def is_explained(self) -> bool:
        """Whether a cause explains the first difference; true where there is no cause."""
        return not self.causes or any(cause.explains for cause in self.causes)


def blamed(analysis: RunAnalysis, restart: Restart) -> Blame:
    """Return the causes of one resume."""
    return _all_blamed(analysis)[restart.attempt.index]


@lru_cache(maxsize=2)  # many checks of the run that is being judged use it
def _all_blamed(analysis: RunAnalysis) -> Mapping[int, Blame]:
    # All resumes together: an attempt that a further fault cut short is too short to show that a
    # part has no effect, where a longer one shows it of the same part of the same rank (the scratch
    # of L-BFGS). Without it, a chain of faults would blame a right job.
    seen = [Later(analysis, restart) for restart in analysis.restarts]
    shown = {RankName(row.rank, row.component) for later in seen for row in later.without_effect()}
    return {later.restart.attempt.index: _blamed(later, frozenset(shown)) for later in seen}


def _blamed(seen: "Later", without_effect: frozenset[RankName]) -> Blame:
    """Return the causes of one resume; `without_effect`: parts that some resume shows to be so."""
    # A part that did not come back is one of four things, decided in this order, each time of what
    # the decision before has left:
    #
    #   a consequence    it is only other, in a run that had left its baseline before this resume
    #   idle             later work is the baseline's at a place that the part could have changed
    #   moved on         buffers that the first forward call moved by other inputs or random numbers
    #   a cause          all else; a generator only if nothing else explains the numbers
    #
    # Buffers and generators depend on each other: other dropout masks move running statistics, so
    # buffers must not explain what the generators did, and generators decide whether the buffers
    # are findings. Hence the generators are judged first, without those buffers.
    analysis, restart, mine, after = seen.analysis, seen.restart, seen.broken, seen.after
    place = restart.attempt.place
    if not mine:
        return Blame(after)
    had_left = place is not None and left_before(analysis, *place)
    solid = [r for r in mine if not is_rng(r.component)]
    # A part that is missing, or has its first value, was lost here whatever came before.
    solid = [r for r in solid if r.standing != "different" or not had_left]
    without_consequence = [
        r
        for r in solid
        if seen.shows_nothing_of(r)
        # An attempt that was cut short is too short to show it.
        or ((r.rank, r.component) in without_effect and not seen.shows_an_effect_of(r))
    ]
    solid = [r for r in solid if r not in without_consequence]
    near = [r for r in solid if _is_moved_a_little(analysis, r)]
    drawn = _random(analysis, restart, after, [r for r in solid if r not in near])
    solid = [r for r in solid if r not in near or not _follows_a_first_forward(r, after, drawn)]
    # Another rank's generator is a finding of `rank-randomness`.
    causes = [*_causes(solid, after), *_causes([r for r in drawn if r.copied_from is None], after)]
    # The sort is stable: those that explain the first difference come first, each kind in order.
    causes.sort(key=lambda cause: not cause.explains)
    lost = {id(r) for r in (*solid, *drawn)}
    quiet = [r for r in mine if is_rng(r.component) and id(r) not in lost]
    suspects = [r for r in quiet if _may_have_replayed(analysis, r, after)]
    quiet = [r for r in quiet if r not in suspects]
    return Blame(after, tuple(causes), (*without_consequence, *quiet), tuple(suspects))


def _broken(analysis: RunAnalysis, restart: Restart) -> list[Row]:
    return [r for r in analysis.components if r.attempt == restart.attempt.index and r.is_broken]


def random_rows(analysis: RunAnalysis, restart: Restart) -> list[Row]:
    """Return the generators that did not come back, if numbers are seen to depend on them."""
    mine = _broken(analysis, restart)
    solid = [r for r in mine if not is_rng(r.component) and not _is_moved_a_little(analysis, r)]
    return _random(analysis, restart, aftermath(analysis, restart), solid)


def follows_a_first_forward(analysis: RunAnalysis, restart: Restart, row: Row) -> bool:
    """Return whether buffers differ only by the inputs of the first forward call."""
    after, drawn = aftermath(analysis, restart), random_rows(analysis, restart)
    return _is_moved_a_little(analysis, row) and _follows_a_first_forward(row, after, drawn)


# -- what followed ---------------------------------------------------------------------------------


_LATE = 3  # steps, after which any part of the state can have moved a loss


def aftermath(analysis: RunAnalysis, restart: Restart) -> Aftermath:
    """Return the first difference in the work of one attempt."""
    first, index = divergence(analysis), restart.attempt.index
    losses, until = None, (math.inf, math.inf) if first is None else first.place
    if first is not None and first.attempt == index:
        start = restart.attempt.starts.get(first.rank)
        place = restart.attempt.place if start is None else start.place
        losses = math.inf
        # Within a tolerance, the first loss that differs by too much does not show the cause.
        if first.step is not None and place is not None and analysis.allowance.is_exact:
            losses = first.step - place.step if place.epoch == first.epoch else math.inf
    inputs = analysis.inputs
    fed = inputs.apart if inputs is not None and inputs.repeat else ()
    fed = tuple(a for a in fed if a.first.attempt == index)
    # Inputs count only if this attempt has other ones before the first number that differs.
    start_at = min(((a.epoch, a.first.step) for a in fed), default=None)
    if start_at is None or start_at > until or (losses is None and first is not None):
        return Aftermath(losses)
    return Aftermath(losses, [a for a in fed if a.epoch == start_at[0]])


@dataclass(frozen=True)
class Later:
    """The state and the losses of an attempt after its entry."""

    analysis: RunAnalysis
    restart: Restart

    @cached_property
    def broken(self) -> Sequence[Row]:
        """The parts that did not come back as the attempt entered."""
        return _broken(self.analysis, self.restart)

    @cached_property
    def after(self) -> Aftermath:
        """The first difference in the work of the attempt."""
        return aftermath(self.analysis, self.restart)

    def without_effect(self) -> Iterator[Row]:
        """Yield the parts that serve what is shipped, and are shown to have no effect on it."""
        solid = (r for r in self.broken if not is_rng(r.component) and r.group not in SHIPPED)
        return (row for row in solid if self.shows_nothing_of(row))

    def shows_an_effect_of(self, row: Row) -> bool:
        """Return whether anything that the attempt did may follow from a part."""
        if self.after.losses is not None or self.after.inputs:
            return True
        if _is_saved_otherwise(self.analysis, self.restart, row):
            return True
        return not all(same for _, _, same in self._shipped(row.rank))

    def shows_nothing_of(self, row: Row) -> bool:
        """Return whether a part that is not the baseline's is shown to have no effect.

        It is not enough that no effect was seen: what is shipped must have been seen to be the
        baseline's, at a place that the part could have changed.
        """
        if self.shows_an_effect_of(row):
            return False
        if row.is_restructured:  # what is trained is compared by its numbers alone
            return True
        seen = list(self._shipped(row.rank))
        if row.group == "model":
            # The losses are right, so the weights are there, as another part of the state.
            return holds_nothing(row.ours) and self._has_equal_losses(row)
        if row.group in SHIPPED:
            return any(name == row.component for name, _, _ in seen)
        return any(group == "model" for _, group, _ in seen) or self._has_equal_losses(row)

    def _shipped(self, rank: int) -> Iterator[tuple[str, str, bool]]:
        """Yield the later states of what is shipped: name, group, and whether it is the baseline's.

        Differences count on all ranks, equality on the rank itself only.
        """
        assert self.analysis.reference is not None
        due_at = self.analysis.reference.snapshots.by_place
        entry = self.analysis.run.snapshots.entries
        index = self.restart.attempt.index
        for number, seen in self.analysis.run.snapshots.all:
            first = entry.get(AttemptRank(index, seen.rank))
            if seen.attempt != index or first is None or number <= first[0]:
                continue
            for ours, part in counterparts(seen, due_at.get(place_of(seen))):
                name, group = part.name, group_of(part.name)
                if group not in SHIPPED or name in self.analysis.unstable or ours is None:
                    continue
                same = ours.digest == part.digest
                if not same or seen.rank == rank:
                    yield name, group, same

    def _has_equal_losses(self, row: Row) -> bool:
        """Return whether a loss that any part can have changed is the baseline's."""
        for group in self.analysis.aligned:
            for step, due in group.pairs():
                late = step.epoch > row.epoch or step.step - row.step >= _LATE
                mine = step.attempt == row.attempt and step.rank == row.rank and late
                if mine and due is not None and step.losses and step.losses == due.losses:
                    return True
        return False


# -- random numbers ---------------------------------------------------------------------------


def _random(
    analysis: RunAnalysis, restart: Restart, after: Aftermath, solid: Sequence[Row]
) -> list[Row]:
    """Return the generators that are causes: numbers differ, and nothing else explains it.

    A generator that never moves in the baseline is not drawn from. Inputs in another order come
    from the sampler. Inputs that the baseline never saw were drawn by generators, if every rank
    with such a generator has them.
    """
    broken = _broken(analysis, restart)
    rows = [r for r in broken if is_rng(r.component) and _moves(analysis, r)]
    if not rows:
        return []
    if after.inputs:
        inputs = analysis.inputs
        assert inputs is not None
        anew = {apart.rank for apart in after.inputs if inputs.drawn_anew(apart)}
        is_theirs = len(anew) == len(after.inputs) and {r.rank for r in rows} <= anew
        return rows if is_theirs else []
    if any(_explains(row, solid, after) for row in solid):
        return []
    if after.losses is not None:
        return [row for row in rows if _may_move_a_loss(analysis, row, after)]
    # No number differs in this attempt. If none differs in the run and the model does, the last
    # resume before that place is the one to look at.
    where, place = divergence_place(analysis), restart.attempt.place
    if where is None or place is None or where < place or divergence(analysis) is not None:
        return []
    later = (r.attempt for r in analysis.restarts if r.attempt.index > restart.attempt.index)
    return [] if any(a.place is not None and a.place <= where for a in later) else rows


def _may_have_replayed(analysis: RunAnalysis, row: Row, after: Aftermath) -> bool:
    """Return whether a generator began anew on a rank that has an earlier epoch's inputs again."""
    inputs = analysis.inputs
    fed = [apart for apart in after.inputs if apart.rank == row.rank]
    if inputs is None or row.standing != "reset" or not _moves(analysis, row):
        return False
    return any(map(inputs.is_replay, fed))


def _moves(analysis: RunAnalysis, row: Row, *, within_an_epoch: bool = False) -> bool:
    """Return whether the baseline draws from a generator; true where that was not seen."""
    assert analysis.reference is not None
    seen = [s for _, s in analysis.reference.snapshots.all if s.rank == row.rank]
    digests: dict[int, list[str]] = {}
    for state in seen:
        part = parts_of(state).get(row.component)
        if part is not None:
            digests.setdefault(state.epoch if within_an_epoch else 0, []).append(part.digest)
    for _, event in () if analysis.counterpart is None else analysis.counterpart.of(GeneratorsSeen):
        if event.rank == row.rank and row.component in event.digests:
            digest = event.digests[row.component]
            digests.setdefault(event.epoch if within_an_epoch else 0, []).append(digest)
    several = [of for of in digests.values() if len(of) > 1]
    return not several or any(len(set(of)) > 1 for of in several)


def _may_move_a_loss(analysis: RunAnalysis, row: Row, after: Aftermath) -> bool:
    """Return whether a generator can be why losses differ, from inputs that do not."""
    assert after.losses is not None
    if _AT_ONCE < after.losses < math.inf:
        # Where the first loss is right and a later one of the epoch is not, only a generator that
        # is drawn from within epochs can be the cause.
        return _moves(analysis, row, within_an_epoch=True)
    # Where inputs are the baseline's, what was drawn for the first loss was drawn after them.
    is_fed_alike = analysis.inputs is not None and analysis.inputs.repeat
    return after.losses != _AT_ONCE or not is_fed_alike or not _is_not_drawn(analysis, row)


def _is_not_drawn(analysis: RunAnalysis, row: Row) -> bool:
    """Return whether a generator is seen not to move in the first step of an attempt.

    That is, from its first forward call to its optimizer's step, or a later one. A loader that
    draws a seed for its workers as an epoch begins, whether it has any or not, has drawn it by
    then.
    """
    history, of = analysis.history, (row.attempt, row.rank)
    taken = (
        (number, event.generators.get(row.component))
        for number, event in history.of(CensusTaken)
        if (event.attempt, event.rank) == of and event.loop is None
    )
    began, before = next(taken, (0, None))
    if before is None:
        return False
    number, _ = analysis.run.snapshots.entries.get(AttemptRank(*of), (0, None))
    # A step with a closure is seen before its first forward call.
    if number > began and row.ours is not None and row.ours.digest == before:
        return True
    later = (
        e.digests for n, e in history.of(GeneratorsSeen) if n > began and of == (e.attempt, e.rank)
    )
    return any(digests.get(row.component) == before for digests in later)


def _follows_a_first_forward(row: Row, after: Aftermath, drawn: Sequence[Row]) -> bool:
    """Return whether other inputs or random numbers had already moved a rank's buffers."""
    fed = any(a.epoch == row.epoch and a.first.step == row.step + 1 for a in after.inputs)
    return fed or (bool(drawn) and after.losses == _AT_ONCE)


def _is_moved_a_little(analysis: RunAnalysis, row: Row) -> bool:
    """Return whether buffers may differ only by the inputs of one forward call.

    The snapshot comes after the first forward call, which moves running statistics: with other
    inputs or dropout masks, a little. A lost buffer is nearer to its first value than to the
    baseline's.
    """
    if row.group != "buffers" or row.standing != "different":
        return False
    fresh = analysis.run.snapshots.fresh(row.rank).get(row.component)
    ours, due, new = (None if part is None else part.size for part in (row.ours, row.due, fresh))
    if not isinstance(ours, float) or not isinstance(due, float) or not isinstance(new, float):
        return False
    return abs(ours - due) < abs(ours - new)


# -- what is one cause ------------------------------------------------------------------------


def _explains(row: Row, solid: Sequence[Row], after: Aftermath) -> bool:
    """Return whether a part can have changed the first number that differs."""
    # The place of the first difference tells parts apart. The loss of the first forward call after
    # a resume is computed before any optimizer step: weights, buffers and generators can change
    # it, momenta and rates cannot. A rate shows one step later, and a schedule that was lost while
    # the rate itself came back shows one later still, when it sets the next rate.
    if after.inputs and not is_rng(row.component):
        return row.group == "declared"  # a model does not choose its inputs
    if after.losses is None or after.losses == math.inf:
        return True
    if row.group in ("optimizer", "optimizer settings", "gradients"):
        return after.losses >= _WITH_LR
    if row.group == "schedule":
        was_set = any(r.group == "optimizer settings" and r.rank == row.rank for r in solid)
        return after.losses >= (_WITH_LR if was_set else _BY_SCHEDULE)
    return True


def _causes(rows: Sequence[Row], after: Aftermath) -> list[Cause]:
    """Group rows by reason, the likely cause first."""
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
    """Return a name for the one mistake by which a row and others are lost."""
    head = row.component.partition(".")[0]
    broken = {other.group for other in rows}
    if row.group == "optimizer settings":
        # A learning rate follows its schedule; an optimizer that was not loaded has its first one.
        gone = any(r.group == "optimizer" and r.component.startswith(f"{head}.") for r in rows)
        return "schedule" if "schedule" in broken else head if gone else row.component
    if row.group in ("rng", "schedule"):
        return row.group
    is_of_model = row.group == "buffers" and "model" in broken
    return head if row.group == "optimizer" or is_of_model else row.component


def _order(row: Row, *, scheduled: bool) -> tuple[int, int, str, int]:
    """Order rows by how near they are to the cause; settings follow a schedule that is wrong."""
    follows = scheduled and row.group == "optimizer settings"
    gone = 2 if follows or row.standing == "different" else row.standing == "reset"
    group = GROUPS.index(row.group) + (2 if follows else 0)
    return int(gone), group, row.component, row.rank


# -- files --------------------------------------------------------------------------------------


def _is_saved_otherwise(analysis: RunAnalysis, restart: Restart, row: Row) -> bool:
    """Return whether a schedule that was lost is in a file that a restart may continue from."""
    if row.group != "schedule" or analysis.reference is None:
        return False
    return any(
        other.mine.what.attempt == restart.attempt.index
        and other.entry[1].rpartition(".")[2] in ("last_epoch", "_step_count")
        for other in contents_of(analysis).other_counts()
    )
