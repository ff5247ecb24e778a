"""Checks of the data: the order of inputs, and each sample of an epoch once."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from chaos.check.analysis import RunAnalysis
from chaos.check.anomaly import build_anomaly
from chaos.check.blame import find_blame
from chaos.check.divergence import find_divergence
from chaos.check.inputs import DifferingInputs, InputComparison
from chaos.check.kinds.samples import (
    InputsDiffer,
    InputsShifted,
    OrderFacts,
    OtherEpochOrder,
    OtherEpochSamples,
    OtherSamplesDrawn,
    SamplesReordered,
    StepRange,
    UnknownSamples,
)
from chaos.check.prose.samples import describe_order_without_guess
from chaos.check.result import (
    builtin_check,
    conclude,
    describe_missing_inputs,
    describe_resized_steps,
    not_applicable,
    require_inputs,
)
from chaos.check.sample_ledger import NOT_KNOWN, NOT_REPEATED, EpochSamples, SampleLedger
from chaos.model.places import RankEpoch
from chaos.model.severity import Severity
from chaos.model.verdict import Anomaly, CheckResult
from chaos.resume.state_snapshots import is_rng
from chaos.wording import plural

T = TypeVar("T")

# -- sample-order ----------------------------------------------------------------------------------


SAMPLE_ORDER = "sample-order"


@builtin_check(SAMPLE_ORDER, asks="Was every epoch trained in the baseline's order?")
def check_sample_order(analysis: RunAnalysis) -> CheckResult:
    """Require that each rank has the baseline's inputs, step for step.

    Another epoch's order comes from a sampler that counts epochs from the resume, or a generator
    that began anew (huggingface/transformers PR #8878). Samples of another epoch come from a place
    in the data that was not restored (NVIDIA-NeMo/Megatron-Bridge PR #3503).

    `samples` judges other samples; where they cannot be identified, and the loss differs from there
    on, they are named here. Inputs that were drawn again, or that `expect.sampling: resampled`
    allows, make a result that is not reproducible, and no wrong one. Orders are not compared where
    inputs differ before any fault, or with another number of ranks.
    """
    inputs = require_inputs(SAMPLE_ORDER, analysis)
    if isinstance(inputs, CheckResult):
        return inputs
    if inputs.run_lineage.ranks != inputs.baseline_lineage.ranks:
        return not_applicable(
            SAMPLE_ORDER, "other ranks than in the baseline; orders are not compared"
        )
    if not analysis.aligned_steps and analysis.resized_attempts:
        return not_applicable(
            SAMPLE_ORDER, "every step that survived was made with another number of workers"
        )
    unrepeatable_reason = find_unrepeatable_reason(inputs)
    if unrepeatable_reason is not None and not analysis.plan.expect.is_exact:
        return not_applicable(
            SAMPLE_ORDER, f"{unrepeatable_reason}; `expect` says that it need not repeat"
        )
    repeated_epochs = {RankEpoch(step.rank, step.epoch) for step in analysis.repeated_steps}
    return conclude(
        SAMPLE_ORDER,
        anomalies=[]
        if unrepeatable_reason
        else list(_find_order_anomalies(analysis, inputs, repeated_epochs)),
        doubts=[unrepeatable_reason]
        if unrepeatable_reason
        else describe_missing_inputs(inputs.silent_attempts),
        evidence=inputs.compared_count,
        summary=f"{plural(inputs.compared_count, 'step')} were given the baseline's inputs, in "
        f"its order"
        f"{describe_resized_steps(analysis)}",
        measures={
            "inputs_compared": inputs.compared_count,
            "control_inputs": inputs.control.compared_count,
        },
    )


def find_unrepeatable_reason(inputs: InputComparison) -> str | None:
    """Return why other inputs are no defect of the job; None if they are, or there are none."""
    if inputs.control.differing_count:
        return "the inputs differ from the baseline's before any fault: they do not repeat here"
    if inputs.differing_epochs and not inputs.control.compared_count:
        return "inputs differ, and none was recorded before the fault to show whether they repeat"
    return None


def _find_order_anomalies(
    analysis: RunAnalysis, inputs: InputComparison, repeated_epochs: set[RankEpoch]
) -> Iterator[Anomaly]:
    ledger = SampleLedger(analysis, inputs)
    first_divergence = find_divergence(analysis)
    divergence_place = (-1, 0.0) if first_divergence is None else first_divergence.training_place
    for epoch, epoch_deviations in inputs.differences_by_epoch.items():
        deviations = [
            deviation
            for deviation in epoch_deviations
            if (deviation.rank, epoch) not in repeated_epochs
        ]
        if not deviations:
            continue
        suspects = _find_suspects(analysis, deviations)
        facts = (
            _find_other_order(analysis, inputs, deviations, suspects)
            if inputs.has_epochs
            else _find_shifted_inputs(analysis, inputs, deviations)
        )
        first_step = _find_first_step(deviations)
        if (
            facts is None
            and (epoch, first_step) <= divergence_place
            and ledger.judge_epoch(epoch).open_reason is not None
        ):
            facts = UnknownSamples(
                epoch,
                _find_ranks(deviations),
                first_step,
                _has_restored_generators(analysis, deviations),
            )
        if facts is not None:
            facts = replace(facts, repeated_samples=ledger.count_repeated_samples(epoch))
            yield build_anomaly(
                facts,
                analysis.launcher_words,
                events=(deviation.first_step.number for deviation in deviations),
                parts=("inputs", *suspects),
                severity=_judge_order_severity(analysis, inputs, epoch, deviations),
                message_without_guess=describe_order_without_guess(facts),
            )


def _find_ranks(deviations: Sequence[DifferingInputs]) -> tuple[int, ...]:
    return tuple(sorted({deviation.rank for deviation in deviations}))


def _find_first_step(deviations: Sequence[DifferingInputs]) -> int:
    return min(deviation.first_step.step for deviation in deviations)


def _has_restored_generators(analysis: RunAnalysis, deviations: Sequence[DifferingInputs]) -> bool:
    """Return whether the place in the data and the shared generators came back."""
    resumes = {(deviation.first_step.attempt, deviation.rank) for deviation in deviations}
    moved_attempts = {attempt for attempt, _ in resumes} & {
        *analysis.input_offsets,
        *analysis.scratch_attempts,
    }
    generator_rows = [r for r in analysis.state_rows if is_rng(r.component)]
    generator_rows = [r for r in generator_rows if (r.attempt, r.rank) in resumes]
    has_all_rows = {(r.attempt, r.rank) for r in generator_rows} == resumes
    return (
        has_all_rows
        and not moved_attempts
        and all(row.standing == "restored" for row in generator_rows)
    )


def _judge_order_severity(
    analysis: RunAnalysis,
    inputs: InputComparison,
    epoch: int,
    deviations: Sequence[DifferingInputs],
) -> Severity:
    """Return the severity: not reproducible if only the order differs, or what was drawn.

    New samples count as drawn by generators only where one of these did not come back, at the head
    of the epoch, and the number of samples is the same; or where the
    baseline is within its first pass, and known and new samples are mixed within batches, as by
    another draw of the same data, and not by a place further on in it.
    """
    run_samples, baseline_samples = (
        inputs.run_lineage.count_epoch_samples(epoch),
        inputs.baseline_lineage.count_epoch_samples(epoch),
    )
    has_same_size = (
        run_samples is not None
        and baseline_samples is not None
        and run_samples.total() == baseline_samples.total()
    )
    if run_samples is not None and run_samples == baseline_samples:
        return "not reproducible"
    if has_same_size and (_may_resample(analysis) or all(map(inputs.is_redrawn, deviations))):
        return "not reproducible"
    blames = {restart.attempt.index: find_blame(analysis, restart) for restart in analysis.restarts}
    head_attempts = {
        r.attempt.index
        for r in analysis.restarts
        if r.attempt.training_place is not None and r.attempt.training_place.step == 0
    }
    is_drawn_again = all(
        deviation.first_step.attempt in head_attempts
        and inputs.has_new_samples(deviation)
        and any(is_rng(row.component) for row in blames[deviation.first_step.attempt].rows)
        for deviation in deviations
    )
    return "not reproducible" if is_drawn_again and has_same_size else "wrong result"


def _find_shifted_inputs(
    analysis: RunAnalysis, inputs: InputComparison, deviations: Sequence[DifferingInputs]
) -> InputsShifted | None:
    """Return the other place of these inputs, for a job without epochs."""
    first_deviation = min(deviations, key=lambda deviation: deviation.first_step.step)
    deviating_steps = [
        step for step in first_deviation.steps if step.step >= first_deviation.first_step.step
    ]
    baseline_position = None if analysis.input_offsets else inputs.find_position(deviating_steps)
    offset = (
        0
        if baseline_position is None
        else baseline_position - inputs.find_expected_position(deviating_steps[0])
    )
    if not offset:
        return None  # `cursor` and `epochs` judge surplus and missing steps
    return InputsShifted(
        first_deviation.epoch, _find_ranks(deviations), deviating_steps[0].step, offset
    )


def _find_suspects(analysis: RunAnalysis, deviations: Sequence[DifferingInputs]) -> list[str]:
    """Return the generators that may have drawn these inputs anew."""
    attempts = {deviation.first_step.attempt for deviation in deviations}
    rows = [
        row
        for restart in analysis.restarts
        if restart.attempt.index in attempts
        for row in find_blame(analysis, restart).suspects
    ]
    return sorted({row.component for row in rows})


def _find_other_order(
    analysis: RunAnalysis,
    inputs: InputComparison,
    deviations: Sequence[DifferingInputs],
    suspects: Sequence[str],
) -> OrderFacts | None:
    """Return whose samples, or whose order, an epoch was given; None if neither is known."""
    epoch, ranks = deviations[0].epoch, _find_ranks(deviations)
    other_epoch = _find_common_value(
        inputs.find_source_epoch(deviation.steps) for deviation in deviations
    )
    if other_epoch is not None and other_epoch != epoch:
        # A resume that began at its place brought the place back.
        has_right_start = _has_right_start(analysis, inputs, deviations)
        if not has_right_start and any(map(inputs.is_replay, deviations)):
            return OtherEpochSamples(epoch, ranks, other_epoch, tuple(suspects))
        return OtherEpochOrder(epoch, ranks, other_epoch, has_right_start)
    baseline_steps = [inputs.find_baseline_step(deviation.steps) for deviation in deviations]
    if other_epoch is None and all(
        step is not None and step.epoch != epoch for step in baseline_steps
    ):
        return _find_shifted_inputs(analysis, inputs, deviations)
    return _find_other_stretch(analysis, inputs, deviations) or _compare_samples(inputs, deviations)


def _find_other_stretch(
    analysis: RunAnalysis, inputs: InputComparison, deviations: Sequence[DifferingInputs]
) -> OtherEpochOrder | None:
    """Return the steps of an epoch that were trained in the order of another one."""
    epoch = deviations[0].epoch
    stretch = _find_common_value(
        StepRange(deviation.first_step.step, deviation.last_step.step) for deviation in deviations
    )
    other_epoch = _find_common_value(
        inputs.find_source_epoch(deviation.stretch) for deviation in deviations
    )
    if other_epoch is None or other_epoch == epoch:
        return None
    if stretch is None or stretch.first == stretch.last:
        return None
    has_right_start = _has_right_start(analysis, inputs, deviations)
    return OtherEpochOrder(epoch, _find_ranks(deviations), other_epoch, has_right_start, stretch)


def _compare_samples(
    inputs: InputComparison, deviations: Sequence[DifferingInputs]
) -> OrderFacts | None:
    """Return that an epoch's samples came in another order, or are not known; None for neither."""
    epoch = deviations[0].epoch
    run_samples, baseline_samples = (
        inputs.run_lineage.count_epoch_samples(epoch),
        inputs.baseline_lineage.count_epoch_samples(epoch),
    )
    shared_facts = (epoch, _find_ranks(deviations), _find_first_step(deviations))
    if run_samples is None or baseline_samples is None:
        return InputsDiffer(*shared_facts)
    if run_samples == baseline_samples:
        return SamplesReordered(*shared_facts)
    if inputs.has_replacement and inputs.baseline_samples.issuperset(run_samples):
        return OtherSamplesDrawn(*shared_facts)
    return None


def _find_common_value(values: Iterable[T]) -> T | None:
    """Return the value that all have; None without one."""
    unique_values = set(values)
    return next(iter(unique_values)) if len(unique_values) == 1 else None


def _has_right_start(
    analysis: RunAnalysis, inputs: InputComparison, deviations: Sequence[DifferingInputs]
) -> bool:
    """Return whether each attempt was given the baseline's inputs when it began."""
    return all(
        _starts_in_order(analysis, inputs, deviation.first_step.attempt) for deviation in deviations
    )


def _starts_in_order(analysis: RunAnalysis, inputs: InputComparison, attempt: int) -> bool:
    """Return whether all ranks of an attempt were given the baseline's inputs when it began."""
    starts = (a.training_place for a in analysis.run.attempts if a.index == attempt)
    epoch, step = next(starts) or (0, 0)
    deviation_places = [
        (a.epoch, a.first_step.step)
        for a in inputs.differing_epochs
        if a.first_step.attempt == attempt
    ]
    return min(deviation_places) > (epoch, step + 1)


# -- samples ---------------------------------------------------------------------------------------


SAMPLES = "samples"


@builtin_check(SAMPLES, asks="Was every sample of every epoch trained, and once?")
def check_samples(analysis: RunAnalysis) -> CheckResult:
    """Require each finished epoch's samples to be the baseline's, as a multiset over all ranks.

    They go wrong by a cursor that counts from the last resume (KempnerInstitute/KempnerForge#57),
    batches that stay skipped (huggingface/accelerate#1451), or prefetched samples that count as
    trained (huggingface/accelerate#3938). `expect.sampling: at_least_once` allows as many repeated
    samples as the discarded steps had.

    Samples that the baseline never saw are augmented anew, and cannot be identified. An epoch of
    another number of workers has the same samples if each of the baseline's is one pass over its
    data. Samples that were not seen are not counted.
    """
    inputs = require_inputs(SAMPLES, analysis)
    if isinstance(inputs, CheckResult):
        return inputs
    finished_epochs = list(_find_finished_epochs(analysis, inputs))
    unrepeatable_reason = (
        None
        if _repeats_whole_epochs(analysis, inputs, finished_epochs)
        else find_unrepeatable_reason(inputs)
    )
    if unrepeatable_reason is not None and not analysis.plan.expect.is_exact:
        return not_applicable(
            SAMPLES, f"{unrepeatable_reason}; `expect` says that it need not repeat"
        )
    if not finished_epochs and (analysis.has_expected_error or not analysis.run.lineage.commits):
        return not_applicable(SAMPLES, "no epoch was finished")
    ledger = SampleLedger(analysis, inputs)
    accounts = [ledger.judge_epoch(epoch) for epoch in finished_epochs]
    anomalies = (
        [] if unrepeatable_reason else [account.anomaly for account in accounts if account.anomaly]
    )
    if (
        not anomalies
        and any(e.open_reason == NOT_REPEATED for e in accounts)
        and not unrepeatable_reason
    ):
        anomalies += filter(None, [ledger.judge_run()])
    if anomalies and inputs.has_replacement:
        return not_applicable(
            SAMPLES,
            "in the baseline samples repeat before all have come, so that none is due once: "
            "`sample-order` compares them",
        )
    redrawn_epochs = frozenset() if unrepeatable_reason else _find_redrawn_epochs(analysis, inputs)
    judged_accounts = [account for account in accounts if account.open_reason is None]
    expected_accounts = [
        account
        for account in accounts
        if account.open_reason != NOT_KNOWN or account.epoch not in redrawn_epochs
    ]
    doubts = (
        [unrepeatable_reason]
        if unrepeatable_reason
        else list(_find_sample_doubts(analysis, expected_accounts))
    )
    is_undecided = all(
        account.is_resized or not account.has_known_baseline or account not in expected_accounts
        for account in accounts
    )
    if accounts and not judged_accounts and not doubts and not anomalies and is_undecided:
        return not_applicable(SAMPLES, "; ".join(_describe_open_epochs(accounts)))
    return conclude(
        SAMPLES,
        anomalies=anomalies,
        doubts=doubts,
        evidence=len(judged_accounts),
        summary="; ".join(
            [
                _summarize_samples(judged_accounts, allows_repeats=_allows_repeats(analysis)),
                *_describe_open_epochs(accounts),
            ]
        ),
    )


def _find_redrawn_epochs(analysis: RunAnalysis, inputs: InputComparison) -> frozenset[int]:
    """Return the epochs of which `sample-order` tells that their samples were drawn again."""
    return frozenset(
        epoch
        for epoch, deviations in inputs.differences_by_epoch.items()
        if _judge_order_severity(analysis, inputs, epoch, deviations) == "not reproducible"
    )


def _summarize_samples(accounts: Sequence[EpochSamples], *, allows_repeats: bool) -> str:
    resized_count = sum(account.is_resized for account in accounts)
    frequency_text = "each at least as often" if allows_repeats else "each as often"
    summary = f"{plural(len(accounts), 'epoch')} with the baseline's samples, {frequency_text}"
    if not resized_count:
        return summary
    return f"{summary}, in {resized_count} of them but for what fills up or drops the last batch"


def _describe_open_epochs(accounts: Sequence[EpochSamples]) -> Iterator[str]:
    """Yield the epochs that are not counted, those for one reason together."""
    reasons: dict[str, list[int]] = {}
    for account in accounts:
        if account.open_reason is not None:
            reasons.setdefault(account.open_reason, []).append(account.epoch)
    for reason, epochs in reasons.items():
        epoch_text = f"epoch {epochs[0]} is" if len(epochs) == 1 else f"{len(epochs)} epochs are"
        yield f"{epoch_text} not judged: {reason}"


def _find_sample_doubts(analysis: RunAnalysis, accounts: Sequence[EpochSamples]) -> Iterator[str]:
    """Yield doubts about attempts of which no finished epoch could be judged."""
    yield from _describe_open_epochs([account for account in accounts if account.is_doubtful])
    for index in sorted({index for account in accounts for index in account.attempts if index > 0}):
        attempt_accounts = [account for account in accounts if index in account.attempts]
        expected_accounts = [
            account
            for account in attempt_accounts
            if account.has_known_baseline and not account.is_resized
        ]
        # Where numbers need not repeat, samples that are augmented need not either.
        expected_accounts = [
            e
            for e in expected_accounts
            if analysis.plan.expect.is_exact or e.open_reason != NOT_KNOWN
        ]
        if expected_accounts and all(
            account.open_reason is not None for account in attempt_accounts
        ):
            yield f"of attempt {index}, {'; '.join(_describe_open_epochs(expected_accounts))}"


def _may_resample(analysis: RunAnalysis) -> bool:
    return analysis.plan.expect.sampling == "resampled"


def _allows_repeats(analysis: RunAnalysis) -> bool:
    return analysis.plan.expect.sampling == "at_least_once"


def _find_finished_epochs(analysis: RunAnalysis, inputs: InputComparison) -> Iterator[int]:
    epochs = {commit.epoch for commit in inputs.run_lineage.commits}
    epochs &= {commit.epoch for commit in inputs.baseline_lineage.commits}
    if analysis.run.ending.is_finished:
        epochs |= {epoch for _, epoch in inputs.run_lineage.steps} & {
            e for _, e in inputs.baseline_lineage.steps
        }
    yield from sorted(epochs & {epoch for _, epoch in inputs.baseline_lineage.steps})


def _repeats_whole_epochs(
    analysis: RunAnalysis, inputs: InputComparison, finished_epochs: list[int]
) -> bool:
    """Return whether whole epochs before the fault had the baseline's samples in any order."""
    early_epochs = {c.epoch for c in inputs.run_lineage.commits if c.number < analysis.fault_start}
    pairs = [
        (
            inputs.run_lineage.count_epoch_samples(epoch),
            inputs.baseline_lineage.count_epoch_samples(epoch),
        )
        for epoch in finished_epochs
        if epoch in early_epochs and inputs.control.differing_count
    ]
    return bool(pairs) and all(
        run_samples is not None and run_samples == baseline_samples
        for run_samples, baseline_samples in pairs
    )
