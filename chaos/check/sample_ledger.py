"""The samples of each finished epoch, compared with the baseline's."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, zip_longest
from statistics import multimode

from chaos.check.analysis import RunAnalysis
from chaos.check.compare import Aligned
from chaos.check.inputs import InputComparison
from chaos.check.lineage import Lineage
from chaos.check.steps import Step, Steps, count_samples
from chaos.check.trained_again import describe_samples_trained_again
from chaos.model.places import Place
from chaos.model.severity import Severity
from chaos.model.verdict import Anomaly
from chaos.words import plural

NOT_SEEN = "not all of its inputs were seen"
NOT_REPEATED = "the baseline's epochs do not all have the same samples"
NOT_KNOWN = "the baseline never saw some of its samples"
# Epochs that are needed to see whether each is one pass over the same samples.
SEVERAL = 2


@dataclass(frozen=True)
class EpochSamples:
    """One epoch, judged or left open."""

    epoch: int
    #: those that trained it
    attempts: frozenset[int]
    #: with another number of workers than the baseline
    is_resized: bool = False
    #: the baseline's inputs are all known
    is_due: bool = True
    #: the reason why it is open may be a defect
    is_doubt: bool = False
    #: the reason why it is not judged
    open: str | None = None
    anomaly: Anomaly | None = None


@dataclass(frozen=True)
class SampleLedger:
    """The samples of a run's epochs, compared with the baseline's."""

    analysis: RunAnalysis
    feeds: InputComparison

    def of(self, epoch: int) -> EpochSamples:
        """Return the account of a finished epoch."""
        attempts = frozenset(s.attempt for steps in self.feeds.ours.of_ranks(epoch) for s in steps)
        if attempts & self.analysis.resized:
            return self._of_other_size(epoch, attempts)
        groups = self._aligned.get(epoch, ())
        is_due = all(steps.are_watched for steps in self.feeds.theirs.of_ranks(epoch))
        found = EpochSamples(epoch, attempts, is_due=is_due)
        if groups and all(group.has_equal_inputs for group in groups):
            return found
        if not is_due or not all(steps.are_watched for steps in self.feeds.ours.of_ranks(epoch)):
            return _left(found, NOT_SEEN)
        # Inputs that are equal as far as they go are steps too few or too many: see `epochs`.
        return self._beside(found) if epoch in self.feeds.apart_by_epoch else found

    def _beside(self, found: EpochSamples) -> EpochSamples:
        feeds, epoch = self.feeds, found.epoch
        ours, due = feeds.ours.samples(epoch), feeds.theirs.samples(epoch)
        if ours is None or due is None:
            return _left(found, "its samples cannot be distinguished")
        if not feeds.known.issuperset(ours):
            return _left(found, NOT_KNOWN)
        # Samples may come twice, but a sample that is missing is never forgiven.
        forgiven = self._forgiven(epoch) if ours >= due else 0
        if ours == due or (ours - due).total() <= forgiven:
            return found
        return self._broken(found, ours, due)

    def _of_other_size(self, epoch: int, attempts: frozenset[int]) -> EpochSamples:
        """Judge an epoch by its samples over all ranks, which do not depend on their number.

        Only where each epoch of the baseline is one pass over the same samples, in an order of its
        own: with a fixed number of steps, fewer workers train other samples. As much as one batch
        of all ranks may be missing or come twice, because the last batch is filled up or dropped.
        More samples than in the baseline are never meant.
        """
        # Rank by rank nothing has a counterpart: a sampler deals the same samples to fewer ranks.
        # The union of all ranks is what must stay, and only where an epoch is a pass: a job with a
        # fixed number of steps per epoch rightly trains fewer samples with fewer workers. So an
        # epoch with all samples is sound whatever it is; one that lacks some is a finding where it
        # has as many samples in all, or more (then some came in place of others), and a doubt where
        # it has fewer.
        found, feeds = EpochSamples(epoch, attempts, is_resized=True), self.feeds
        sizes = {a.size for a in self.analysis.run.attempts if a.index in attempts}
        if len(sizes) > 1 and not self._is_one_pass:
            return _left(found, f"{_workers(sizes)} trained it")
        ours, due = feeds.ours.samples(epoch), feeds.theirs.samples(epoch)
        if ours is None or due is None:
            return _left(found, NOT_SEEN)
        # The sampler of torch fills the last batch up so that all ranks have as many, or drops it:
        # how much that is depends on the number of ranks, and is less than one step of them all.
        spare = self._spare(epoch)
        again = spare + self._forgiven(epoch)
        if (due - ours).total() <= spare and (ours - due).total() <= again:
            return found
        if not self._is_one_pass or not feeds.known.issuperset(ours):
            return _left(found, NOT_KNOWN if self._is_one_pass else NOT_REPEATED)
        if ours.total() >= due.total() - spare:
            return self._broken(found, ours, due)
        few = f"{_workers(sizes)} trained {plural(ours.total(), 'sample')} in it"
        why = f"{few}, the baseline has {due.total()}: whether that is meant is not known"
        return _left(found, why, is_doubt=True)

    def in_all(self) -> Anomaly | None:
        """Judge the run as a whole, where what lies between two of its saves is no pass.

        The baseline's is a number of passes over the same samples. At the end of each the last step
        may be filled up or dropped, and a restart may round its place to a step. Fewer samples in
        all may be meant.
        """
        feeds = self.feeds
        ours, due = count_samples(feeds.ours.all_steps()), count_samples(feeds.theirs.all_steps())
        if not ours or not due or not feeds.known.issuperset(ours):
            return None
        passes, size = min(due.values()), len(due)
        steps = {step for epoch in feeds.theirs.by_epoch for step in self._step_sizes(epoch)}
        rounded = max(steps) * sum(bool(r.attempt.steps) for r in self.analysis.restarts)
        filled = passes * max(-size % step for step in steps) + rounded
        dropped = passes * max(size % step for step in steps) + rounded
        more, fewer = (ours - due).total(), (due - ours).total()
        again = filled + sum(map(self._forgiven, feeds.theirs.by_epoch))
        is_even = due.total() - passes * size <= filled
        if (
            not is_even
            or ours.total() < due.total() - dropped
            or (more <= again and fewer <= dropped)
        ):
            return None
        what = (
            f"{plural(due.total(), 'sample')} in {plural(passes, 'pass', 'passes')} over the data"
        )
        return Anomaly(
            message=f"of {what}, {fewer} were trained less often than in the baseline, and {more} "
            "more often",
            events=tuple(made[0].number for made in feeds.ours.steps.values() if made)[:1],
        )

    def _broken(self, found: EpochSamples, ours: Counter[str], due: Counter[str]) -> EpochSamples:
        message = (
            f"epoch {found.epoch}: of {plural(due.total(), 'sample')}, {(due - ours).total()} "
            f"were never trained, and {(ours - due).total()} once too often"
            f"{self.describe_trained_again(found.epoch)}"
        )
        events = tuple(steps[0].number for steps in self.feeds.ours.of_ranks(found.epoch) if steps)
        is_meant = self.analysis.plan.expect.sampling == "resampled"
        severity: Severity = "not reproducible" if is_meant else "wrong result"
        return replace(found, anomaly=Anomaly(message=message, events=events, severity=severity))

    def describe_trained_again(self, epoch: int) -> str:
        """Return, as the end of a sentence, that a resume in the epoch went back in the data.

        Its first steps count whose samples had all been trained before, on all ranks.
        """
        for restart in self.analysis.restarts:
            place, index = restart.attempt.place, restart.attempt.index
            if place is None or place.epoch != epoch or index in self.analysis.resized:
                continue
            passed = _pass_before(self.feeds.ours, place, index)
            ranks = [s for (_, e), s in restart.attempt.steps.by_epoch.items() if e == epoch]
            resumed: list[str] = []
            count = 0
            for samples in _samples_by_step(ranks):
                if not samples or not passed.issuperset(samples):
                    break
                resumed += samples
                count += 1
            following = [s[place.step :][:count] for s in self.feeds.theirs.of_ranks(epoch)]
            expected = list(chain.from_iterable(_samples_by_step(following)))
            text = describe_samples_trained_again(
                resumed, passed, expected, where="in the baseline"
            )
            if text is not None:
                return f"; {text}"
        return ""

    # -- what they are compared with ---------------------------------------------------------

    def _forgiven(self, epoch: int) -> int:
        """Return the number of samples that may repeat: those of discarded steps, if expected."""
        if self.analysis.plan.expect.sampling != "at_least_once":
            return 0
        here = (r for r in self.analysis.restarts if r.epoch == epoch)
        lost = sum(steps for r in here for steps in r.lost_steps.values())
        return lost * self.feeds.batch

    def _spare(self, epoch: int) -> int:
        """Return the number of samples of one step over all ranks, in the run that has more."""
        return max(self._step_sizes(epoch), default=0)

    def _step_sizes(self, epoch: int) -> Sequence[int]:
        """Return the number of samples of one step over all ranks, in this run and the baseline."""
        runs = (self.feeds.ours.of_ranks(epoch), self.feeds.theirs.of_ranks(epoch))
        sizes = (len(ranks) * max(map(_most, ranks), default=0) for ranks in runs)
        return [size for size in sizes if size]

    @cached_property
    def _is_one_pass(self) -> bool:
        """Whether all epochs of the baseline have the same samples, in more than one order."""
        theirs = self.feeds.theirs
        epochs = sorted({commit.epoch for commit in theirs.commits} & theirs.by_epoch.keys())
        samples = [theirs.samples(epoch) for epoch in epochs]
        if len(epochs) < SEVERAL or samples[0] is None or any(s != samples[0] for s in samples):
            return False
        return len({self._order(epoch) for epoch in epochs}) > 1

    def _order(self, epoch: int) -> tuple[tuple[str, ...], ...]:
        return tuple(tuple(steps.digests) for steps in self.feeds.theirs.of_ranks(epoch))

    @cached_property
    def _aligned(self) -> Mapping[int, Sequence[Aligned]]:
        found: dict[int, list[Aligned]] = {}
        for group in self.feeds.steps:
            found.setdefault(group.key.epoch, []).append(group)
        return found


def _samples_by_step(ranks: Collection[Sequence[Step]]) -> Iterator[list[str]]:
    """Yield the samples of each step over all ranks; none where some are not known."""
    for steps in zip_longest(*ranks):
        known = [None if step is None else step.samples for step in steps]
        yield [] if None in known else [one for samples in known for one in samples or ()]


def _pass_before(lineage: Lineage, place: Place, attempt: int) -> set[str]:
    """Return what earlier attempts had trained before a place, as far back as no sample repeats."""
    found: set[str] = set()
    for epoch in sorted((e for e in lineage.by_epoch if e <= place.epoch), reverse=True):
        until = place.step if epoch == place.epoch else None
        ranks = [
            [step for step in steps[:until] if step.attempt < attempt]
            for steps in lineage.of_ranks(epoch)
        ]
        for samples in reversed(list(_samples_by_step(ranks))):
            if not samples or not found.isdisjoint(samples):
                return found
            found.update(samples)
    return found


def _left(account: EpochSamples, why: str, *, is_doubt: bool = False) -> EpochSamples:
    return replace(account, open=why, is_doubt=is_doubt)


def _workers(sizes: Collection[int]) -> str:
    *others, last = sorted(sizes)
    return " and ".join([*map(str, others), plural(last, "worker")])


def _most(steps: Steps) -> int:
    counts = [inputs.count for inputs in steps.inputs if inputs is not None]
    return max(multimode(counts), default=0)
