"""Checks of the data: the order of inputs, and each sample of an epoch once."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from chaos.check.analysis import RunAnalysis
from chaos.check.blame import blamed
from chaos.check.divergence import divergence
from chaos.check.inputs import InputComparison, InputsApart
from chaos.check.result import (
    conclude,
    nothing_due,
    of_another_size,
    own_check,
    unseen_inputs,
    watched_feeds,
)
from chaos.check.sample_ledger import NOT_KNOWN, NOT_REPEATED, EpochSamples, SampleLedger
from chaos.check.state_snapshots import is_rng
from chaos.model.places import RankEpoch
from chaos.model.severity import Severity
from chaos.model.verdict import Anomaly, CheckResult
from chaos.words import plural, ranks

T = TypeVar("T")

# -- sample-order ----------------------------------------------------------------------------------


SAMPLE_ORDER = "sample-order"


@own_check(SAMPLE_ORDER, asks="Was every epoch trained in the baseline's order?")
def check_sample_order(analysis: RunAnalysis) -> CheckResult:
    """Require that each rank has the baseline's inputs, step for step.

    The promise of the epoch's order. An epoch in the order of another one comes from a sampler that
    counts epochs from the resume, or a generator that began anew (huggingface/transformers PR
    #8878). Samples of another epoch that are not its own come from a place in the data that was not
    restored (NVIDIA-NeMo/Megatron-Bridge PR #3503), or from a generator that draws or augments
    them. The same samples in a new order are a permutation drawn again (wyim-pgl/transgenic#59).
    `samples` judges other samples; where they cannot be identified, and the loss differs from there
    on, they are the cause and named here. Inputs that were drawn again, or that `expect.sampling:
    resampled` lets a restart draw, make a result that is not reproducible, and no wrong one. Inputs
    that differ before any fault do not repeat here, and other numbers of ranks share an epoch out
    differently: there orders are not compared.
    Inconclusive where no inputs of a resumed attempt were seen, though the baseline's were.
    """
    feeds = watched_feeds(SAMPLE_ORDER, analysis)
    if isinstance(feeds, CheckResult):
        return feeds
    if feeds.ours.ranks != feeds.theirs.ranks:
        return nothing_due(
            SAMPLE_ORDER, "other ranks than in the baseline; orders are not compared"
        )
    if not analysis.aligned and analysis.resized:
        return nothing_due(
            SAMPLE_ORDER, "every step that survived was made with another number of workers"
        )
    why = unrepeatable(feeds)
    if why is not None and not analysis.plan.expect.is_exact:
        return nothing_due(SAMPLE_ORDER, f"{why}; `expect` says that it need not repeat")
    again = {RankEpoch(made.rank, made.epoch) for made in analysis.repeated_steps}
    return conclude(
        SAMPLE_ORDER,
        anomalies=[] if why else list(_order_anomalies(analysis, feeds, again)),
        doubts=[why] if why else unseen_inputs(feeds.silent),
        evidence=feeds.compared,
        summary=f"{plural(feeds.compared, 'step')} were given the baseline's inputs, in its order"
        f"{of_another_size(analysis)}",
        measures={"inputs_compared": feeds.compared, "control_inputs": feeds.control.compared},
    )


def unrepeatable(feeds: InputComparison) -> str | None:
    """Return why other inputs are no defect of the job; None if they are, or there are none."""
    if feeds.control.differing:
        return "the inputs differ from the baseline's before any fault: they do not repeat here"
    if feeds.apart and not feeds.control.compared:
        return "inputs differ, and none was recorded before the fault to show whether they repeat"
    return None


def _order_anomalies(
    analysis: RunAnalysis, feeds: InputComparison, again: set[RankEpoch]
) -> Iterator[Anomaly]:
    told = SampleLedger(analysis, feeds)
    first = divergence(analysis)
    until = (-1, 0.0) if first is None else first.place
    for epoch, every in feeds.apart_by_epoch.items():
        parted = [apart for apart in every if (apart.rank, epoch) not in again]
        if not parted:
            continue
        suspects = _suspects(analysis, parted)
        words = (
            _order_words(analysis, feeds, epoch, parted, suspects)
            if feeds.has_epochs
            else _elsewhere_words(analysis, feeds, parted)
        )
        start = min(apart.first.step for apart in parted)
        if words is None and (epoch, start) <= until and told.of(epoch).open is not None:
            words = (
                f"from step {start} of epoch {epoch} on, samples are given that the baseline "
                f"never saw{_why_other_samples(analysis, parted)}"
            )
        if words is not None:
            _, colon, why = words.partition(": ")
            yield Anomaly(
                message=f"{words} ({ranks([apart.rank for apart in parted])})"
                f"{told.describe_trained_again(epoch)}",
                events=tuple(apart.first.number for apart in parted),
                parts=("inputs", *suspects),
                severity=_order_severity(analysis, feeds, epoch, parted),
                guess=colon + why,
            )


def _why_other_samples(analysis: RunAnalysis, parted: Sequence[InputsApart]) -> str:
    """Return the likely reason; none where the place and the shared generators came back."""
    resumes = {(apart.first.attempt, apart.rank) for apart in parted}
    moved = {attempt for attempt, _ in resumes} & {*analysis.input_offsets, *analysis.began_anew}
    drawn = [r for r in analysis.components if is_rng(r.component)]
    drawn = [r for r in drawn if (r.attempt, r.rank) in resumes]
    is_seen = {(r.attempt, r.rank) for r in drawn} == resumes
    if is_seen and not moved and all(row.standing == "restored" for row in drawn):
        return ", although the shared generators came back"
    return (
        ": the place in the data, or the generator that draws or augments them, did not come back"
    )


def _order_severity(
    analysis: RunAnalysis, feeds: InputComparison, epoch: int, parted: Sequence[InputsApart]
) -> Severity:
    """Return the severity: not reproducible if only the order differs, or what was drawn.

    New samples count as drawn by generators only where one of these did not come back, at the head
    of the epoch, and the number of samples is the same; or where the
    baseline is within its first pass, and known and new samples are mixed within batches, as by
    another draw of the same data, and not by a place further on in it.
    """
    ours, due = feeds.ours.samples(epoch), feeds.theirs.samples(epoch)
    same_size = ours is not None and due is not None and ours.total() == due.total()
    if ours is not None and ours == due:
        return "not reproducible"
    if same_size and (_may_resample(analysis) or all(map(feeds.is_drawn_again, parted))):
        return "not reproducible"
    blame = {restart.attempt.index: blamed(analysis, restart) for restart in analysis.restarts}
    heads = {
        r.attempt.index
        for r in analysis.restarts
        if r.attempt.place is not None and r.attempt.place.step == 0
    }
    is_drawn = all(
        apart.first.attempt in heads
        and feeds.drawn_anew(apart)
        and any(is_rng(row.component) for row in blame[apart.first.attempt].rows)
        for apart in parted
    )
    return "not reproducible" if is_drawn and same_size else "wrong result"


def _elsewhere_words(
    analysis: RunAnalysis, feeds: InputComparison, parted: Sequence[InputsApart]
) -> str | None:
    """Return in words the other place of these inputs, for a job without epochs."""
    first = min(parted, key=lambda apart: apart.first.step)
    rest = [step for step in first.steps if step.step >= first.first.step]
    at = None if analysis.input_offsets else feeds.found_at(rest)
    by = 0 if at is None else at - feeds.due_at(rest[0])
    if not by:
        return None  # `cursor` and `epochs` judge surplus and missing steps
    return (
        f"from step {rest[0].step} of epoch {first.epoch} on, the inputs are those that the "
        f"baseline has {plural(abs(by), 'step')} {'before' if by < 0 else 'after'} that place: "
        "what draws or orders them did not come back"
    )


def _suspects(analysis: RunAnalysis, parted: Sequence[InputsApart]) -> list[str]:
    """Return the generators that may have drawn these inputs anew."""
    attempts = {apart.first.attempt for apart in parted}
    rows = [
        row
        for restart in analysis.restarts
        if restart.attempt.index in attempts
        for row in blamed(analysis, restart).suspects
    ]
    return sorted({row.component for row in rows})


def _order_words(
    analysis: RunAnalysis,
    feeds: InputComparison,
    epoch: int,
    parted: Sequence[InputsApart],
    suspects: Sequence[str],
) -> str | None:
    other = _common(feeds.other_epoch(apart.steps) for apart in parted)
    if other is not None and other != epoch:
        # A resume that began at its place brought the place back.
        began = all(_began_in_order(analysis, feeds, apart.first.attempt) for apart in parted)
        if not began and any(map(feeds.is_replay, parted)):
            drawn = f" (or a generator that draws it: {', '.join(suspects)})" if suspects else ""
            return (
                f"epoch {epoch} was given the samples of epoch {other} instead of its own: the "
                f"place in the data{drawn} did not come back"
            )
        why = _why_another_order(analysis, feeds, parted)
        return f"epoch {epoch} was trained in the order of epoch {other}: {why}"
    found = [feeds.found_as(apart.steps) for apart in parted]
    if other is None and all(step is not None and step.epoch != epoch for step in found):
        return _elsewhere_words(analysis, feeds, parted)
    return _stretch_words(analysis, feeds, epoch, parted) or _samples_words(feeds, epoch, parted)


def _stretch_words(
    analysis: RunAnalysis, feeds: InputComparison, epoch: int, parted: Sequence[InputsApart]
) -> str | None:
    """Return in words that some steps of an epoch were trained in the order of another one."""
    stretch = _common((apart.first.step, apart.last.step) for apart in parted)
    other = _common(feeds.other_epoch(apart.stretch) for apart in parted)
    if stretch is None or stretch[0] == stretch[1] or other in (None, epoch):
        return None
    why = _why_another_order(analysis, feeds, parted)
    return (
        f"steps {stretch[0]} to {stretch[1]} of epoch {epoch} were trained in the order of "
        f"epoch {other}: {why}"
    )


def _samples_words(feeds: InputComparison, epoch: int, parted: Sequence[InputsApart]) -> str | None:
    """Return in words that an epoch's samples came in another order, or are not known."""
    ours, due = feeds.ours.samples(epoch), feeds.theirs.samples(epoch)
    first = min(apart.first.step for apart in parted)
    if ours is None or due is None:
        return f"from step {first} of epoch {epoch} on, the inputs are not the baseline's"
    if ours == due:
        return f"epoch {epoch} was given the baseline's samples in another order, from step {first}"
    if feeds.is_with_replacement and feeds.known.issuperset(ours):
        return (
            f"from step {first} of epoch {epoch} on, other samples are drawn than in the baseline, "
            "where samples repeat before all have come"
        )
    return None


def _common(values: Iterable[T]) -> T | None:
    """Return the value that all have; None without one."""
    found = set(values)
    return next(iter(found)) if len(found) == 1 else None


def _why_another_order(
    analysis: RunAnalysis, feeds: InputComparison, parted: Sequence[InputsApart]
) -> str:
    if all(_began_in_order(analysis, feeds, apart.first.attempt) for apart in parted):
        return (
            "the resume began in the right order, and the loader of later epochs did not count it"
        )
    return "the sampler counts epochs from the resume, or the generator that shuffles began anew"


def _began_in_order(analysis: RunAnalysis, feeds: InputComparison, attempt: int) -> bool:
    """Return whether all ranks of an attempt were given the baseline's inputs when it began."""
    starts = (a.place for a in analysis.run.attempts if a.index == attempt)
    epoch, step = next(starts) or (0, 0)
    apart = [(a.epoch, a.first.step) for a in feeds.apart if a.first.attempt == attempt]
    return min(apart) > (epoch, step + 1)


# -- samples ---------------------------------------------------------------------------------------


SAMPLES = "samples"


@own_check(SAMPLES, asks="Was every sample of every epoch trained, and once?")
def check_samples(analysis: RunAnalysis) -> CheckResult:
    """Require each finished epoch's samples to be the baseline's, as a multiset over all ranks.

    The promise of sample accounting: a cursor that counts from the last resume
    (KempnerInstitute/KempnerForge#57), batches that stay skipped (huggingface/accelerate#1451),
    prefetched samples counted as trained (huggingface/accelerate#3938). `expect.sampling:
    at_least_once` allows as many repeated samples as the discarded steps had. An order that is not
    seeded does not matter here, if whole epochs before the fault had the baseline's samples all the
    same. Samples that the baseline never saw are augmented anew, and cannot be identified. An epoch
    trained by another number of workers has the same samples, if each of the baseline's is one pass
    over its data. Samples that were not seen are not counted; the check is inconclusive where they
    are all that a resumed attempt finished. Where some step of every epoch has no inputs in the
    baseline either (a generator's, that is trained through a critic), none is due.
    """
    feeds = watched_feeds(SAMPLES, analysis)
    if isinstance(feeds, CheckResult):
        return feeds
    finished = list(_finished_epochs(analysis, feeds))
    why = None if _repeat_as_a_whole(analysis, feeds, finished) else unrepeatable(feeds)
    if why is not None and not analysis.plan.expect.is_exact:
        return nothing_due(SAMPLES, f"{why}; `expect` says that it need not repeat")
    if not finished and (analysis.error_was_expected or not analysis.run.lineage.commits):
        return nothing_due(SAMPLES, "no epoch was finished")
    told = SampleLedger(analysis, feeds)
    accounts = [told.of(epoch) for epoch in finished]
    anomalies = [] if why else [each.anomaly for each in accounts if each.anomaly]
    if not anomalies and any(e.open == NOT_REPEATED for e in accounts) and not why:
        anomalies += filter(None, [told.in_all()])
    if anomalies and feeds.is_with_replacement:
        return nothing_due(
            SAMPLES,
            "in the baseline samples repeat before all have come, so that none is due once: "
            "`sample-order` compares them",
        )
    again = frozenset() if why else _drawn_again(analysis, feeds)
    judged = [each for each in accounts if each.open is None]
    owed = [each for each in accounts if each.open != NOT_KNOWN or each.epoch not in again]
    doubts = [why] if why else list(_samples_doubts(analysis, owed))
    is_open = all(each.is_resized or not each.is_due or each not in owed for each in accounts)
    if accounts and not judged and not doubts and not anomalies and is_open:
        return nothing_due(SAMPLES, "; ".join(_left_open(accounts)))
    return conclude(
        SAMPLES,
        anomalies=anomalies,
        doubts=doubts,
        evidence=len(judged),
        summary="; ".join(
            [_samples_summary(judged, is_lax=_is_lax(analysis)), *_left_open(accounts)]
        ),
    )


def _drawn_again(analysis: RunAnalysis, feeds: InputComparison) -> frozenset[int]:
    """Return the epochs of which `sample-order` tells that their samples were drawn again."""
    return frozenset(
        epoch
        for epoch, parted in feeds.apart_by_epoch.items()
        if _order_severity(analysis, feeds, epoch, parted) == "not reproducible"
    )


def _samples_summary(judged: Sequence[EpochSamples], *, is_lax: bool) -> str:
    elsewhere = sum(each.is_resized for each in judged)
    often = "each at least as often" if is_lax else "each as often"
    told = f"{plural(len(judged), 'epoch')} with the baseline's samples, {often}"
    if not elsewhere:
        return told
    return f"{told}, in {elsewhere} of them but for what fills up or drops the last batch"


def _left_open(accounts: Sequence[EpochSamples]) -> Iterator[str]:
    """Yield the epochs that are not counted, those for one reason together."""
    reasons: dict[str, list[int]] = {}
    for each in accounts:
        if each.open is not None:
            reasons.setdefault(each.open, []).append(each.epoch)
    for why, epochs in reasons.items():
        one = f"epoch {epochs[0]} is" if len(epochs) == 1 else f"{len(epochs)} epochs are"
        yield f"{one} not judged: {why}"


def _samples_doubts(analysis: RunAnalysis, accounts: Sequence[EpochSamples]) -> Iterator[str]:
    """Yield doubts about attempts of which no finished epoch could be judged."""
    yield from _left_open([each for each in accounts if each.is_doubt])
    for index in sorted({index for each in accounts for index in each.attempts if index > 0}):
        mine = [each for each in accounts if index in each.attempts]
        owed = [each for each in mine if each.is_due and not each.is_resized]
        # Where numbers need not repeat, samples that are augmented need not either.
        owed = [e for e in owed if analysis.plan.expect.is_exact or e.open != NOT_KNOWN]
        if owed and all(each.open is not None for each in mine):
            yield f"of attempt {index}, {'; '.join(_left_open(owed))}"


def _may_resample(analysis: RunAnalysis) -> bool:
    return analysis.plan.expect.sampling == "resampled"


def _is_lax(analysis: RunAnalysis) -> bool:
    return analysis.plan.expect.sampling == "at_least_once"


def _finished_epochs(analysis: RunAnalysis, feeds: InputComparison) -> Iterator[int]:
    ended = {commit.epoch for commit in feeds.ours.commits}
    ended &= {commit.epoch for commit in feeds.theirs.commits}
    if analysis.run.ending.is_finished:
        ended |= {epoch for _, epoch in feeds.ours.steps} & {e for _, e in feeds.theirs.steps}
    yield from sorted(ended & {epoch for _, epoch in feeds.theirs.steps})


def _repeat_as_a_whole(analysis: RunAnalysis, feeds: InputComparison, finished: list[int]) -> bool:
    """Return whether whole epochs before the fault had the baseline's samples in any order."""
    before = {c.epoch for c in feeds.ours.commits if c.number < analysis.began}
    pairs = [
        (feeds.ours.samples(epoch), feeds.theirs.samples(epoch))
        for epoch in finished
        if epoch in before and feeds.control.differing
    ]
    return bool(pairs) and all(ours is not None and ours == due for ours, due in pairs)
