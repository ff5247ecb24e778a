"""The check of the files that a job leaves, entry by entry."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.divergence import divergence_place
from chaos.check.file_contents import EntryPair, WrittenFile, contents_of
from chaos.check.files import outside_storage
from chaos.check.result import conclude, inconclusive, nothing_due, own_check
from chaos.check.values import is_below
from chaos.model.event import FileSaved, FileTouched, SavedPart
from chaos.model.places import FloatPlace
from chaos.model.severity import Severity
from chaos.model.verdict import Anomaly, CheckResult
from chaos.words import plural

ARTIFACTS = "artifacts"


_CHOSEN = re.compile(r"best|top|highest|lowest|champion", re.IGNORECASE)
_CLOCKS = re.compile(
    r"time|elapsed|duration|second|minute|hour|stamp|throughput|per_s|speed|uptime|_m?s$",
    re.IGNORECASE,
)


@own_check(
    ARTIFACTS,
    asks="Is what the job leaves, file by file and entry by entry, what it would have left?",
)
def check_artifacts(analysis: RunAnalysis) -> CheckResult:
    """Require that the files which surviving work wrote hold the baseline's numbers.

    The promise concerns what is shipped. An average that is kept by hand, a best value and exported
    weights are not read before training is over, so no loss and no metric shows them. Each entry of
    each file that was saved with torch, pickle, numpy or safetensors, or written as JSON or CSV, is
    compared with the same file's at the same place. Of a table, and of a file that keeps the best
    and was last written elsewhere, the last version is compared. An entry counts only if it holds
    numbers with a point, moves in the baseline, and is known to repeat itself: in the second clean
    run, or before the fault. Up to its place every loss, metric and input must be the baseline's:
    where they part, files part too. A list that grows from save to save, as a history does, is
    cosmetic. Texts, flags, whole numbers, generators, and what is named after a clock may differ in
    a right job, which may record that it was resumed and count its starts. They are noted only.
    """
    if not analysis.plan.ops:
        return nothing_due(ARTIFACTS, "no fault was planned, so there is nothing to compare")
    if analysis.reference is None:
        return inconclusive(ARTIFACTS, f"{analysis.no_reference} to compare with")
    if not analysis.allowance.is_exact:
        return nothing_due(ARTIFACTS, "what the job saves need not be equal to the last bit")
    return _judged(_Beside.of(analysis, analysis.reference))


def notes(analysis: RunAnalysis) -> tuple[str, ...]:
    """Return notes on the job's files that are no findings, one sentence per file."""
    outside = list(outside_storage(analysis.run.files))
    more = f" and {len(outside) - 1} more" if len(outside) > 1 else ""
    lies = [
        f"a restart went on from {path}{more}, outside the run's storage: on a cluster it "
        "must lie on a disk that all nodes share, for a lost node takes its own along"
        for path in outside[:1]
    ]
    is_due = analysis.plan.ops and analysis.allowance.is_exact and not analysis.is_by_steps
    if analysis.reference is None or not is_due:
        return tuple(lies)
    harmless = [
        p for p in _Beside.of(analysis, analysis.reference).differing if _severity(p) is None
    ]
    differ = (
        f"{_differ(name, pairs)} from the baseline's after the fault, which a right job may do"
        for name, pairs in _by_file(harmless).items()
    )
    return (*lies, *differ)


@dataclass(frozen=True)
class _Beside:
    """The pairs that were compared, and the files that are missing."""

    analysis: RunAnalysis
    pairs: Sequence[EntryPair]
    missing: Sequence[WrittenFile]
    was_seen: bool

    @classmethod
    def of(cls, analysis: RunAnalysis, reference: RunTables) -> "_Beside":
        """Compare what was written up to where the run leaves its baseline."""
        contents, parted = contents_of(analysis), _parted(analysis)
        pairs = [
            pair
            for pair in contents.pairs()
            if pair.mine.number < contents.until and not _explains(parted, pair.mine)
        ]
        missing: list[WrittenFile] = []
        # Of the last version of a file, and of one that is missing, no place says whether it comes
        # before the runs part. So the whole run must be the baseline's.
        if parted is None and contents.until == math.inf and _ran_alike(analysis.run, reference):
            pairs += (
                pair
                for pair in contents.last()
                # A job that opens its table of epochs for writing at every start keeps the lines of
                # its last attempt alone; only the last version shows that. And a file that keeps
                # the best is written where the best was, at no place that a baseline shares.
                if pair.mine.is_table or _CHOSEN.search(pair.mine.name)
            )
            left = ((kept, kept.what.parts) for kept in contents.missing())
            missing += (kept for kept, parts in left if any(p.kind == "numbers" for p in parts))
        was_seen = bool(pairs) or parted is not None or not _lacks_saves(analysis, reference)
        return cls(analysis, pairs, missing, was_seen)

    @property
    def differing(self) -> list[EntryPair]:
        """The pairs that differ, apart from those to be ignored."""
        ignored = self.analysis.plan.expect.ignore_metrics
        return [p for p in self.pairs if p.differ and not is_below(p.ours.name, ignored)]


def _judged(beside: _Beside) -> CheckResult:
    blamed = [pair for pair in beside.differing if _severity(pair) is not None]
    anomalies = [_anomaly(pairs) for pairs in _by_file(blamed).values()]
    anomalies += [
        Anomaly(
            message=f"{kept.name} was never written; the baseline's rank {kept.what.rank} leaves "
            f"one at {_where(kept)}",
            events=(len(beside.analysis.history) - 1,),
        )
        for kept in beside.missing
    ]
    if not beside.was_seen:
        return inconclusive(ARTIFACTS, "nothing was seen of what the job saved")
    if not beside.pairs and not anomalies:
        return nothing_due(ARTIFACTS, "nothing was saved after the fault that can be compared")
    others = len(beside.differing) - len(blamed)
    but = f"; {plural(others, 'entry', 'entries')} differ as a right job's may" if others else ""
    return conclude(
        ARTIFACTS,
        anomalies=sorted(anomalies, key=lambda a: a.severity == "cosmetic"),
        evidence=len(beside.pairs),
        summary=f"{plural(len(beside.pairs), 'entry', 'entries')} of what was saved after the "
        f"fault, each as in the baseline{but}",
        measures={
            "entries_compared": len(beside.pairs),
            "entries_differing": len(beside.differing),
        },
    )


