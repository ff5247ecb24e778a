"""The parts of the state at each resume, as a table, and the defect in one sentence."""

from collections.abc import Iterator, Sequence

from chaos.check.analysis import RunAnalysis
from chaos.check.artifacts import ARTIFACTS
from chaos.check.batch import BATCH
from chaos.check.blame import blamed
from chaos.check.divergence import difference, divergence
from chaos.check.epochs import CURSOR, EPOCHS
from chaos.check.fix_hints import value
from chaos.check.inputs import InputComparison
from chaos.check.metrics import METRICS, SELECTION
from chaos.check.restarts import Restart
from chaos.check.resume import AGREEMENT, COMMITTED_ONLY, RESUME_POINT, START_DECISION
from chaos.check.samples import SAMPLE_ORDER, SAMPLES
from chaos.check.state import RANK_RANDOMNESS, REPLICAS, STATE, rows_without_consequence
from chaos.check.state_at_resume import Row
from chaos.check.state_snapshots import is_rng
from chaos.check.trajectory import TRAJECTORY
from chaos.model.diagnosis import Part, Resume, Standing
from chaos.model.events.state import GROUPS, group_of
from chaos.model.verdict import Anomaly, CheckResult
from chaos.words import plural

NAMED_MAX = 3
# The checks whose first anomaly names a cause in the state that came back, or did not.
CAUSES = (
    START_DECISION,
    COMMITTED_ONLY,
    AGREEMENT,
    RESUME_POINT,
    CURSOR,
    STATE,
    RANK_RANDOMNESS,
    REPLICAS,
    SELECTION,
    BATCH,
    SAMPLE_ORDER,
    SAMPLES,
)

# The checks that name what came out otherwise, and not the state that is the reason.
EFFECTS = (
    CURSOR,
    SELECTION,
    BATCH,
    SAMPLE_ORDER,
    SAMPLES,
    EPOCHS,
    METRICS,
    ARTIFACTS,
    TRAJECTORY,
)


def diagnosis(analysis: RunAnalysis, results: Sequence[CheckResult]) -> tuple[Resume, ...]:
    """Return one row per restart that started, with the parts of the state as it entered."""
    return tuple(
        _resume(analysis, restart, results)
        for restart in analysis.restarts
        if restart.attempt.starts
    )


def cause(analysis: RunAnalysis, results: Sequence[CheckResult]) -> str | None:
    """Return the defect of a resume and the first number that differs; None if none is known."""
    broken = next((r for r in results if r.status == "fail"), None)
    if broken is None or broken.check not in CAUSES:
        return None
    first, *others = broken.anomalies
    return first.message + _consequence(analysis, broken) + _besides(first, others)


def _besides(first: Anomaly, others: Sequence[Anomaly]) -> str:
    """Return in words the further causes that one check found, by part."""
    heads = dict.fromkeys(other.parts[0] for other in others if other.parts)
    named = [part for part in heads if part not in first.parts]
    if not named:
        return ""
    more = f" and {len(named) - NAMED_MAX} more" if len(named) > NAMED_MAX else ""
    return f"; besides, {', '.join(named[:NAMED_MAX])}{more} did not come back"


def _resume(analysis: RunAnalysis, restart: Restart, results: Sequence[CheckResult]) -> Resume:
    attempt = restart.attempt
    epoch, step = attempt.place or (0, 0)
    parts = sorted(
        _parts(analysis, restart), key=lambda p: (GROUPS.index(p.group), p.component, p.rank)
    )
    broken = _first_broken(restart, results)
    return Resume(
        attempt=attempt.index,
        epoch=epoch,
        step=step,
        checkpoint=next(iter(restart.checkpoints.values()), None),
        sound=broken is None,
        sentence=_sound(parts) if broken is None else _unsound(analysis, restart, broken),
        parts=tuple(parts),
        events=tuple(start.number for start in attempt.starts.values()),
        grounds=attempt.grounds,
    )


def _first_broken(
    restart: Restart, results: Sequence[CheckResult]
) -> tuple[CheckResult, list[Anomaly]] | None:
    """Return the most specific check with anomalies of this attempt, or of work after it."""
    since = min(start.number for start in restart.attempt.starts.values())
    until = restart.attempt.steps[-1].number if restart.attempt.steps else since
    for result in results:
        if result.check in CAUSES and result.status == "fail":
            shown = [a for a in result.anomalies if any(since <= n <= until for n in a.events)]
            if shown:
                return result, shown
    return None


def _unsound(
    analysis: RunAnalysis, restart: Restart, broken: tuple[CheckResult, Sequence[Anomaly]]
) -> str:
    """Return the defect of one resume, with generators that may not matter."""
    result, (first, *others) = broken
    named = {name for anomaly in (first, *others) for name in anomaly.parts}
    rows = blamed(analysis, restart).without_consequence
    quiet = {row.component for row in rows if is_rng(row.component)} - named
    also = f"; {', '.join(sorted(quiet))} did not come back either" if quiet else ""
    return first.message + _consequence(analysis, result) + _besides(first, others) + also


