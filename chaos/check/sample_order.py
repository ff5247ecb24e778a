"""Was every epoch trained in the baseline's order?"""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from chaos.check.account import Accounts
from chaos.check.blame import blamed
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
from chaos.check.shift import shifts
from chaos.check.sightings import is_rng
from chaos.check.trajectory import divergence
from chaos.check.trial import Trial
from chaos.model.severity import Severity
from chaos.model.verdict import Anomaly, CheckResult

NAME = "sample-order"


def check(trial: Trial) -> CheckResult:
    """Require that each rank is given the baseline's inputs, step for step.

    The promise of the epoch's order. An epoch in the order of another one is
    a sampler that counts epochs from the resume, or a generator that began
    anew (huggingface/transformers PR #8878); the same samples in a new order
    are a permutation drawn again (wyim-pgl/transgenic#59). Other samples are
    `samples`' to judge; where it cannot tell which they are, and the loss
    differs from there on, they are the cause and named here. Inputs that
    differ before any fault do not repeat here, and other numbers of ranks
    share an epoch out differently: there orders are not compared. Unknown
    where nothing was seen of what a resumed attempt was given, though the
    baseline's inputs were.
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
        anomalies=[] if why else list(_anomalies(trial, feeds, again)),
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


def _anomalies(trial: Trial, feeds: Feeds, again: set[tuple[int, int]]) -> Iterator[Anomaly]:
    told = Accounts(trial, feeds)
    first = divergence(trial)
    until = (-1, 0.0) if first is None else first.place[:2]
    by_epoch: defaultdict[int, list[Apart]] = defaultdict(list)
    for apart in feeds.apart:
        if (apart.rank, apart.epoch) in again:
            continue
        by_epoch[apart.epoch].append(apart)
    for epoch, parted in by_epoch.items():
        words = (
            _words(feeds, epoch, parted) if feeds.has_epochs else _elsewhere(trial, feeds, parted)
        )
        start = min(apart.first.step for apart in parted)
        if words is None and (epoch, start) <= until and told.of(epoch).open is not None:
            words = (
                f"from step {start} of epoch {epoch} on, samples are given that the baseline "
                "never saw: the place in the data, or the generator that draws or augments them, "
                "did not come back"
            )
        if words is not None:
            yield Anomaly(
                message=f"{words} ({ranks([apart.rank for apart in parted])})",
                events=tuple(apart.first.number for apart in parted),
                parts=("inputs",),
                severity=_severity(trial, feeds, epoch, parted),
            )


def _severity(trial: Trial, feeds: Feeds, epoch: int, parted: Sequence[Apart]) -> Severity:
    """Say whether only the order is another, or what generators draw: each sample comes once.

    That generators drew all that is new is taken for granted only where one of
    theirs did not come back, at the head of the epoch, and as much was given.
    """
    ours, due = feeds.samples(feeds.ours, epoch), feeds.samples(feeds.theirs, epoch)
    if ours is not None and ours == due:
        return "not reproducible"
    blame = {restart.attempt.index: blamed(trial, restart) for restart in trial.restarts}
    heads = {r.attempt.index for r in trial.restarts if (r.attempt.place or (0, 1))[1] == 0}
    is_drawn = all(
        apart.first.attempt in heads
        and feeds.drawn_anew(apart)
        and any(is_rng(row.component) for row in blame[apart.first.attempt].rows)
        for apart in parted
    )
    same_size = ours is not None and due is not None and ours.total() == due.total()
    return "not reproducible" if is_drawn and same_size else "wrong result"


def _elsewhere(trial: Trial, feeds: Feeds, parted: Sequence[Apart]) -> str | None:
    """Say whose inputs these are where a job has no epochs: those of another place."""
    first = min(parted, key=lambda apart: apart.first.step)
    rest = [step for step in first.steps if step.step >= first.first.step]
    at = None if shifts(trial) else feeds.found_at(rest)
    by = 0 if at is None else at - feeds.due_at(rest[0])
    if not by:
        return None  # steps too many or too few are told elsewhere
    return (
        f"from step {rest[0].step} of epoch {first.epoch} on, the inputs are those that the "
        f"baseline has {plural(abs(by), 'step')} {'before' if by < 0 else 'after'} that place: "
        "what draws or orders them did not come back"
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
