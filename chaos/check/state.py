"""Checks of the job's state at a resume: each part came back, and ranks stay what they were."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from chaos.check.analysis import RunAnalysis
from chaos.check.blame import blamed, random_rows
from chaos.check.fix_hints import remedy, sentence
from chaos.check.result import blind, conclude, nothing_due, own_check, without_restart
from chaos.check.state_at_resume import Row
from chaos.check.state_snapshots import holds_nothing, is_rng, parts_of, place_of
from chaos.model.event import StateSeen
from chaos.model.events.state import group_of
from chaos.model.places import AttemptRank, RankEpoch
from chaos.model.verdict import Anomaly, CheckResult
from chaos.words import plural, ranks

# -- state -----------------------------------------------------------------------------------------


STATE = "state"


@own_check(STATE, asks="Did every part of the job's state come back at each resume?")
def check_state(analysis: RunAnalysis) -> CheckResult:
    """Require that a rank enters a resumed attempt with the baseline's state at that place.

    The promise of the state's round trip, part by part: model, optimizer (its momentum is forgotten
    most often: mozilla/DeepSpeech#3620), settings, schedule (PolymathicAI/the_well PR #63), scaler
    (huggingface/transformers PR #11663), averaged models (lightly-ai/lightly-train PR #892),
    generators and what the job declares. Each cause is an anomaly. Causes that can have changed the
    first number that differs come first (see `blame`). A part that differs from the baseline before
    any fault is compared with the run's own at the commit, or not at all; so is, within a
    tolerance, a part that the run itself had saved. A part without which the model is the
    baseline's all the same, to the last bit, is noted and not broken. A generator is broken only
    where numbers depend on it: nothing else explains that they differ (huggingface/transformers PR
    #11582). A difference in a run that had left its baseline before the resume is a consequence.
    """
    if not analysis.restarts:
        return without_restart(STATE, analysis)
    unseen = _unseen(STATE, analysis, "state")
    if unseen is not None:
        return unseen
    if analysis.why_no_step_was_due is not None:
        return nothing_due(STATE, analysis.why_no_step_was_due)
    compared = [row for row in analysis.components if row.standing != "not compared"]
    # Where the baseline's state was not looked at, equal losses to the last bit do instead: from
    # another state no loss would be. In each resumed attempt some, or an attempt without any would
    # be green by the others.
    if not compared and _losses_show_it(analysis) and not [*_unlooked_at(analysis)]:
        return nothing_due(
            STATE, "no part of the state could be compared there, and every loss is the same"
        )
    guilty = {row.component for row in broken_rows(analysis)}
    quiet = sorted({row.component for row in rows_without_consequence(analysis)} - guilty)
    note = f"; {', '.join(quiet)} did not come back, and nothing was seen to depend on it"
    return conclude(
        STATE,
        anomalies=list(_state_anomalies(analysis)),
        doubts=list(_state_doubts(analysis) if compared else _unlooked_at(analysis)),
        evidence=len(compared),
        summary=f"{plural(len({r.component for r in compared}), 'part')} of the state came back "
        f"at {plural(len(analysis.restarts), 'resume')}{note if quiet else ''}",
        measures={
            "components_compared": len(compared),
            "components_broken": len(broken_rows(analysis)),
            "components_without_consequence": ", ".join(quiet) or None,
            "components_not_repeatable": ", ".join(sorted(analysis.unstable)) or None,
        },
    )


def _unseen(
    check: str, analysis: RunAnalysis, what: str, is_one: Callable[[str], bool] = bool
) -> CheckResult | None:
    ours, theirs = (
        tables is not None and any(map(is_one, tables.snapshots.names))
        for tables in (analysis.run, analysis.reference)
    )
    return blind(check, analysis, what, ours=ours, theirs=theirs)


def broken_rows(analysis: RunAnalysis) -> tuple[Row, ...]:
    """Return the rows that are findings, the likely cause of each resume first."""
    return tuple(row for restart in analysis.restarts for row in blamed(analysis, restart).rows)


def rows_without_consequence(analysis: RunAnalysis) -> tuple[Row, ...]:
    """Return the rows that did not come back, and that no observation depends on."""
    blames = (blamed(analysis, restart) for restart in analysis.restarts)
    return tuple(row for blame in blames for row in blame.without_consequence)


def _state_anomalies(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield one anomaly per cause; random streams alone make a result not reproducible."""
    for restart in analysis.restarts:
        blame = blamed(analysis, restart)
        for cause in blame.causes:
            is_random = blame.at_once and all(is_rng(row.component) for row in cause.rows)
            yield Anomaly(
                message=sentence(cause.rows, analysis.terms, remedy(analysis, cause.rows[0])),
                events=tuple(row.number for row in cause.rows),
                parts=tuple(dict.fromkeys(row.component for row in cause.rows)),
                severity="not reproducible" if is_random else "wrong result",
            )


def _state_doubts(analysis: RunAnalysis) -> Iterator[str]:
    rounded = sorted({row.component for row in analysis.components if row.rounded})
    if rounded:
        yield (
            f"{', '.join(rounded)} came back near to what the run had saved, and not the same to "
            "the last bit: saved in fewer bits than it is trained in, or of another moment"
        )
    # A rank that was seen to enter, and whose parts have no counterpart, is no doubt: it was looked
    # at.
    heard = {(row.attempt, row.rank) for row in analysis.components}
    for restart in analysis.restarts:
        attempt = restart.attempt
        unheard = [r for r in attempt.first_steps if (attempt.index, r) not in heard]
        entered = [r for r in unheard if (attempt.index, r) in analysis.run.snapshots.entries]
        if unheard and not entered:
            yield f"how rank {unheard[0]} entered attempt {attempt.index} was not seen"


UNLOOKED_AT = "the baseline's state was not looked at"


def _unlooked_at(analysis: RunAnalysis) -> Iterator[str]:
    """Yield why nothing is compared: a restart goes on where the baseline was not looked at."""
    yield from _state_doubts(analysis)
    assert analysis.reference is not None
    if _losses_show_it(analysis):
        return
    for restart in analysis.restarts:
        attempt = restart.attempt.index
        for rank in sorted(restart.attempt.starts):
            _, seen = analysis.run.snapshots.entries.get(AttemptRank(attempt, rank), (0, None))
            if seen is not None and seen.step:
                yield (
                    f"attempt {attempt} goes on from step {seen.step} of epoch {seen.epoch}, where "
                    f"{UNLOOKED_AT}: `watch: {{entries: steps}}` looks at every step"
                )
                return


def _losses_show_it(analysis: RunAnalysis) -> bool:
    """Return whether every loss is the baseline's to the last bit, in each resumed attempt some.

    From another state no loss is.
    """
    comparison = analysis.comparison
    if comparison is None or not analysis.allowance.is_exact or comparison.losses.first is not None:
        return False
    compared = {
        step.attempt
        for group in analysis.aligned
        for step, due in group.pairs()
        if due is not None and step.losses and due.losses
    }
    trained = {restart.attempt.index for restart in analysis.restarts if restart.attempt.steps}
    return bool(trained) and trained <= compared


# -- rank-randomness -------------------------------------------------------------------------------


RANK_RANDOMNESS = "rank-randomness"


@own_check(RANK_RANDOMNESS, asks="Do ranks still draw random numbers of their own?")
def check_rank_randomness(analysis: RunAnalysis) -> CheckResult:
    """Require that no rank continues with another rank's generator, if they differ in the baseline.

    The promise that ranks' randomness is distinct. A generator that only rank 0 saved, and every
    rank loaded, causes the same dropout on all of them (NVIDIA/Megatron-LM PR #6858). Broken only
    where the numbers differ after the resume: a job that draws nothing from it loses nothing.

    With another number of workers no number shows that. So the check is then inconclusive where
    ranks went on with one generator, and drew from it, that are apart in the baseline: ranks that
    are new were given none, or one of another rank (TensorAuto/OpenTau PR #180).
    """
    if not analysis.restarts:
        return without_restart(RANK_RANDOMNESS, analysis)
    unseen = _unseen(RANK_RANDOMNESS, analysis, "generators", is_one=is_rng)
    if unseen is not None:
        return unseen
    compared = [row for row in analysis.components if is_rng(row.component)]
    doubts = list(_drawn_alike(analysis))
    if analysis.why_no_step_was_due is not None or not compared:
        return nothing_due(
            RANK_RANDOMNESS, analysis.why_no_step_was_due or "no generator could be compared"
        )
    guilty: dict[tuple[int, str, int], list[Row]] = {}
    for restart in analysis.restarts:
        for row in random_rows(analysis, restart):
            if row.copied_from is not None:
                key = (row.attempt, row.component, row.copied_from)
                guilty.setdefault(key, []).append(row)
    anomalies = [
        Anomaly(
            message=f"{ranks([row.rank for row in rows])} went on with {name} of rank {owner} at "
            f"epoch {rows[0].epoch}: every rank must save and load a generator's state of its own",
            events=tuple(row.number for row in rows),
        )
        for (_, name, owner), rows in guilty.items()
    ]
    return conclude(
        RANK_RANDOMNESS,
        anomalies=anomalies,
        doubts=doubts,
        evidence=len(compared),
        summary=f"{plural(len(analysis.restarts), 'resume')}; ranks draw their own random numbers",
    )


def _drawn_alike(analysis: RunAnalysis) -> Iterator[str]:
    """Yield the generators that ranks share since they are another number, and draw from."""
    assert analysis.reference is not None
    run, due = analysis.run.snapshots, analysis.reference.snapshots
    for attempt in sorted(analysis.resized):
        first: dict[tuple[str, str], int] = {}
        for rank in sorted(r for of, r in run.entries if of == attempt):
            _, seen = run.entries[AttemptRank(attempt, rank)]
            after = run.left.get(RankEpoch(rank, seen.epoch))
            left = parts_of(after if after is not None and after.attempt == attempt else None)
            there = place_of(seen)
            for name, part in parts_of(seen).items():
                # A generator that nothing draws from in the attempt may be the same on all ranks.
                if not is_rng(name) or left.get(name, part).digest == part.digest:
                    continue
                other = first.setdefault((name, part.digest), rank)
                ours, theirs = (
                    parts_of(due.by_place.get(there._replace(rank=of))).get(name)
                    for of in (rank, other)
                )
                if ours is not None and theirs is not None and ours.digest != theirs.digest:
                    yield (
                        f"rank {rank} draws the same random numbers from {name} as rank {other} in "
                        f"attempt {attempt}, which has another number of workers, and not in the "
                        "baseline: whether training depends on it was not seen"
                    )


# -- replicas --------------------------------------------------------------------------------------


REPLICAS = "replicas"


_COPIED = frozenset({"model", "buffers", "optimizer", "optimizer settings", "averaged model"})
_Seen: TypeAlias = tuple[int, StateSeen]


class _Meeting(NamedTuple):
    """A place of one attempt, at which all its ranks are seen."""

    attempt: int
    epoch: int
    step: int
    moment: str


@own_check(REPLICAS, asks="Are the copies of the model on all ranks still equal?")
def check_replicas(analysis: RunAnalysis) -> CheckResult:
    """Require equal models and optimizers on all ranks at equal places.

    The promise of replica equality (pytorch/torchtitan PR #4598: a rank joins with a stale learning
    rate, and equal gradients make unequal models). A part that is not equal on all ranks in the
    baseline, such as a shard, or before the fault, is no replica.
    """
    unseen = _unseen(REPLICAS, analysis, "state")
    if unseen is not None:
        return unseen
    assert analysis.reference is not None
    due = analysis.reference.snapshots.all
    # A part that is empty in the baseline, and filled by a load alone, is no replica of anything.
    names = {part.name for _, seen in due for part in seen.components if not holds_nothing(part)}
    copied = {name for name in names if group_of(name) in _COPIED} - set(_unequal_parts(due))
    # A part that ranks hold unequal without any fault (shards, a stage of a pipeline) is no
    # replica, whatever its group.
    before = [(n, seen) for n, seen in analysis.run.snapshots.all if n < analysis.began]
    copied -= set(_unequal_parts(before))
    if len(analysis.reference.lineage.ranks) < 2 or not copied:  # noqa: PLR2004
        return nothing_due(REPLICAS, "no part of the state is held by several ranks alike")
    parted = _unequal_parts(analysis.run.snapshots.all, only=copied)
    anomalies = [
        Anomaly(
            message=f"from {analysis.terms.place(*place[1:])} on, {name} is not the same on all "
            f"ranks (attempt {place[0]}){_carried_words(analysis, place)}",
            events=events,
        )
        for name, (place, events) in sorted(parted.items(), key=lambda item: item[1][1])
    ]
    return conclude(
        REPLICAS,
        anomalies=anomalies[:1],
        evidence=len(analysis.run.snapshots.all),
        summary=f"{plural(len(copied), 'part')} equal on all ranks wherever they were seen",
    )


def _carried_words(analysis: RunAnalysis, place: _Meeting) -> str:
    """Return which checkpoints were committed with unequal copies, as the end of a sentence.

    They are those of the attempt from that place on, and of later attempts that resumed from one.
    """
    index, epoch = place.attempt, place.epoch
    carried: dict[str, int] = {}
    for attempt in analysis.run.attempts[index:]:
        resumed_from = {start.checkpoint for start in attempt.starts.values()}
        if attempt.index != index and resumed_from.isdisjoint(carried):
            continue
        for commit in attempt.commits:
            if commit.checkpoint is not None and (attempt.index > index or commit.epoch >= epoch):
                carried[commit.checkpoint] = commit.epoch
    if not carried:
        return ""
    return f"; committed with it: the checkpoints of {ranks(carried.values(), 'epoch')}"


def _unequal_parts(
    snapshots: Iterable[_Seen], *, only: set[str] | None = None
) -> dict[str, tuple[_Meeting, tuple[int, ...]]]:
    """Return the parts that are unequal on some ranks, with the first such place of each."""
    first: dict[_Meeting, _Seen] = {}
    found: dict[str, tuple[_Meeting, tuple[int, ...]]] = {}
    for number, seen in snapshots:
        place = _Meeting(seen.attempt, seen.epoch, seen.step, seen.moment)
        there = first.setdefault(place, (number, seen))
        if there[1].components == seen.components:
            continue
        due = parts_of(there[1])
        for part in seen.components:
            theirs = due.get(part.name)
            is_empty = holds_nothing(part) and holds_nothing(theirs)
            is_same = theirs is not None and theirs.digest == part.digest
            if not is_empty and not is_same and (only is None or part.name in only):
                found.setdefault(part.name, (place, (there[0], number)))
    return found
