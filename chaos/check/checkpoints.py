"""Checks of storage: checkpoints are whole, the right ones are kept, reports are durable."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from chaos.check.analysis import RunAnalysis
from chaos.check.attempt import Attempt, Commit
from chaos.check.file_contents import FileContents, contents_of
from chaos.check.files import Save, is_own
from chaos.check.result import conclude, inconclusive, nothing_due, own_check
from chaos.check.storage import (
    ADVICE,
    SharedFile,
    StoredCheckpoints,
    is_elsewhere,
    kept_at_the_end,
    stored_checkpoints,
)
from chaos.check.values import as_number, flat
from chaos.faults.kill_node import emptied_in
from chaos.model.causes import causes, is_own_error
from chaos.model.event import (
    CheckpointDeleted,
    Committed,
    FaultEnded,
    FileLoaded,
    FileRenamed,
    FitCalled,
    PartUploaded,
    ReportReturned,
    StorageSeen,
    TrainFnEnded,
)
from chaos.model.history import History
from chaos.model.verdict import Anomaly, CheckResult
from chaos.words import plural, ranks, unpainted

# -- checkpoints -----------------------------------------------------------------------------------


CHECKPOINTS = "checkpoints"


@own_check(CHECKPOINTS, asks="Is every committed checkpoint whole, whenever storage was looked at?")
def check_checkpoints(analysis: RunAnalysis) -> CheckResult:
    """Require that storage holds each committed checkpoint, file for file, until Ray removes it.

    Storage is examined after each fault and when the run is over. The promise of integrity: storage
    holds what was uploaded, and nothing of another attempt beside it (ray-project/ray#41700). The
    promise of durability: after the first commit one whole checkpoint is always there. No
    checkpoint is loaded for it: equal bytes load equally well. Of a file above 64 MiB only the size
    is compared. What was not seen on its way cannot be compared, nor what lies outside the run's
    storage. A sharded checkpoint holds what its own metadata names, and each entry of the
    baseline's at its place: it may be reported although its save has failed or was cut off
    (InternLM/xtuner#1859). A file of the job's own that cannot be read, so that the attempt dies of
    it, is no checkpoint either: its writing was cut off, and the job trusted it
    (huggingface/transformers#35782). In doubt is a checkpoint whose own count of training is not
    the baseline's at that place: if it counts the whole training, a restart from it would continue
    elsewhere (Lightning-AI/pytorch-lightning#12991). A file with other bytes is noted, and proves
    nothing.
    """
    seen = list(analysis.history.of(StorageSeen))
    parts = analysis.history.count(PartUploaded)
    looks = list(_looks(stored_checkpoints(analysis.run), seen))
    # A run without a fault may hold a mixture: the audit warns of it, and goes on to its faults.
    damaged = [look for look in looks if analysis.plan.ops or look.mixed is None]
    anomalies = [*_damaged(damaged), *_unfinished(analysis), *_unreadable(analysis)]
    anomalies += [] if anomalies else _raised_after_a_load(analysis)
    baseline = None if analysis.reference is None else analysis.reference.history
    if baseline is not None and not anomalies:
        if baseline.count(StorageSeen) and not seen:
            return inconclusive(CHECKPOINTS, "the storage was not looked at")
        if baseline.count(PartUploaded) and not parts and analysis.run.lineage.commits:
            return inconclusive(CHECKPOINTS, "what was uploaded was not seen")
    loaded = sum(len(loads) for loads in analysis.run.files.loads.values())
    looked = len(seen) if looks or parts else 0
    if not anomalies and not looked and not loaded:
        return nothing_due(CHECKPOINTS, "no checkpoint was uploaded, or storage was not watched")
    whole = {look.commit.checkpoint for look in looks if look.doubt is None and not look.mixed}
    beside = _saved_files(analysis)
    doubts = (*(look.doubt for look in looks if look.doubt is not None), *_count_doubts(beside))
    return conclude(
        CHECKPOINTS,
        anomalies=anomalies,
        doubts=tuple(dict.fromkeys(doubts)),
        evidence=looked + loaded,
        summary=_told(analysis, whole=len(whole), looks=len(seen)) + _other_bytes_note(beside),
        measures={"files_with_other_bytes": ", ".join(beside.other_bytes()) or None}
        if beside
        else None,
    )


def _told(analysis: RunAnalysis, *, whole: int, looks: int) -> str:
    if not analysis.run.reports_nothing:
        kept = plural(whole, "checkpoint")
        return f"{kept} whole, each time of {looks} that storage was looked at"
    every = (load for (index, _), of in analysis.run.files.loads.items() if index for load in of)
    read = sum(load.error is None for _, load in every)
    return f"restarts read {plural(read, 'file')}, none of them cut short"


def _saved_files(analysis: RunAnalysis) -> FileContents | None:
    if analysis.reference is None or not analysis.plan.ops or analysis.is_by_steps:
        return None
    return contents_of(analysis)


def _count_doubts(beside: FileContents | None) -> Iterator[str]:
    first = next(beside.other_counts(), None) if beside is not None else None
    if first is None:
        return
    saved = first.mine.what
    place = f"epoch {saved.epoch}" + (f", step {saved.step}" if saved.step else "")
    yield (
        f"`{first.entry[1]}` in {first.mine.name} is {first.ours} where rank {saved.rank} "
        f"saved it at {place}, {first.due} in the baseline: a restart from it may go on elsewhere, "
        "and none was seen; inject a fault after it, or name it in `expect.ignore_metrics` if the "
        "job counts from its last start"
    )


def _other_bytes_note(beside: FileContents | None) -> str:
    other = {} if beside is None else beside.other_bytes()
    if not other:
        return ""
    named = ", ".join(f"{name} (since epoch {epoch})" for name, epoch in sorted(other.items()))
    return f"; {named} hold other bytes than in the baseline, which alone proves nothing"


@dataclass(frozen=True, slots=True)
class _Look:
    """One committed checkpoint, as one look at storage found it."""

    commit: Commit
    number: int
    seen: StorageSeen
    #: the name of the defect
    damage: str | None
    #: the reason why there may be one
    doubt: str | None
    #: the file that ranks have mixed, where that is the damage
    mixed: SharedFile | None


def _looks(known: StoredCheckpoints, seen: list[tuple[int, StorageSeen]]) -> Iterator[_Look]:
    for number, storage in seen:
        for commit in known.due(number, storage):
            assert commit.checkpoint is not None
            doubt = damage = mixed = None
            if is_elsewhere(commit.checkpoint):
                doubt = f"{commit.checkpoint} lies outside the run's storage, and was not looked at"
            else:
                damage = known.damage(commit, storage)
                mixed = next(iter(known.mixed_files(commit, storage)), None) if not damage else None
            if mixed is not None:
                damage = _describe_mixture(mixed)
            if damage is None and doubt is None and not known.parts.get(commit.checkpoint):
                doubt = f"what was uploaded of {commit.checkpoint} was not seen"
            yield _Look(commit, number, storage, damage, doubt, mixed)


def _describe_mixture(mixed: SharedFile) -> str:
    return f"held the {mixed.path} of no rank: {mixed}; {ADVICE}"


def _damaged(looks: list[_Look]) -> Iterator[Anomaly]:
    named: set[str | None] = set()
    at_the_end = {o.commit.checkpoint for o in looks if o.damage and o.seen.op is None}
    for look in looks:
        commit = look.commit
        if look.damage is None or commit.checkpoint in named:
            continue
        named.add(commit.checkpoint)
        when = "when the run was over" if look.seen.op is None else f"at op {look.seen.op}"
        beside = [other for other in looks if other.number == look.number]
        is_last = look.mixed is None and all(other.damage for other in beside)
        none = "; not one whole checkpoint was left" if is_last else ""
        yield Anomaly(
            message=f"{commit.checkpoint} of epoch {commit.epoch} was committed, and {when} "
            f"it {look.damage}{none}",
            events=(commit.number, look.number),
            is_result=commit.checkpoint in at_the_end,  # that is what the run leaves behind
        )


def _unfinished(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield sharded checkpoints that do not hold what they say, or what the baseline's hold.

    If one of the baseline's does not, the job may read its files by other means. Nothing is known
    of a checkpoint of which a part was not seen. On another number of ranks, each may have entries
    of its own.
    """
    if analysis.reference is None or not analysis.plan.ops:
        return
    clean = [stored_checkpoints(stored) for stored in (analysis.reference, *analysis.repeats)]
    theirs = [(stored, commit) for stored in clean for commit in stored.commits]
    uploaders = frozenset(rank for stored, commit in theirs for rank in stored.uploaders(commit))
    are_whole = not any(stored.unfinished(commit) for stored, commit in theirs)
    known = stored_checkpoints(analysis.run)
    ranks = {attempt.index: attempt.starts.keys() for attempt in analysis.run.attempts}
    for commit in known.commits if are_whole else ():
        if not uploaders & ranks.get(commit.attempt, frozenset()) <= known.uploaders(commit):
            continue
        due = [stored.keys(c) for stored, c in theirs if c.epoch == commit.epoch]
        lack = known.unfinished(commit)
        if lack is None and due and not analysis.resized and (mine := known.keys(commit)):
            missing = sorted(frozenset.intersection(*due) - mine)
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            lack = f"lacks `{missing[0]}`{more}, which the baseline's holds" if missing else None
        if lack is not None:
            message = f"{commit.checkpoint} of epoch {commit.epoch} was committed, and it {lack}"
            yield Anomaly(message=message, events=(commit.number,), is_result=True)


# torch 2.13: `torch.load` takes tensors and plain values alone by default.
_REFUSED = re.compile(r"weights.only load failed|weights_only", re.IGNORECASE)


def _unreadable(analysis: RunAnalysis) -> Iterator[Anomaly]:
    files = analysis.run.files
    named: set[str] = set()
    for (index, rank), loads in sorted(files.loads.items()):
        attempt = next((a for a in analysis.run.attempts if a.index == index), None)
        # A finding only if all of it is so: a later attempt, of which this rank made no step, whose
        # file this run has saved under that name, with no later load that made it good, and without
        # a fault that ended the attempt. A job may try files in turn until one can be read.
        failed = [(n, e) for n, e in loads if e.error is not None]
        if attempt is None or not failed or index == 0 or rank in attempt.first_steps:
            continue
        number, load = failed[-1]
        made_good = any(is_own(later) for n, later in loads if n > number)
        torn = files.torn(load.path, before=number)
        moved = analysis.history.of(FileRenamed)
        names = {load.path} | {e.path for _, e in moved if e.to == load.path}
        was_saved = any(s.path in names and s.number < number for s in files.saves)
        is_struck = index in analysis.hits or index in analysis.doubtful
        if made_good or is_struck or not was_saved or load.path in named:
            continue
        named.add(load.path)
        why = _why_unreadable(analysis, load, torn, before=number)
        yield Anomaly(
            message=f"rank {rank} could not read {load.path}{why.state}, and attempt {index} ended "
            f"on it ({_first_words(load.error or '')}){why.remedy}",
            events=(*((torn.number,) if torn else ()), number),
        )


class _Unreadable(NamedTuple):
    """A file that cannot be read: a clause on its state, and the remedy that this supports."""

    state: str
    remedy: str


def _why_unreadable(
    analysis: RunAnalysis, load: FileLoaded, torn: Save | None, *, before: int
) -> _Unreadable:
    if torn is not None:
        cut = f", whose writing by rank {torn.rank} was cut off"
        return _Unreadable(cut, ": write to a temporary name, then rename")
    ended = (event for number, event in analysis.history.of(FaultEnded) if number < before)
    if any(load.path in emptied_in(event.detail) for event in ended):
        state = ", which was not synced as its machine lost its power"
        return _Unreadable(state, ": flush the file and `os.fsync` it before it is renamed")
    if _REFUSED.search(load.error or ""):
        remedy = "save tensors and plain values alone, or read it with"
        return _Unreadable(
            "", f"; the file is whole: {remedy} `torch.load(..., weights_only=False)`"
        )
    return _Unreadable("", "; its writing was seen to end")


def _raised_after_a_load(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield attempts that read a save, and raised of themselves before any rank made a step."""
    # The load itself did not raise, but what came of it did (a shape, a key, a type). The error
    # must be the rank's own: of a peer that was lost every rank has one.
    if analysis.error_was_expected:
        return
    for restart in analysis.restarts:
        attempt, files = restart.attempt, analysis.run.files
        is_struck = attempt.index in {*analysis.hits, *analysis.joined, *analysis.doubtful}
        read = [files.newest_loaded(attempt.index, rank) for rank in sorted(attempt.starts)]
        loads = [load for load in read if load is not None]
        errors = {r: e for d in attempt.decisions for r, e in d.event.errors.items()}
        own = {rank: error for rank, error in causes(errors).items() if is_own_error(error)}
        if is_struck or attempt.first_steps or not loads or not own:
            continue
        yield Anomaly(
            message=f"attempt {attempt.index} read {loads[0][1].path}, and raised before its first "
            f"step, without a fault: {ranks(own)}: {_first_words(next(iter(own.values())))}",
            events=(loads[0][0], attempt.decisions[0].number),
        )
        return


def _first_words(error: str) -> str:
    """Return an error up to the end of its first sentence, without colours."""
    line = unpainted(error).strip().split("\n", 1)[0]
    return line.split(". ", 1)[0].rstrip(". ")


# -- retention -------------------------------------------------------------------------------------


RETENTION = "retention"


@own_check(RETENTION, asks="Were the right checkpoints kept, and only old ones removed?")
def check_retention(analysis: RunAnalysis) -> CheckResult:
    """Require that the newest commit is never removed before a newer one is there.

    The promise of retention. As many checkpoints are left as `num_to_keep` states (one more where a
    score chooses: Ray 2.60 keeps the latest besides the best), and the best by its score is among
    them. Retention by score and resume by age disagreed in ray-project/ray#9036. A resume removed
    its own source in Lightning-AI/pytorch-lightning#11379. Without `num_to_keep` nothing is
    removed.
    """
    commits = [c for c in stored_checkpoints(analysis.run).commits if c.checkpoint is not None]
    called = next((event for _, event in analysis.history.of(FitCalled)), None)
    gone = list(analysis.history.of(CheckpointDeleted))
    kept = kept_at_the_end(analysis.run)
    if not commits:
        return nothing_due(RETENTION, "no checkpoint was committed")
    if kept is None and not gone:
        if analysis.reference is not None and kept_at_the_end(analysis.reference) is not None:
            return inconclusive(RETENTION, "what was kept at the end was not seen")
        return nothing_due(RETENTION, "what storage holds was not watched, and nothing was removed")
    settings = {} if called is None else called.settings
    anomalies = list(_removed_too_early(analysis, commits, gone, settings))
    anomalies += () if kept is None else _left_wrong(analysis, commits, kept, settings)
    left = "" if kept is None else f", {len(kept[1])} left at the end"
    return conclude(
        RETENTION,
        anomalies=anomalies,
        evidence=len(gone) + (kept is not None),
        summary=f"{plural(len(commits), 'checkpoint')} committed, {len(gone)} removed{left}",
    )


def _removed_too_early(
    analysis: RunAnalysis,
    commits: Sequence[Commit],
    gone: Sequence[tuple[int, CheckpointDeleted]],
    settings: dict[str, Any],
) -> Iterator[Anomaly]:
    for at, deleted in gone:
        there = [c for c in commits if c.number < at]
        ended = analysis.run.ending
        is_over = ended.is_over and ended.deadline is None  # else the commit may still have come
        followed = _is_followed(analysis.history, at, is_over=is_over)
        if settings.get("num_to_keep", 0) is None:
            yield Anomaly(
                message=f"{deleted.checkpoint} was removed, although all are to be kept",
                events=(at,),
            )
        elif there and there[-1].checkpoint == deleted.checkpoint and not followed:
            yield Anomaly(
                message=f"{deleted.checkpoint} (epoch {there[-1].epoch}) was removed while it was "
                "the newest that was committed",
                events=(there[-1].number, at),
            )


def _is_followed(history: History, at: int, *, is_over: bool) -> bool:
    """Return whether the controller's next event is a newer commit.

    Ray 2.60 removes the checkpoints that a new one replaces while it records that one. In a history
    that is cut short the commit itself may be missing.
    """
    source = history[at].source
    for entry in history.entries[at + 1 :]:
        if entry.source == source and not isinstance(entry.what, CheckpointDeleted):
            return isinstance(entry.what, Committed) and entry.what.checkpoint is not None
    return not is_over


def _left_wrong(
    analysis: RunAnalysis,
    commits: Sequence[Commit],
    kept: tuple[int, Any],
    settings: dict[str, Any],
) -> Iterator[Anomaly]:
    at, names = kept
    limit, score = settings.get("num_to_keep"), settings.get("checkpoint_score_attribute")
    if limit is not None and len(names) > limit + (score is not None):
        yield Anomaly(
            message=f"{plural(len(names), 'checkpoint')} were left, {limit} were to be kept",
            events=(at,),
        )
    newest = commits[-1]
    if newest.checkpoint not in names:
        yield Anomaly(
            message=f"{newest.checkpoint} (epoch {newest.epoch}), the newest, was not left",
            events=(newest.number, at),
        )
    planned, order = analysis.plan.job.checkpoint, settings.get("checkpoint_score_order")
    if planned is not None:
        order = planned.checkpoint_score_order
    best = _best_commit(commits, score, order)
    if best is not None and best.checkpoint not in names:
        yield Anomaly(
            message=f"{best.checkpoint} (epoch {best.epoch}), the best by `{score}`, was not left",
            events=(best.number, at),
        )


def _best_commit(commits: Sequence[Commit], score: str | None, order: str | None) -> Commit | None:
    """Return the only best commit; None where several are, or the score is not known."""
    if score is None or order is None:
        return None
    scored = []
    for commit in commits:
        record = dict(flat(commit.metrics[0])) if commit.metrics else {}
        value = as_number(record.get(score.replace("/", ".")))
        if value is not None and value == value:  # noqa: PLR0124 (NaN has no rank)
            scored.append((value if order == "max" else -value, commit))
    top = max((value for value, _ in scored), default=None)
    best = [commit for value, commit in scored if value == top]
    return best[0] if len(best) == 1 else None


# -- ack -------------------------------------------------------------------------------------------


ACK = "ack"


@own_check(ACK, asks="Was everything that counted as saved really saved?")
def check_ack(analysis: RunAnalysis) -> CheckResult:
    """Require that reports of an attempt that ended by itself, and its result, are committed.

    The promise of acknowledgement after durability. Every report that returned on all ranks of an
    attempt which ended by itself (its train functions returned, no fault hit it) was committed. The
    checkpoint that `fit()` returns is one of the commits, and is there. In Ray 2.60 the return of
    `report()` alone proves nothing: a fault before the controller's next poll loses the report, and
    that is no defect of the job.
    """
    returned = analysis.run.ending.returned
    settled = [a for a in analysis.run.attempts if _ended_by_itself(analysis, a)]
    reports = {a.index: _returned_reports(analysis, a) for a in settled}
    anomalies = [a for attempt in settled for a in _lost_reports(attempt, reports[attempt.index])]
    anomalies += _returned_uncommitted(analysis)
    doubts = [
        f"reports of attempt {attempt.index} returned, and no commit at all was seen"
        for attempt in settled
        if reports[attempt.index] and not attempt.commits
    ]
    count = sum(map(len, reports.values()))
    evidence = count + (returned is not None)
    if not evidence and not anomalies and (analysis.error_was_expected or not settled):
        return nothing_due(ACK, "no attempt ended by itself, so nothing relied on what was saved")
    return conclude(
        ACK,
        anomalies=anomalies,
        doubts=doubts,
        evidence=evidence,
        summary=f"{plural(count, 'report')} of the attempt that ended by itself, each committed",
    )


def _ended_by_itself(analysis: RunAnalysis, attempt: Attempt) -> bool:
    if attempt.index in analysis.hits or attempt.decisions or analysis.is_cut_short(attempt):
        return False
    if attempt is analysis.run.attempts[-1] and analysis.run.ending.is_finished:
        return True
    ends = (e for _, e in analysis.history.of(TrainFnEnded) if e.attempt == attempt.index)
    ended = {e.rank for e in ends if e.error is None}
    return bool(attempt.places) and ended == {place.rank for place in attempt.places}


def _returned_reports(analysis: RunAnalysis, attempt: Attempt) -> Mapping[int, tuple[int, ...]]:
    """Return the epochs whose report returned on every rank, with the events."""
    found: dict[int, dict[int, int]] = {}
    for number, e in analysis.history.of(ReportReturned):
        if e.attempt == attempt.index and e.error is None:
            found.setdefault(e.epoch, {})[e.rank] = number
    everybody = set(attempt.starts)
    return {epoch: tuple(by.values()) for epoch, by in found.items() if set(by) == everybody}


def _lost_reports(attempt: Attempt, reports: Mapping[int, tuple[int, ...]]) -> Iterator[Anomaly]:
    committed = {commit.epoch for commit in attempt.commits}
    # Without any commit, it is the controller's events that are missing, not the commits.
    for epoch, events in sorted(reports.items()) if committed else ():
        if epoch not in committed:
            yield Anomaly(
                message=f"the report of epoch {epoch} returned on every rank of attempt "
                f"{attempt.index}, which ended by itself, and was never committed",
                events=events,
            )


def _returned_uncommitted(analysis: RunAnalysis) -> Iterator[Anomaly]:
    number, returned = analysis.run.ending.returned or (0, None)
    if returned is None or returned.checkpoint is None:
        return
    names = {c.checkpoint for a in analysis.run.attempts for c in (*a.early, *a.commits)}
    kept = kept_at_the_end(analysis.run)
    if names and returned.checkpoint not in names:
        yield Anomaly(
            message=f"fit() returned {returned.checkpoint}, which was never committed",
            events=(number,),
        )
    elif kept is not None and returned.checkpoint not in kept[1]:
        yield Anomaly(
            message=f"fit() returned {returned.checkpoint}, and storage does not hold it",
            events=(number, kept[0]),
        )
