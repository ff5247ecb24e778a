"""Was every epoch trained in the baseline's order?"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from chaos.check.feeds import Apart, Feeds
from chaos.check.repeats import repeats
from chaos.check.result import (
    conclude,
    nothing_due,
    of_another_size,
    plural,
    ranks,
    unseen_inputs,
    watched_feeds,
)
from chaos.check.trial import Trial
from chaos.model.verdict import Anomaly, CheckResult

NAME = "sample-order"


def check(trial: Trial) -> CheckResult:
    """Require that each rank is given the baseline's inputs, step for step.

    The promise of the epoch's order. An epoch in the order of another one is
    a sampler that counts epochs from the resume, or a generator that began
    anew (huggingface/transformers PR #8878); the same samples in a new order
    are a permutation drawn again (wyim-pgl/transgenic#59). Other samples are
    `samples`' to judge. Inputs that differ before any fault do not repeat
    here, and other numbers of ranks share an epoch out differently: there
    orders are not compared. Unknown where nothing was seen of what a resumed
    attempt was given, though the baseline's inputs were.
    """
    feeds = watched_feeds(NAME, trial)
    if isinstance(feeds, CheckResult):
        return feeds
    if feeds.ours.ranks != feeds.theirs.ranks:
        return nothing_due(NAME, "other ranks than in the baseline; orders are not compared")
    if not trial.aligned and trial.resized:
        return nothing_due(NAME, "every step that survived was made with another number of workers")
    why = unrepeatable(feeds)
    if why is not None and not trial.plan.expect.is_exact:
        return nothing_due(NAME, f"{why}; `expect` says that it need not repeat")
    again = {(made.rank, made.epoch) for made in repeats(trial)}
    return conclude(
        NAME,
        anomalies=[] if why else list(_anomalies(feeds, again)),
        doubts=[why] if why else unseen_inputs(feeds.silent),
        evidence=feeds.compared,
        summary=f"{plural(feeds.compared, 'step')} were given the baseline's inputs, in its order"
        f"{of_another_size(trial)}",
        measures={"inputs_compared": feeds.compared, "control_inputs": feeds.control.compared},
    )


def unrepeatable(feeds: Feeds) -> str | None:
    """Say why inputs cannot be held against the job, None if they can or need not be."""
    if feeds.control.differing:
        return "the inputs differ from the baseline's before any fault: nothing seeds their order"
    if feeds.apart and not feeds.control.compared:
        return "inputs differ, and none was recorded before the fault to show whether they repeat"
    return None


def _anomalies(feeds: Feeds, again: set[tuple[int, int]]) -> Iterator[Anomaly]:
    by_epoch: defaultdict[int, list[Apart]] = defaultdict(list)
    for apart in feeds.apart:
        if (apart.rank, apart.epoch) in again:
            continue
        by_epoch[apart.epoch].append(apart)
    for epoch, parted in by_epoch.items():
        words = _words(feeds, epoch, parted)
        if words is not None:
            who = ranks([apart.rank for apart in parted])
            yield Anomaly(
                message=f"{words} ({who})", events=tuple(apart.first.number for apart in parted)
            )


def _words(feeds: Feeds, epoch: int, parted: Sequence[Apart]) -> str | None:
    others = {feeds.other_epoch(apart) for apart in parted}
    other = next(iter(others)) if len(others) == 1 else None
    if other is not None and other != epoch:
        return (
            f"epoch {epoch} was trained in the order of epoch {other}: the sampler counts epochs "
            "from the resume, or the generator that shuffles began anew"
        )
    ours, due = feeds.samples(feeds.ours, epoch), feeds.samples(feeds.theirs, epoch)
    first = min(apart.first.step for apart in parted)
    if ours is None or due is None:
        return f"from step {first} of epoch {epoch} on, the inputs are not the baseline's"
    if ours == due:
        return f"epoch {epoch} was given the baseline's samples in another order, from step {first}"
    return None
