"""Was every sample of every epoch trained, and once?"""

from collections.abc import Iterator, Sequence

from chaos.check.account import NOT_KNOWN, Account, Accounts
from chaos.check.feeds import Feeds
from chaos.check.result import conclude, nothing_due, plural, watched_feeds
from chaos.check.sample_order import unrepeatable
from chaos.check.trial import Trial
from chaos.model.verdict import CheckResult

NAME = "samples"


def check(trial: Trial) -> CheckResult:
    """Require each finished epoch's samples to be the baseline's, as a multiset over all ranks.

    The promise of sample accounting: a cursor that counts from the last
    resume (KempnerInstitute/KempnerForge#57), batches that stay skipped
    (huggingface/accelerate#1451), prefetched samples counted as trained
    (huggingface/accelerate#3938). `expect.sampling: at_least_once` allows as
    many a second time as the thrown-away steps had. An order that is not seeded is
    no matter here, if whole epochs before the fault had the baseline's
    samples all the same. Samples that the baseline never saw are augmented
    anew: which ones they are cannot be told. An epoch that other workers
    trained has the same samples, where each of the baseline's is one pass over
    its data. What was not seen is not counted, and unknown where it is all
    that a resumed attempt finished. Where some step of every epoch has no inputs in
    the baseline either (a generator's, that is trained through a critic), none is due.
    """
    feeds = watched_feeds(NAME, trial)
    if isinstance(feeds, CheckResult):
        return feeds
    finished = list(_finished(trial, feeds))
    why = None if _repeat_as_a_whole(trial, feeds, finished) else unrepeatable(feeds)
    if why is not None and not trial.plan.expect.is_exact:
        return nothing_due(NAME, f"{why}; `expect` says that it need not repeat")
    if not finished and (trial.error_was_expected or not trial.run.lineage.commits):
        return nothing_due(NAME, "no epoch was finished")
    told = Accounts(trial, feeds)
    accounts = [told.of(epoch) for epoch in finished]
    judged = [each for each in accounts if each.open is None]
    doubts = [why] if why else list(_doubts(trial, accounts))
    is_open = all(each.is_resized or not each.is_due for each in accounts)
    if accounts and not judged and not doubts and is_open:
        return nothing_due(NAME, "; ".join(_left_open(accounts)))
    return conclude(
        NAME,
        anomalies=[] if why else [each.anomaly for each in judged if each.anomaly],
        doubts=doubts,
        evidence=len(judged),
        summary="; ".join([_summary(judged, is_lax=_is_lax(trial)), *_left_open(accounts)]),
    )


def _summary(judged: Sequence[Account], *, is_lax: bool) -> str:
    elsewhere = sum(each.is_resized for each in judged)
    often = "each at least as often" if is_lax else "each as often"
    told = f"{plural(len(judged), 'epoch')} with the baseline's samples, {often}"
    if not elsewhere:
        return told
    return f"{told}, in {elsewhere} of them but for what fills up or drops the last batch"


def _left_open(accounts: Sequence[Account]) -> Iterator[str]:
    """Say which epochs are not counted, those for one reason together."""
    reasons: dict[str, list[int]] = {}
    for each in accounts:
        if each.open is not None:
            reasons.setdefault(each.open, []).append(each.epoch)
    for why, epochs in reasons.items():
        one = f"epoch {epochs[0]} is" if len(epochs) == 1 else f"{len(epochs)} epochs are"
        yield f"{one} not judged: {why}"


def _doubts(trial: Trial, accounts: Sequence[Account]) -> Iterator[str]:
    """Give what leaves more open than an epoch: all that a resumed attempt finished, or a loss."""
    yield from _left_open([each for each in accounts if each.is_doubt])
    for index in sorted({index for each in accounts for index in each.attempts if index > 0}):
        mine = [each for each in accounts if index in each.attempts]
        owed = [each for each in mine if each.is_due and not each.is_resized]
        # Where numbers need not repeat, samples that are augmented need not either.
        owed = [e for e in owed if trial.plan.expect.is_exact or e.open != NOT_KNOWN]
        if owed and all(each.open is not None for each in mine):
            yield f"of attempt {index}, {'; '.join(_left_open(owed))}"


def _is_lax(trial: Trial) -> bool:
    return trial.plan.expect.sampling == "at_least_once"


def _finished(trial: Trial, feeds: Feeds) -> Iterator[int]:
    ended = {commit.epoch for commit in feeds.ours.commits}
    ended &= {commit.epoch for commit in feeds.theirs.commits}
    if trial.run.ending.is_finished:
        ended |= {epoch for _, epoch in feeds.ours.steps} & {e for _, e in feeds.theirs.steps}
    yield from sorted(ended & {epoch for _, epoch in feeds.theirs.steps})


def _repeat_as_a_whole(trial: Trial, feeds: Feeds, finished: list[int]) -> bool:
    """Say whether whole epochs before the fault had the baseline's samples in any order."""
    before = {c.epoch for c in feeds.ours.commits if c.number < trial.began}
    pairs = [
        (feeds.samples(feeds.ours, epoch), feeds.samples(feeds.theirs, epoch))
        for epoch in finished
        if epoch in before and feeds.control.differing
    ]
    return bool(pairs) and all(ours is not None and ours == due for ours, due in pairs)
