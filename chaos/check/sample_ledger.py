"""The samples of each finished epoch, compared with the baseline's."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, zip_longest
from statistics import multimode

from chaos.check.analysis import RunAnalysis
from chaos.check.anomaly import build_anomaly
from chaos.check.compare import AlignedSteps
from chaos.check.inputs import InputComparison
from chaos.check.kinds.samples import EpochSamplesUneven, RunSamplesUneven
from chaos.check.trained_again import describe_repeated_samples
from chaos.model.places import TrainingPlace
from chaos.model.verdict import Anomaly
from chaos.resume.lineage import Lineage
from chaos.resume.steps import Step, Steps, count_samples
from chaos.wording import plural

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
    has_known_baseline: bool = True
    #: the reason why it is open may be a defect
    is_doubtful: bool = False
    #: the reason why it is not judged
    open_reason: str | None = None
    anomaly: Anomaly | None = None


@dataclass(frozen=True)
class SampleLedger:
    """The samples of a run's epochs, compared with the baseline's."""

    analysis: RunAnalysis
    inputs: InputComparison

    def judge_epoch(self, epoch: int) -> EpochSamples:
        """Return the account of a finished epoch."""
        attempts = frozenset(
            s.attempt for steps in self.inputs.run_lineage.select_epoch(epoch) for s in steps
        )
        if attempts & self.analysis.resized_attempts:
            return self._judge_resized_epoch(epoch, attempts)
        groups = self._groups_by_epoch.get(epoch, ())
        has_known_baseline = all(
            steps.are_watched for steps in self.inputs.baseline_lineage.select_epoch(epoch)
        )
        account = EpochSamples(epoch, attempts, has_known_baseline=has_known_baseline)
        if groups and all(group.has_equal_inputs for group in groups):
            return account
        if not has_known_baseline or not all(
            steps.are_watched for steps in self.inputs.run_lineage.select_epoch(epoch)
        ):
            return _leave_open(account, NOT_SEEN)
        # Inputs that are equal as far as they go are steps too few or too many: see `epochs`.
        return (
            self._compare_samples(account) if epoch in self.inputs.differences_by_epoch else account
        )

    def _compare_samples(self, account: EpochSamples) -> EpochSamples:
        inputs, epoch = self.inputs, account.epoch
        run_samples, baseline_samples = (
            inputs.run_lineage.count_epoch_samples(epoch),
            inputs.baseline_lineage.count_epoch_samples(epoch),
        )
        if run_samples is None or baseline_samples is None:
            return _leave_open(account, "its samples cannot be distinguished")
        if not inputs.baseline_samples.issuperset(run_samples):
            return _leave_open(account, NOT_KNOWN)
        # Samples may come twice, but a sample that is missing is never forgiven.
        surplus_count = (run_samples - baseline_samples).total()
        if run_samples >= baseline_samples and surplus_count <= self._count_allowed_repeats(epoch):
            return account
        return self._add_anomaly(account, run_samples, baseline_samples)

    def _judge_resized_epoch(self, epoch: int, attempts: frozenset[int]) -> EpochSamples:
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
        account, inputs = EpochSamples(epoch, attempts, is_resized=True), self.inputs
        sizes = {a.worker_count for a in self.analysis.run.attempts if a.index in attempts}
        if len(sizes) > 1 and not self._is_one_pass:
            return _leave_open(account, f"{_describe_workers(sizes)} trained it")
        run_samples, baseline_samples = (
            inputs.run_lineage.count_epoch_samples(epoch),
            inputs.baseline_lineage.count_epoch_samples(epoch),
        )
        if run_samples is None or baseline_samples is None:
            return _leave_open(account, NOT_SEEN)
        # The sampler of torch fills the last batch up so that all ranks have as many, or drops it:
        # how much that is depends on the number of ranks, and is less than one step of them all.
        spare_samples = self._count_spare_samples(epoch)
        allowed_repeats = spare_samples + self._count_allowed_repeats(epoch)
        if (baseline_samples - run_samples).total() <= spare_samples and (
            run_samples - baseline_samples
        ).total() <= allowed_repeats:
            return account
        if not self._is_one_pass or not inputs.baseline_samples.issuperset(run_samples):
            return _leave_open(account, NOT_KNOWN if self._is_one_pass else NOT_REPEATED)
        if run_samples.total() >= baseline_samples.total() - spare_samples:
            return self._add_anomaly(account, run_samples, baseline_samples)
        size_text = (
            f"{_describe_workers(sizes)} trained {plural(run_samples.total(), 'sample')} in it"
        )
        reason = (
            f"{size_text}, the baseline has {baseline_samples.total()}: whether that is "
            f"meant is not known"
        )
        return _leave_open(account, reason, is_doubtful=True)

    def judge_run(self) -> Anomaly | None:
        """Judge the run as a whole, where what lies between two of its saves is no pass.

        The baseline's is a number of passes over the same samples. At the end of each the last step
        may be filled up or dropped, and a restart may round its place to a step. Fewer samples in
        all may be meant.
        """
        inputs = self.inputs
        run_samples, baseline_samples = (
            count_samples(inputs.run_lineage.all_steps()),
            count_samples(inputs.baseline_lineage.all_steps()),
        )
        if (
            not run_samples
            or not baseline_samples
            or not inputs.baseline_samples.issuperset(run_samples)
        ):
            return None
        passes, pass_size = min(baseline_samples.values()), len(baseline_samples)
        step_sizes = {
            step_size
            for epoch in inputs.baseline_lineage.steps_by_epoch
            for step_size in self._step_sizes(epoch)
        }
        rounded_samples = max(step_sizes) * sum(
            bool(r.attempt.steps) for r in self.analysis.restarts
        )
        filled_samples = (
            passes * max(-pass_size % step_size for step_size in step_sizes) + rounded_samples
        )
        dropped_samples = (
            passes * max(pass_size % step_size for step_size in step_sizes) + rounded_samples
        )
        surplus_count, missing_count = (
            (run_samples - baseline_samples).total(),
            (baseline_samples - run_samples).total(),
        )
        allowed_surplus = filled_samples + sum(
            map(self._count_allowed_repeats, inputs.baseline_lineage.steps_by_epoch)
        )
        has_whole_passes = baseline_samples.total() - passes * pass_size <= filled_samples
        if (
            not has_whole_passes
            or run_samples.total() < baseline_samples.total() - dropped_samples
            or (surplus_count <= allowed_surplus and missing_count <= dropped_samples)
        ):
            return None
        return build_anomaly(
            RunSamplesUneven(baseline_samples.total(), passes, missing_count, surplus_count),
            self.analysis.launcher_words,
            events=[steps[0].number for steps in inputs.run_lineage.steps.values() if steps][:1],
        )

    def _add_anomaly(
        self, account: EpochSamples, run_samples: Counter[str], baseline_samples: Counter[str]
    ) -> EpochSamples:
        is_resampling_expected = self.analysis.plan.expect.sampling == "resampled"
        anomaly = build_anomaly(
            EpochSamplesUneven(
                account.epoch,
                baseline_samples.total(),
                missing_count=(baseline_samples - run_samples).total(),
                surplus_count=(run_samples - baseline_samples).total(),
                repeated_samples=self.count_repeated_samples(account.epoch),
            ),
            self.analysis.launcher_words,
            events=(
                steps[0].number
                for steps in self.inputs.run_lineage.select_epoch(account.epoch)
                if steps
            ),
            severity="not reproducible" if is_resampling_expected else "wrong result",
        )
        return replace(account, anomaly=anomaly)

    def count_repeated_samples(self, epoch: int) -> int | None:
        """Return the samples since a resume in the epoch that had all been trained before it.

        Its first steps count whose samples had been trained, on all ranks. None where no resume
        went back in the data.
        """
        for restart in self.analysis.restarts:
            training_place, index = restart.attempt.training_place, restart.attempt.index
            if (
                training_place is None
                or training_place.epoch != epoch
                or index in self.analysis.resized_attempts
            ):
                continue
            earlier_samples = _find_passed_samples(self.inputs.run_lineage, training_place, index)
            rank_steps = [
                s for (_, e), s in restart.attempt.steps.steps_by_epoch.items() if e == epoch
            ]
            resumed_samples: list[str] = []
            step_count = 0
            for samples in _group_samples_by_step(rank_steps):
                if not samples or not earlier_samples.issuperset(samples):
                    break
                resumed_samples += samples
                step_count += 1
            baseline_steps = [
                s[training_place.step :][:step_count]
                for s in self.inputs.baseline_lineage.select_epoch(epoch)
            ]
            expected_samples = list(chain.from_iterable(_group_samples_by_step(baseline_steps)))
            text = describe_repeated_samples(
                resumed_samples, earlier_samples, expected_samples, source_text="in the baseline"
            )
            if text is not None:
                return len(resumed_samples)
        return None

    # -- what they are compared with ---------------------------------------------------------

    def _count_allowed_repeats(self, epoch: int) -> int:
        """Return the number of samples that may repeat: those of discarded steps, if expected."""
        if self.analysis.plan.expect.sampling != "at_least_once":
            return 0
        epoch_restarts = (r for r in self.analysis.restarts if r.epoch == epoch)
        lost_count = sum(steps for r in epoch_restarts for steps in r.lost_steps_by_rank.values())
        return lost_count * self.inputs.largest_batch

    def _count_spare_samples(self, epoch: int) -> int:
        """Return the number of samples of one step over all ranks, in the run that has more."""
        return max(self._step_sizes(epoch), default=0)

    def _step_sizes(self, epoch: int) -> Sequence[int]:
        """Return the number of samples of one step over all ranks, in this run and the baseline."""
        runs = (
            self.inputs.run_lineage.select_epoch(epoch),
            self.inputs.baseline_lineage.select_epoch(epoch),
        )
        sizes = (len(ranks) * max(map(_find_batch_size, ranks), default=0) for ranks in runs)
        return [size for size in sizes if size]

    @cached_property
    def _is_one_pass(self) -> bool:
        """Whether all epochs of the baseline have the same samples, in more than one order."""
        baseline = self.inputs.baseline_lineage
        epochs = sorted(
            {commit.epoch for commit in baseline.commits} & baseline.steps_by_epoch.keys()
        )
        samples = [baseline.count_epoch_samples(epoch) for epoch in epochs]
        if len(epochs) < SEVERAL or samples[0] is None or any(s != samples[0] for s in samples):
            return False
        return len({self._find_sample_order(epoch) for epoch in epochs}) > 1

    def _find_sample_order(self, epoch: int) -> tuple[tuple[str, ...], ...]:
        return tuple(
            tuple(steps.digests) for steps in self.inputs.baseline_lineage.select_epoch(epoch)
        )

    @cached_property
    def _groups_by_epoch(self) -> Mapping[int, Sequence[AlignedSteps]]:
        groups: dict[int, list[AlignedSteps]] = {}
        for group in self.inputs.steps:
            groups.setdefault(group.key.epoch, []).append(group)
        return groups


def _group_samples_by_step(ranks: Collection[Sequence[Step]]) -> Iterator[list[str]]:
    """Yield the samples of each step over all ranks; none where some are not known."""
    for steps in zip_longest(*ranks):
        rank_samples = [None if step is None else step.samples for step in steps]
        yield (
            []
            if None in rank_samples
            else [sample for samples in rank_samples for sample in samples or ()]
        )


def _find_passed_samples(lineage: Lineage, training_place: TrainingPlace, attempt: int) -> set[str]:
    """Return what earlier attempts had trained before a place, as far back as no sample repeats."""
    passed_samples: set[str] = set()
    for epoch in sorted(
        (e for e in lineage.steps_by_epoch if e <= training_place.epoch), reverse=True
    ):
        end_step = training_place.step if epoch == training_place.epoch else None
        ranks = [
            [step for step in steps[:end_step] if step.attempt < attempt]
            for steps in lineage.select_epoch(epoch)
        ]
        for samples in reversed(list(_group_samples_by_step(ranks))):
            if not samples or not passed_samples.isdisjoint(samples):
                return passed_samples
            passed_samples.update(samples)
    return passed_samples


def _leave_open(account: EpochSamples, reason: str, *, is_doubtful: bool = False) -> EpochSamples:
    return replace(account, open_reason=reason, is_doubtful=is_doubtful)


def _describe_workers(sizes: Collection[int]) -> str:
    *smaller_sizes, largest_size = sorted(sizes)
    return " and ".join([*map(str, smaller_sizes), plural(largest_size, "worker")])


def _find_batch_size(steps: Steps) -> int:
    counts = [inputs.count for inputs in steps.inputs if inputs is not None]
    return max(multimode(counts), default=0)