def _consequence(analysis: RunAnalysis, broken: CheckResult) -> str:
    first = divergence(analysis)
    if first is None:
        return ""
    place = f"epoch {first.epoch}" + ("" if first.step is None else f", step {first.step}")
    what = f"`{first.what}`" if first.step is None else first.what
    here = [r for r in analysis.restarts if r.attempt.index == first.attempt]
    # A schedule or a momentum cannot change the loss of the first forward call after a resume. If
    # that differs nevertheless, the sentence must not call the one the reason of the other.
    fits = broken.check != STATE or all(blamed(analysis, r).is_explained for r in here)
    fed = any(blamed(analysis, restart).after.inputs for restart in here)
    why = "since its inputs are others" if fed else "for a reason that was not seen"
    but = "" if fits else f"besides, {why}, "
    return f"; {but}from {place} on the {what} differs: {difference(first)}"


def _sound(parts: Sequence[Part]) -> str:
    compared = [part for part in parts if part.standing != "not compared"]
    if not compared:
        return "nothing of the state could be compared"
    lost = sorted({part.component for part in compared if part.standing != "restored"})
    if lost:
        named = ", ".join(lost)
        return f"all that matters came back; {named} did not, and nothing was seen to depend on it"
    return f"{plural(len({part.component for part in compared}), 'part')} of the state came back"


# -- the parts ------------------------------------------------------------------------------


def _parts(analysis: RunAnalysis, restart: Restart) -> Iterator[Part]:
    quiet = set(rows_without_consequence(analysis))
    mine = [row for row in analysis.components if row.attempt == restart.attempt.index]
    for row in mine:
        if not _is_told_by_others(row, mine):
            yield _part(row, matters=row not in quiet)
    if analysis.inputs is not None and analysis.inputs.are_watched and analysis.inputs.were_watched:
        yield from _order(restart, analysis.inputs)
    yield from _cursor(analysis, restart)


def _is_told_by_others(row: Row, rows: Sequence[Row]) -> bool:
    """Return whether a row is an optimizer's `state`, and its content has rows of its own.

    It records which parameters have which state. Where only that did not come back, no other row
    shows it.
    """
    optimizer, _, name = row.component.rpartition(".")
    if name != "state" or row.group != "optimizer":
        return False
    alike = (r for r in rows if r is not row and (r.rank, r.group) == (row.rank, row.group))
    inside = [other for other in alike if other.component.rpartition(".")[0] == optimizer]
    # It stood beside the kinds of state that say the same, and was counted as one more.
    return any(other.is_broken or not row.is_broken for other in inside)


def _part(row: Row, *, matters: bool) -> Part:
    return Part(
        group=group_of(row.component),
        component=row.component,
        rank=row.rank,
        standing=row.standing,
        matters=matters,
        ours=value(row.ours, row.group),
        baseline=value(row.due, row.group),
    )


def _order(restart: Restart, inputs: InputComparison) -> Iterator[Part]:
    apart = {(a.rank, a.epoch): a for a in inputs.apart}
    for rank, start in sorted(restart.attempt.starts.items()):
        key = (rank, start.epoch)
        if key not in inputs.ours.steps or key not in inputs.theirs.steps or not inputs.repeat:
            standing: Standing = "not compared"
            ours = ""
        elif key not in apart:
            standing, ours = "restored", f"epoch {start.epoch}"
        else:
            other = inputs.other_epoch(apart[key].steps)
            # Inputs of the first epoch come from an order that began anew, others from some other
            # place.
            standing = "reset" if other == 0 else "different"
            ours = "other inputs" if other is None else f"epoch {other}"
        yield Part(
            group="data order",
            component="inputs",
            rank=rank,
            standing=standing,
            ours=ours,
            baseline=f"epoch {start.epoch}",
        )


def _cursor(analysis: RunAnalysis, restart: Restart) -> Iterator[Part]:
    shifted = analysis.input_offsets.get(restart.attempt.index, 0)
    for rank, start in sorted(restart.attempt.starts.items()):
        due = f"epoch {start.epoch}, step {start.step}"
        standing: Standing = "different" if shifted else "restored"
        ours = f"{due} {shifted:+d} steps" if shifted else due
        if restart.attempt.index in analysis.began_anew:
            standing, ours = "reset", "the beginning"
        elif analysis.reference is None or rank not in restart.attempt.first_steps:
            standing, ours = "not compared", ""
        yield Part(
            group="cursor",
            component="cursor",
            rank=rank,
            standing=standing,
            ours=ours,
            baseline=due,
        )
