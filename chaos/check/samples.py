"""Was every sample of every epoch trained, and once?"""

from collections.abc import Iterator

from chaos.check.feeds import Feeds
from chaos.check.result import conclude, nothing_due, plural, watched_feeds
from chaos.check.sample_order import unrepeatable
from chaos.check.trial import Trial
from chaos.model.verdict import Anomaly, CheckResult

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
    anew: which ones they are cannot be told.
    """
    feeds = watched_feeds(NAME, trial)
    if isinstance(feeds, CheckResult):
        return feeds
    finished = list(_finished(trial, feeds))
    why = None if _repeat_as_a_whole(trial, feeds, finished) else unrepeatable(feeds)
    if why is not None and not trial.plan.expect.is_exact:
        return nothing_due(NAME, f"{why}; `expect` says that it need not repeat")
    anomalies = [] if why else [a for e in finished for a in _anomalies(trial, feeds, e)]
    if not finished and (trial.error_was_expected or not trial.run.lineage.commits):
        return nothing_due(NAME, "no epoch was finished")
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=[why] if why else [],
        evidence=len(finished),
        summary=f"{plural(len(finished), 'epoch')} with the baseline's samples, "
        + ("each at least as often" if _is_lax(trial) else "each as often"),
    )


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


def _anomalies(trial: Trial, feeds: Feeds, epoch: int) -> Iterator[Anomaly]:
    # Equal inputs that are only fewer or more are steps too few or too many: see `epochs`.
    if epoch not in {apart.epoch for apart in feeds.apart}:
        return
    ours, due = feeds.samples(feeds.ours, epoch), feeds.samples(feeds.theirs, epoch)
    if ours is None or due is None or ours == due or not feeds.known.issuperset(ours):
        return
    missing, repeated = due - ours, ours - due
    if _is_lax(trial):
        lost = sum(steps for r in trial.restarts for steps in r.lost_steps.values())
        if not missing and repeated.total() <= lost * feeds.batch:
            return
    steps = [feeds.ours.steps.get((rank, epoch), ()) for rank in feeds.ours.ranks]
    yield Anomaly(
        message=f"epoch {epoch}: of {plural(due.total(), 'sample')}, {missing.total()} were never "
        f"trained, and {repeated.total()} once too often",
        events=tuple(of[0].number for of in steps if of),
    )
