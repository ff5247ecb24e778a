"""The losses and metrics of a run, compared with its baseline's number by number."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from statistics import fmean
from typing import Self

from chaos.check.attempt import Attempt
from chaos.check.compare import Aligned, Tally, before, compare, surviving
from chaos.check.lineage import Lineage
from chaos.check.steps import Losses, Step, count_samples
from chaos.check.tolerance import Allowance
from chaos.check.values import NumberPair, as_number, is_below, loss_pairs, metric_pairs
from chaos.model.places import Place

TOGETHER = "mean loss of all ranks"


@dataclass(frozen=True)
class Sides:
    """A run and its baseline, with their steps aligned."""

    attempts: Sequence[Attempt]
    ours: Lineage
    theirs: Lineage
    #: the surviving steps
    steps: Sequence[Aligned]
    #: those made before the first fault
    before: Sequence[Aligned]

    @classmethod
    def of(cls, attempts: Sequence[Attempt], ours: Lineage, theirs: Lineage, *, began: int) -> Self:
        """Align a run with its baseline; `began` is the first fault's event number."""
        early = before(attempts, theirs, began=began)
        return cls(attempts, ours, theirs, surviving(ours, theirs), early)


@dataclass(frozen=True)
class NumberComparison:
    """The numbers of a run, compared with its baseline's."""

    #: the losses before the first fault, discarded since or not
    control: Tally[NumberPair]
    #: those of the surviving lineage
    losses: Tally[NumberPair]
    #: likewise, without those that are named below
    metrics: Tally[NumberPair]
    #: the metrics that differ before the fault too, or are too noisy
    not_compared: tuple[str, ...]
    #: the metrics that differ, and were not seen before the fault
    unproven: tuple[str, ...]
    #: the metrics that the scenario leaves out
    ignored: tuple[str, ...]
    #: the surviving steps without a loss on both sides
    steps_apart: int
    #: the resumed attempts of which nothing that survived was compared
    silent: tuple[int, ...]
    #: the surviving steps of attempts with another number of workers, which have no counterpart on
    #: their rank
    resized: int
    #: the mean losses of those that saw the baseline's samples on all ranks together; a stated
    #: tolerance alone judges them
    together: Tally[NumberPair]
    #: the largest difference among them, relative to the baseline's
    nearness: float

    @classmethod
    def of(
        cls,
        sides: Sides,
        *,
        allowance: Allowance,
        ignore: tuple[str, ...] = (),
        began: int,
        resized: frozenset[int] = frozenset(),
        has_reports: bool = True,
    ) -> Self:
        """Compare a lineage with the baseline's; `began` is the first fault's event number.

        Not `has_reports`: its reports have no counterpart, and no metric is compared.
        """
        ours = sides.ours
        means = list(mean_losses(ours, sides.theirs, resized))
        epochs = {commit.epoch: commit for commit in sides.theirs.commits} if has_reports else {}
        saved = (c for a in sides.attempts for c in a.commits if c.number < began)
        commits = [commit for commit in ours.commits if commit.attempt not in resized]
        losses = _Losses.of(sides.steps)
        reported = list(metric_pairs(commits, epochs))
        named = {pair.what for pair in reported}
        ignored = {name for name in named if is_below(name, ignore)}
        noisy = {name for name in named - ignored if allowance.is_too_noisy(name)}
        metrics = compare(
            (pair for pair in reported if pair.what not in ignored),
            allowance.allows,
            control=Tally.of(metric_pairs(saved, epochs), allowance.allows),
        )
        left_out = {*ignored, *noisy, *metrics.unstable, *metrics.unproven}
        told = [pair for pair in reported if pair.what not in left_out]
        # An attempt owes a comparison if it made a step, or reported a metric.
        owed = losses.attempts | {pair.attempt for pair in reported}
        heard = losses.heard | {pair.attempt for pair in told}
        return cls(
            control=_Losses.of(sides.before).tally(allowance),
            losses=losses.tally(allowance),
            metrics=Tally.of(told, allowance.allows),
            not_compared=tuple(sorted({*noisy, *map(str, metrics.unstable)})),
            unproven=tuple(sorted(map(str, metrics.unproven))),
            ignored=tuple(sorted(ignored)),
            steps_apart=losses.apart,
            silent=tuple(sorted(index for index in owed - heard if index > 0)),
            resized=sum(step.attempt in resized for step in ours.all_steps()) if resized else 0,
            together=Tally.of(
                means, lambda pair: allowance.stated is None or pair.agrees(allowance.stated)
            ),
            nearness=max((pair.relative or 0.0 for pair in means), default=0.0),
        )

    @property
    def first(self) -> NumberPair | None:
        """The first number that differs from the baseline's."""
        firsts = (self.losses.first, self.metrics.first, self.together.first)
        found = [first for first in firsts if first is not None]
        return min(found, key=lambda pair: pair.order, default=None)