def _parted(analysis: RunAnalysis) -> FloatPlace | None:
    """Return the place where the run first leaves its baseline, even by rounding alone."""
    losses: list[FloatPlace] = [
        FloatPlace(step.epoch, step.step)
        for aligned in analysis.aligned
        if not aligned.has_equal_losses
        for step, due in aligned.pairs()
        if due is None or step.losses != due.losses
    ]
    where = divergence_place(analysis)
    return min([*losses, *([where] if where is not None else [])], default=None)


def _explains(parted: FloatPlace | None, kept: WrittenFile) -> bool:
    """Return whether a file was written so late that the divergence explains a difference.

    A loss that differs at a step follows from a model that differed after the step before.
    """
    epoch, step = kept.place
    return parted is not None and (epoch, step + 1) >= parted


def _ran_alike(run: RunTables, reference: RunTables) -> bool:
    mine, due = ([c.epoch for c in tables.lineage.commits] for tables in (run, reference))
    return run.ending.is_finished and mine == due


def _lacks_saves(analysis: RunAnalysis, reference: RunTables) -> bool:
    """Return whether the baseline saved where a restart trained, and no save was seen there."""
    saves = analysis.history.of(FileSaved)
    if analysis.resized or any(number >= analysis.began and saved.parts for number, saved in saves):
        return False
    since = [r.attempt.place for r in analysis.restarts if r.attempt.steps and r.attempt.place]
    # A file that is there already, by a name that stands for its content, is not written again.
    kept = _left_before(analysis)
    due = [
        (saved.epoch, saved.step)
        for _, saved in reference.history.of(FileSaved)
        if saved.parts and saved.digest not in kept
    ]
    return analysis.run.ending.is_finished and any(place > at for place in due for at in since)


def _left_before(analysis: RunAnalysis) -> set[str]:
    """Return the contents of files that were written whole, and were not seen to be removed."""
    removed = {e.path for _, e in analysis.history.of(FileTouched) if e.how == "removing"}
    saves = (save for save in analysis.run.files.saves if save.name not in removed)
    return {save.digest for save in saves if save.digest is not None}


def _severity(pair: EntryPair) -> Severity | None:
    """Return the severity of a difference; None where a right job may show it."""
    ours, due = pair.ours, pair.theirs
    if (ours.kind, due.kind) != ("numbers", "numbers"):
        return None
    # A number that never moves is a setting, and one that is named after a clock may differ in any
    # right job.
    if due.size == 0 or not pair.moves or _CLOCKS.search(due.name.rpartition(".")[2]):
        return None
    if not pair.grows:
        return "wrong result"
    # A table with lines of both attempts is what a right job leaves that writes an epoch again
    # after a restart.
    return None if ours.count > due.count else "cosmetic"


def _by_file(pairs: Sequence[EntryPair]) -> Mapping[str, list[EntryPair]]:
    found: dict[str, list[EntryPair]] = {}
    for pair in pairs:
        found.setdefault(pair.due.file[1], []).append(pair)
    return found


def _anomaly(pairs: Sequence[EntryPair]) -> Anomaly:
    """Return the anomaly of one file: its first entry that differs, worst first."""
    worst = [pair for pair in pairs if _severity(pair) == "wrong result"] or list(pairs)
    first = min(worst, key=lambda pair: (pair.is_last, pair.mine.place))
    severity = _severity(first)
    assert severity is not None
    mine, name = first.mine, first.theirs.name
    others = sorted({pair.theirs.name for pair in pairs} - {name})
    more = f", and so do {', '.join(f'`{other}`' for other in others)}" if others else ""
    what = f"`{name}` in {mine.name}" if name else mine.name
    text = f"from {_where(mine)} on {what} differs"
    if first.is_last and first.mine.is_table:
        text = f"{what}, as it was left at the end, differs"
    elif first.is_last:
        text = f"{what} was written last at {_where(mine)}, in the baseline at {_where(first.due)}"
    text += f" (rank {mine.file[0]}): {_difference(first)}{more}"
    return Anomaly(
        message=f"{text}; every loss and metric before it is the baseline's",
        events=(mine.number,),
        severity=severity,
    )


def _difference(pair: EntryPair) -> str:
    ours, due = pair.ours, pair.theirs
    if pair.grows and ours.count != due.count:
        return f"{ours.count} entries instead of {due.count}"
    if ours.size == due.size and ours.first != due.first:
        return f"its names begin with `{ours.first}` instead of `{due.first}`"
    if ours.size == due.size:
        return "it is not the same to the last bit"
    return f"{_size(ours)} instead of {_size(due)}"


def _size(part: SavedPart) -> str:
    return f"{part.size:.4g}" if isinstance(part.size, int | float) else str(part.size)


def _differ(name: str, pairs: Sequence[EntryPair]) -> str:
    names = sorted({f"`{p.theirs.name}`" if p.theirs.name else "the content" for p in pairs})
    named = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")  # noqa: PLR2004
    return f"{named} in {name} {'differ' if len(names) > 1 else 'differs'}"


def _where(kept: WrittenFile) -> str:
    epoch, step = kept.place
    return f"epoch {epoch}" + (f", step {step}" if step else "")
