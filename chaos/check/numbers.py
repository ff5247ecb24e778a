"""The losses and metrics of a run, compared with its baseline's number by number."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import isfinite
from statistics import fmean
from typing import Self

from chaos.check.compare import (
    AlignedSteps,
    PairTally,
    align_control_steps,
    align_surviving_steps,
    compare_pairs,
)
from chaos.check.tolerance import Allowance
from chaos.check.values import NumberPair, matches_name, pair_losses, pair_metrics, parse_number
from chaos.model.places import TrainingPlace
from chaos.resume.attempt import Attempt
from chaos.resume.lineage import Lineage
from chaos.resume.steps import Losses, Step, count_samples

TOGETHER = "mean loss of all ranks"


@dataclass(frozen=True)
class AlignedRuns:
    """A run and its baseline, with their steps aligned."""

    attempts: Sequence[Attempt]
    run_lineage: Lineage
    baseline_lineage: Lineage
    #: the surviving steps
    steps: Sequence[AlignedSteps]
    #: those made before the first fault
    control_steps: Sequence[AlignedSteps]

    @classmethod
    def from_lineages(
        cls,
        attempts: Sequence[Attempt],
        run_lineage: Lineage,
        baseline_lineage: Lineage,
        *,
        first_fault: int,
    ) -> Self:
        """Align a run with its baseline; `first_fault` is its event's number."""
        control_steps = align_control_steps(attempts, baseline_lineage, fault_start=first_fault)
        return cls(
            attempts,
            run_lineage,
            baseline_lineage,
            align_surviving_steps(run_lineage, baseline_lineage),
            control_steps,
        )


@dataclass(frozen=True)
class NumberComparison:
    """The numbers of a run, compared with its baseline's."""

    #: the losses before the first fault, discarded since or not
    control: PairTally[NumberPair]
    #: those of the surviving lineage
    losses: PairTally[NumberPair]
    #: likewise, without those that are named below
    metrics: PairTally[NumberPair]
    #: the metrics that differ before the fault too, or are too noisy
    unstable_metrics: tuple[str, ...]
    #: the metrics that differ, and were not seen before the fault
    unproven_metrics: tuple[str, ...]
    #: the metrics that the scenario leaves out
    ignored_metrics: tuple[str, ...]
    #: the surviving steps without a loss on both sides
    unpaired_steps: int
    #: the resumed attempts of which nothing that survived was compared
    silent_attempts: tuple[int, ...]
    #: the surviving steps of attempts with another number of workers, which have no counterpart on
    #: their rank
    resized_steps: int
    #: the mean losses of those that saw the baseline's samples on all ranks together; a stated
    #: tolerance alone judges them
    mean_losses: PairTally[NumberPair]
    #: the largest difference among them, relative to the baseline's
    mean_loss_difference: float

    @classmethod
    def from_runs(
        cls,
        runs: AlignedRuns,
        *,
        allowance: Allowance,
        ignore_patterns: tuple[str, ...] = (),
        first_fault: int,
        resized_attempts: frozenset[int] = frozenset(),
        has_reports: bool = True,
    ) -> Self:
        """Compare a lineage with the baseline's; `first_fault` is its event's number.

        Not `has_reports`: its reports have no counterpart, and no metric is compared.
        """
        run_lineage = runs.run_lineage
        mean_pairs = list(pair_mean_losses(run_lineage, runs.baseline_lineage, resized_attempts))
        epochs = (
            {commit.epoch: commit for commit in runs.baseline_lineage.commits}
            if has_reports
            else {}
        )
        early_commits = (
            c for attempt in runs.attempts for c in attempt.commits if c.number < first_fault
        )
        commits = [
            commit for commit in run_lineage.commits if commit.attempt not in resized_attempts
        ]
        losses = _LossComparison.from_steps(runs.steps)
        reported_pairs = list(pair_metrics(commits, epochs))
        metric_names = {pair.value_name for pair in reported_pairs}
        ignored_names = {name for name in metric_names if matches_name(name, ignore_patterns)}
        noisy_names = {
            name for name in metric_names - ignored_names if allowance.is_too_noisy(name)
        }
        metrics = compare_pairs(
            (pair for pair in reported_pairs if pair.value_name not in ignored_names),
            allowance.allows,
            control=PairTally.from_pairs(pair_metrics(early_commits, epochs), allowance.allows),
        )
        excluded_names = {
            *ignored_names,
            *noisy_names,
            *metrics.unstable_names,
            *metrics.unproven_names,
        }
        compared_pairs = [pair for pair in reported_pairs if pair.value_name not in excluded_names]
        # An attempt owes a comparison if it made a step, or reported a metric.
        expected_attempts = losses.attempts | {pair.attempt for pair in reported_pairs}
        compared_attempts = losses.compared_attempts | {pair.attempt for pair in compared_pairs}
        return cls(
            control=_LossComparison.from_steps(runs.control_steps).tally(allowance),
            losses=losses.tally(allowance),
            metrics=PairTally.from_pairs(compared_pairs, allowance.allows),
            unstable_metrics=tuple(sorted({*noisy_names, *map(str, metrics.unstable_names)})),
            unproven_metrics=tuple(sorted(map(str, metrics.unproven_names))),
            ignored_metrics=tuple(sorted(ignored_names)),
            unpaired_steps=losses.unpaired_steps,
            silent_attempts=tuple(
                sorted(index for index in expected_attempts - compared_attempts if index > 0)
            ),
            resized_steps=sum(step.attempt in resized_attempts for step in run_lineage.all_steps())
            if resized_attempts
            else 0,
            mean_losses=PairTally.from_pairs(
                mean_pairs, lambda pair: allowance.stated is None or pair.agrees(allowance.stated)
            ),
            mean_loss_difference=max(
                (pair.relative_difference or 0.0 for pair in mean_pairs), default=0.0
            ),
        )

    @property
    def earliest_difference(self) -> NumberPair | None:
        """The first number that differs from the baseline's."""
        candidates = (
            self.losses.earliest_pair,
            self.metrics.earliest_pair,
            self.mean_losses.earliest_pair,
        )
        differences = [difference for difference in candidates if difference is not None]
        return min(differences, key=lambda pair: pair.order, default=None)