@dataclass
class _Losses:
    """The losses of many steps and the baseline's.

    Almost all are equal: only others become pairs. `apart` steps have no loss on one of the two
    sides; `heard` are the attempts with one.
    """

    equal: int = 0
    apart: int = 0
    pairs: list[NumberPair] = field(default_factory=list)
    attempts: set[int] = field(default_factory=set)
    heard: set[int] = field(default_factory=set)

    @classmethod
    def of(cls, aligned: Iterable[Aligned]) -> Self:
        found = cls()
        for group in aligned:
            if group.has_equal_losses:
                found.equal += sum(len(step.losses or ()) for step in group.ours)
                seen = {group.ours[0].attempt, group.ours[-1].attempt}
                found.attempts |= seen
                found.heard |= seen
                continue
            for step, due in group.pairs():
                found._compare(step, None if due is None else due.losses)
        return found

    def _compare(self, step: Step, due: Losses | None) -> None:
        self.attempts.add(step.attempt)
        if step.losses is None or due is None:
            self.apart += 1
        elif step.losses == due and due:
            self.equal += len(due)
            self.heard.add(step.attempt)
        else:
            self._differ(step, due)

    def tally(self, allowance: Allowance) -> Tally[NumberPair]:
        return Tally.of(self.pairs, allowance.allows, at_a_glance=self.equal)

    def _differ(self, step: Step, due: Losses) -> None:
        before = len(self.pairs)
        self.pairs.extend(loss_pairs(step, due))
        if len(self.pairs) > before:
            self.heard.add(step.attempt)
        else:
            self.apart += 1


def mean_losses(ours: Lineage, theirs: Lineage, resized: frozenset[int]) -> Iterator[NumberPair]:
    """Yield the mean loss of each step of `resized` attempts that saw the baseline's samples.

    The samples of all ranks together are the baseline's at its step. Ranks' losses may be means
    over unequal numbers of samples, or sums over all: of the mean with weights and that without,
    the nearer one counts.
    """
    if not resized:
        return
    due = _by_step(theirs)
    for place, ranks in _by_step(ours).items():
        if all(step.attempt in resized for step in ranks) and place in due:
            samples, means = _together(ranks)
            theirs_too, wanted = _together(due[place])
            if samples and samples == theirs_too:
                near, there = min(
                    zip(means, wanted, strict=True), key=lambda two: abs(two[0] - two[1])
                )
                first = ranks[0]
                yield NumberPair(
                    *place, first.rank, TOGETHER, near, there, first.number, first.attempt
                )


def _by_step(course: Lineage) -> dict[Place, list[Step]]:
    found: dict[Place, list[Step]] = {}
    for step in course.all_steps():
        found.setdefault(Place(step.epoch, step.step), []).append(step)
    return found


def _together(ranks: Sequence[Step]) -> tuple[Counter[str] | None, list[float]]:
    """Return the samples of a step, None if not all are known, and its mean losses."""
    weights, losses = list[int](), list[float]()
    for step in ranks:
        numbers = [as_number(loss) for loss in step.losses or ()]
        known = [number for number in numbers if number is not None and isfinite(number)]
        if step.inputs is None or not step.inputs.count or not known:
            return None, []
        weights.append(step.inputs.count)
        losses.append(fmean(known))
    return count_samples(ranks), [fmean(losses), fmean(losses, weights)]


def widest(tally: Tally[NumberPair]) -> float:
    """Return the largest difference between two numbers."""
    return max((pair.difference or 0.0 for pair in tally.differing), default=0.0)