@dataclass
class _LossComparison:
    """The losses of many steps and the baseline's.

    Almost all are equal: only others become pairs. `unpaired_steps` have no loss on one of the
    two sides; `compared_attempts` are those with one.
    """

    equal_count: int = 0
    unpaired_steps: int = 0
    pairs: list[NumberPair] = field(default_factory=list)
    attempts: set[int] = field(default_factory=set)
    compared_attempts: set[int] = field(default_factory=set)

    @classmethod
    def from_steps(cls, aligned: Iterable[AlignedSteps]) -> Self:
        comparison = cls()
        for group in aligned:
            if group.has_equal_losses:
                comparison.equal_count += sum(len(step.losses or ()) for step in group.run_steps)
                attempts = {group.run_steps[0].attempt, group.run_steps[-1].attempt}
                comparison.attempts |= attempts
                comparison.compared_attempts |= attempts
                continue
            for step, baseline_step in group.pairs():
                comparison._compare_step(
                    step, None if baseline_step is None else baseline_step.losses
                )
        return comparison

    def _compare_step(self, step: Step, baseline_losses: Losses | None) -> None:
        self.attempts.add(step.attempt)
        if step.losses is None or baseline_losses is None:
            self.unpaired_steps += 1
        elif step.losses == baseline_losses and baseline_losses:
            self.equal_count += len(baseline_losses)
            self.compared_attempts.add(step.attempt)
        else:
            self._add_difference(step, baseline_losses)

    def tally(self, allowance: Allowance) -> PairTally[NumberPair]:
        return PairTally.from_pairs(self.pairs, allowance.allows, equal_count=self.equal_count)

    def _add_difference(self, step: Step, baseline_losses: Losses) -> None:
        previous_count = len(self.pairs)
        self.pairs.extend(pair_losses(step, baseline_losses))
        if len(self.pairs) > previous_count:
            self.compared_attempts.add(step.attempt)
        else:
            self.unpaired_steps += 1


def pair_mean_losses(
    run_lineage: Lineage, baseline_lineage: Lineage, resized_attempts: frozenset[int]
) -> Iterator[NumberPair]:
    """Yield the mean loss of each step of `resized_attempts` that saw the baseline's samples.

    The samples of all ranks together are the baseline's at its step. Ranks' losses may be means
    over unequal numbers of samples, or sums over all: of the mean with weights and that without,
    the nearer one counts.
    """
    if not resized_attempts:
        return
    baseline_steps = _group_steps(baseline_lineage)
    for training_place, rank_steps in _group_steps(run_lineage).items():
        if (
            all(step.attempt in resized_attempts for step in rank_steps)
            and training_place in baseline_steps
        ):
            run_samples, run_means = _merge_ranks(rank_steps)
            baseline_samples, baseline_means = _merge_ranks(baseline_steps[training_place])
            if run_samples and run_samples == baseline_samples:
                run_loss, baseline_loss = min(
                    zip(run_means, baseline_means, strict=True),
                    key=lambda pair: abs(pair[0] - pair[1]),
                )
                first_step = rank_steps[0]
                yield NumberPair(
                    *training_place,
                    first_step.rank,
                    TOGETHER,
                    run_loss,
                    baseline_loss,
                    first_step.number,
                    first_step.attempt,
                )


def _group_steps(lineage: Lineage) -> dict[TrainingPlace, list[Step]]:
    groups: dict[TrainingPlace, list[Step]] = {}
    for step in lineage.all_steps():
        groups.setdefault(TrainingPlace(step.epoch, step.step), []).append(step)
    return groups


def _merge_ranks(rank_steps: Sequence[Step]) -> tuple[Counter[str] | None, list[float]]:
    """Return the samples of a step, None if not all are known, and its mean losses."""
    weights, losses = list[int](), list[float]()
    for step in rank_steps:
        numbers = [parse_number(loss) for loss in step.losses or ()]
        finite_losses = [number for number in numbers if number is not None and isfinite(number)]
        if step.inputs is None or not step.inputs.count or not finite_losses:
            return None, []
        weights.append(step.inputs.count)
        losses.append(fmean(finite_losses))
    return count_samples(rank_steps), [fmean(losses), fmean(losses, weights)]


def find_largest_difference(tally: PairTally[NumberPair]) -> float:
    """Return the largest difference between two numbers."""
    return max((pair.difference or 0.0 for pair in tally.differing_pairs), default=0.0)
