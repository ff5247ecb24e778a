"""Checks of storage: checkpoints are whole, the right ones are kept, reports are durable."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from chaos.check.analysis import RunAnalysis
from chaos.check.anomaly import build_anomaly
from chaos.check.file_contents import FileContents, build_file_contents
from chaos.check.kinds.base import Facts
from chaos.check.kinds.checkpoints import (
    AttemptFilesMixed,
    BestCheckpointMissing,
    CheckpointEntryMissing,
    CheckpointFileChanged,
    CheckpointFileMissing,
    CheckpointGone,
    CheckpointRemoved,
    NewestCheckpointMissing,
    NewestCheckpointRemoved,
    RankFilesMixed,
    ReportNotCommitted,
    ReturnedCheckpointMissing,
    ReturnedCheckpointUncommitted,
    SharedFile,
    TooManyCheckpoints,
)
from chaos.check.result import builtin_check, conclude, inconclusive, not_applicable
from chaos.check.storage import (
    Damage,
    StoredCheckpoints,
    collect_checkpoints,
    find_final_checkpoints,
    is_outside_storage,
)
from chaos.check.unreadable_files import find_load_errors, find_unreadable_files
from chaos.check.values import flatten_values, parse_number
from chaos.model.event import (
    CheckpointDeleted,
    Committed,
    FitCalled,
    PartUploaded,
    ReportReturned,
    StorageSeen,
    TrainFnEnded,
)
from chaos.model.history import History
from chaos.model.verdict import Anomaly, CheckResult
from chaos.resume.attempt import Attempt, Commit
from chaos.wording import plural

# -- checkpoints -----------------------------------------------------------------------------------


CHECKPOINTS = "checkpoints"


@builtin_check(
    CHECKPOINTS, asks="Is every committed checkpoint whole, whenever storage was looked at?"
)
def check_checkpoints(analysis: RunAnalysis) -> CheckResult:
    """Require that storage holds each committed checkpoint, file for file, until Ray removes it.

    Storage is examined after each fault and when the run is over. It holds what was uploaded, and
    nothing of another attempt beside it (ray-project/ray#41700). After the first commit one whole
    checkpoint is always there. No checkpoint is loaded: equal bytes load equally well. Of a file
    above 64 MiB only the size is compared.

    A sharded checkpoint holds what its own metadata names, and each entry of the baseline's: it may
    be reported although its save failed (InternLM/xtuner#1859). A file of the job's own that cannot
    be read, so that the attempt ends, is no checkpoint either (huggingface/transformers#35782). In
    doubt is a checkpoint whose own count of training is not the baseline's: a restart from it may
    continue elsewhere (Lightning-AI/pytorch-lightning#12991). A file with other bytes is noted, and
    proves nothing.
    """
    storage_events = list(analysis.history.select_events(StorageSeen))
    upload_count = analysis.history.count(PartUploaded)
    views = list(_find_views(collect_checkpoints(analysis.run), storage_events))
    # A run without a fault may hold a mixture: the audit warns of it, and goes on to its faults.
    reported_views = [view for view in views if analysis.plan.ops or view.mixed_file is None]
    anomalies = [
        *_find_damage(analysis, reported_views),
        *_find_unfinished_checkpoints(analysis),
        *find_unreadable_files(analysis),
    ]
    anomalies += [] if anomalies else find_load_errors(analysis)
    baseline = None if analysis.reference is None else analysis.reference.history
    if baseline is not None and not anomalies:
        if baseline.count(StorageSeen) and not storage_events:
            return inconclusive(CHECKPOINTS, "the storage was not looked at")
        if baseline.count(PartUploaded) and not upload_count and analysis.run.lineage.commits:
            return inconclusive(CHECKPOINTS, "what was uploaded was not seen")
    load_count = sum(len(loads) for loads in analysis.run.files.loads.values())
    look_count = len(storage_events) if views or upload_count else 0
    if not anomalies and not look_count and not load_count:
        return not_applicable(CHECKPOINTS, "no checkpoint was uploaded, or storage was not watched")
    whole_checkpoints = {
        view.commit.checkpoint for view in views if view.doubt is None and not view.mixed_file
    }
    contents = _find_saved_files(analysis)
    doubts = (
        *(view.doubt for view in views if view.doubt is not None),
        *_find_count_doubts(contents),
    )
    return conclude(
        CHECKPOINTS,
        anomalies=anomalies,
        doubts=tuple(dict.fromkeys(doubts)),
        evidence=look_count + load_count,
        summary=_describe_checkpoints(
            analysis, whole_count=len(whole_checkpoints), look_count=len(storage_events)
        )
        + _describe_byte_differences(contents),
        measures={"files_with_other_bytes": ", ".join(contents.find_byte_differences()) or None}
        if contents
        else None,
    )


def _describe_checkpoints(analysis: RunAnalysis, *, whole_count: int, look_count: int) -> str:
    if not analysis.run.has_no_reports:
        checkpoint_text = plural(whole_count, "checkpoint")
        return f"{checkpoint_text} whole, each time of {look_count} that storage was looked at"
    restart_loads = (
        load for (index, _), loads in analysis.run.files.loads.items() if index for load in loads
    )
    read_count = sum(load.error is None for _, load in restart_loads)
    return f"restarts read {plural(read_count, 'file')}, none of them cut short"


def _find_saved_files(analysis: RunAnalysis) -> FileContents | None:
    if analysis.reference is None or not analysis.plan.ops or analysis.is_step_aligned:
        return None
    return build_file_contents(analysis)


def _find_count_doubts(contents: FileContents | None) -> Iterator[str]:
    difference = next(contents.find_count_differences(), None) if contents is not None else None
    if difference is None:
        return
    saved_file = difference.run_file.event
    place_text = f"epoch {saved_file.epoch}" + (
        f", step {saved_file.step}" if saved_file.step else ""
    )
    yield (
        f"`{difference.entry[1]}` in {difference.run_file.name} is {difference.run_count} where "
        f"rank {saved_file.rank} "
        f"saved it at {place_text}, {difference.baseline_count} in the baseline: a restart from "
        f"it may go on elsewhere, "
        "and none was seen; inject a fault after it, or name it in `expect.ignore_metrics` if the "
        "job counts from its last start"
    )


def _describe_byte_differences(contents: FileContents | None) -> str:
    first_epochs = {} if contents is None else contents.find_byte_differences()
    if not first_epochs:
        return ""
    file_text = ", ".join(
        f"{name} (since epoch {epoch})" for name, epoch in sorted(first_epochs.items())
    )
    return f"; {file_text} hold other bytes than in the baseline, which alone proves nothing"


@dataclass(frozen=True, slots=True)
class _CheckpointView:
    """One committed checkpoint, as one look at storage found it."""

    commit: Commit
    number: int
    storage: StorageSeen
    damage: Damage | None
    #: the reason why there may be one
    doubt: str | None
    #: the file that ranks have mixed, where there is no other damage
    mixed_file: SharedFile | None

    @property
    def is_damaged(self) -> bool:
        return self.damage is not None or self.mixed_file is not None


def _find_views(
    checkpoints: StoredCheckpoints, storage_events: list[tuple[int, StorageSeen]]
) -> Iterator[_CheckpointView]:
    for number, storage in storage_events:
        for commit in checkpoints.find_expected_commits(number, storage):
            assert commit.checkpoint is not None
            doubt = damage = mixed_file = None
            if is_outside_storage(commit.checkpoint):
                doubt = f"{commit.checkpoint} lies outside the run's storage, and was not looked at"
            else:
                damage = checkpoints.find_damage(commit, storage)
                mixed_file = (
                    next(iter(checkpoints.find_mixed_files(commit, storage)), None)
                    if damage is None
                    else None
                )
            is_unknown = damage is None and mixed_file is None and doubt is None
            if is_unknown and not checkpoints.parts.get(commit.checkpoint):
                doubt = f"what was uploaded of {commit.checkpoint} was not seen"
            yield _CheckpointView(commit, number, storage, damage, doubt, mixed_file)


def _find_damage(analysis: RunAnalysis, views: list[_CheckpointView]) -> Iterator[Anomaly]:
    reported: set[str | None] = set()
    damaged_at_end = {v.commit.checkpoint for v in views if v.is_damaged and v.storage.op is None}
    for view in views:
        commit = view.commit
        if not view.is_damaged or commit.checkpoint in reported:
            continue
        reported.add(commit.checkpoint)
        is_another_whole = not all(
            other_view.is_damaged for other_view in views if other_view.number == view.number
        )
        facts = _build_damage_facts(view, is_another_whole=is_another_whole)
        yield build_anomaly(
            facts,
            analysis.launcher_words,
            events=(commit.number, view.number),
            is_result=commit.checkpoint in damaged_at_end,  # that is what the run leaves behind
        )


def _build_damage_facts(view: _CheckpointView, *, is_another_whole: bool) -> Facts:
    name, epoch, op = view.commit.checkpoint or "", view.commit.epoch, view.storage.op
    if view.mixed_file is not None:
        return RankFilesMixed(name, epoch, op, view.mixed_file)
    assert view.damage is not None
    problem, path, other_count = view.damage
    match problem:
        case "gone":
            return CheckpointGone(name, epoch, op, is_another_whole)
        case "files missing":
            return CheckpointFileMissing(name, epoch, op, is_another_whole, path, other_count)
        case "files changed":
            return CheckpointFileChanged(name, epoch, op, is_another_whole, path, other_count)
        case "files of another attempt":
            return AttemptFilesMixed(name, epoch, op, is_another_whole, path, other_count)


def _find_unfinished_checkpoints(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield sharded checkpoints that do not hold what they say, or what the baseline's hold.

    If one of the baseline's does not, the job may read its files by other means. Nothing is known
    of a checkpoint of which a part was not seen. On another number of ranks, each may have entries
    of its own.
    """
    if analysis.reference is None or not analysis.plan.ops:
        return
    clean_checkpoints = [
        collect_checkpoints(stored) for stored in (analysis.reference, *analysis.repeats)
    ]
    baseline_commits = [
        (stored, commit) for stored in clean_checkpoints for commit in stored.commits
    ]
    uploaders = frozenset(
        rank for stored, commit in baseline_commits for rank in stored.find_uploaders(commit)
    )
    is_baseline_whole = not any(
        stored.find_unfinished_shard(commit) for stored, commit in baseline_commits
    )
    run_checkpoints = collect_checkpoints(analysis.run)
    ranks_by_attempt = {attempt.index: attempt.starts.keys() for attempt in analysis.run.attempts}
    for commit in run_checkpoints.commits if is_baseline_whole else ():
        if not uploaders & ranks_by_attempt.get(
            commit.attempt, frozenset()
        ) <= run_checkpoints.find_uploaders(commit):
            continue
        facts: Facts | None = run_checkpoints.find_unfinished_shard(commit)
        if facts is None and not analysis.resized_attempts:
            facts = _find_missing_entry(run_checkpoints, commit, baseline_commits)
        if facts is not None:
            yield build_anomaly(
                facts,
                analysis.launcher_words,
                events=(commit.number,),
                is_result=True,
            )


def _find_missing_entry(
    checkpoints: StoredCheckpoints,
    commit: Commit,
    baseline_commits: Sequence[tuple[StoredCheckpoints, Commit]],
) -> CheckpointEntryMissing | None:
    baseline_entries = [
        stored.find_entry_names(c) for stored, c in baseline_commits if c.epoch == commit.epoch
    ]
    entries = checkpoints.find_entry_names(commit)
    if not baseline_entries or not entries:
        return None
    missing_entries = sorted(frozenset.intersection(*baseline_entries) - entries)
    if not missing_entries:
        return None
    return CheckpointEntryMissing(
        commit.checkpoint or "", commit.epoch, missing_entries[0], len(missing_entries) - 1
    )


# -- retention -------------------------------------------------------------------------------------


RETENTION = "retention"


@builtin_check(RETENTION, asks="Were the right checkpoints kept, and only old ones removed?")
def check_retention(analysis: RunAnalysis) -> CheckResult:
    """Require that the newest commit is never removed before a newer one is there.

    As many checkpoints are left as `num_to_keep` states, and the best by its score is among them.
    Where a score chooses, Ray 2.60 keeps the latest as well. Known defects: ray-project/ray#9036,
    Lightning-AI/pytorch-lightning#11379. Without `num_to_keep` nothing is removed.
    """
    commits = [c for c in collect_checkpoints(analysis.run).commits if c.checkpoint is not None]
    fit_call = next((event for _, event in analysis.history.select_events(FitCalled)), None)
    deletions = list(analysis.history.select_events(CheckpointDeleted))
    final_checkpoints = find_final_checkpoints(analysis.run)
    if not commits:
        return not_applicable(RETENTION, "no checkpoint was committed")
    if final_checkpoints is None and not deletions:
        if (
            analysis.reference is not None
            and find_final_checkpoints(analysis.reference) is not None
        ):
            return inconclusive(RETENTION, "what was kept at the end was not seen")
        return not_applicable(
            RETENTION, "what storage holds was not watched, and nothing was removed"
        )
    settings = {} if fit_call is None else fit_call.settings
    anomalies = list(_find_early_removals(analysis, commits, deletions, settings))
    anomalies += (
        ()
        if final_checkpoints is None
        else _find_retention_errors(analysis, commits, final_checkpoints, settings)
    )
    remaining_text = (
        "" if final_checkpoints is None else f", {len(final_checkpoints[1])} left at the end"
    )
    return conclude(
        RETENTION,
        anomalies=anomalies,
        evidence=len(deletions) + (final_checkpoints is not None),
        summary=f"{plural(len(commits), 'checkpoint')} committed, {len(deletions)} "
        f"removed{remaining_text}",
    )


def _find_early_removals(
    analysis: RunAnalysis,
    commits: Sequence[Commit],
    deletions: Sequence[tuple[int, CheckpointDeleted]],
    settings: dict[str, Any],
) -> Iterator[Anomaly]:
    for number, deletion in deletions:
        earlier_commits = [c for c in commits if c.number < number]
        ending = analysis.run.ending
        is_over = (
            ending.has_run_end and ending.deadline is None
        )  # else the commit may still have come
        is_followed = _has_newer_commit(analysis.history, number, is_over=is_over)
        if settings.get("num_to_keep", 0) is None:
            yield build_anomaly(
                CheckpointRemoved(deletion.checkpoint), analysis.launcher_words, events=(number,)
            )
        elif (
            earlier_commits
            and earlier_commits[-1].checkpoint == deletion.checkpoint
            and not is_followed
        ):
            yield build_anomaly(
                NewestCheckpointRemoved(deletion.checkpoint, earlier_commits[-1].epoch),
                analysis.launcher_words,
                events=(earlier_commits[-1].number, number),
            )


def _has_newer_commit(history: History, number: int, *, is_over: bool) -> bool:
    """Return whether the controller's next event is a newer commit.

    Ray 2.60 removes the checkpoints that a new one replaces while it records that one. In a history
    that is cut short the commit itself may be missing.
    """
    source = history[number].source
    for entry in history.entries[number + 1 :]:
        if entry.source == source and not isinstance(entry.event, CheckpointDeleted):
            return isinstance(entry.event, Committed) and entry.event.checkpoint is not None
    return not is_over


def _find_retention_errors(
    analysis: RunAnalysis,
    commits: Sequence[Commit],
    final_checkpoints: tuple[int, Any],
    settings: dict[str, Any],
) -> Iterator[Anomaly]:
    number, names = final_checkpoints
    limit, score = settings.get("num_to_keep"), settings.get("checkpoint_score_attribute")
    if limit is not None and len(names) > limit + (score is not None):
        yield build_anomaly(
            TooManyCheckpoints(len(names), limit), analysis.launcher_words, events=(number,)
        )
    newest = commits[-1]
    if newest.checkpoint not in names:
        yield build_anomaly(
            NewestCheckpointMissing(newest.checkpoint or "", newest.epoch),
            analysis.launcher_words,
            events=(newest.number, number),
        )
    checkpoint_plan, order = analysis.plan.job.checkpoint, settings.get("checkpoint_score_order")
    if checkpoint_plan is not None:
        order = checkpoint_plan.checkpoint_score_order
    best = _find_best_commit(commits, score, order)
    if score is not None and best is not None and best.checkpoint not in names:
        yield build_anomaly(
            BestCheckpointMissing(best.checkpoint or "", best.epoch, score),
            analysis.launcher_words,
            events=(best.number, number),
            parts=(score,),
        )


def _find_best_commit(
    commits: Sequence[Commit], score: str | None, order: str | None
) -> Commit | None:
    """Return the only best commit; None where several are, or the score is not known."""
    if score is None or order is None:
        return None
    scored_commits = []
    for commit in commits:
        record = dict(flatten_values(commit.metrics[0])) if commit.metrics else {}
        value = parse_number(record.get(score.replace("/", ".")))
        if value is not None and value == value:  # noqa: PLR0124 (NaN has no rank)
            scored_commits.append((value if order == "max" else -value, commit))
    best_value = max((value for value, _ in scored_commits), default=None)
    best_commits = [commit for value, commit in scored_commits if value == best_value]
    return best_commits[0] if len(best_commits) == 1 else None


# -- ack -------------------------------------------------------------------------------------------


ACK = "ack"


@builtin_check(ACK, asks="Was everything that counted as saved really saved?")
def check_ack(analysis: RunAnalysis) -> CheckResult:
    """Require that reports of an attempt that ended by itself, and its result, are committed.

    This holds for attempts whose train functions returned and that no fault hit. The checkpoint
    that `fit()` returns is one of the commits, and is there. In Ray 2.60 the return of `report()`
    alone proves nothing: a fault before the controller's next poll loses the report, and that is no
    defect of the job.
    """
    fit_return = analysis.run.ending.fit_return
    ended_attempts = [a for a in analysis.run.attempts if _has_natural_end(analysis, a)]
    reports = {a.index: _find_returned_reports(analysis, a) for a in ended_attempts}
    anomalies = [
        a
        for attempt in ended_attempts
        for a in _find_lost_reports(analysis, attempt, reports[attempt.index])
    ]
    anomalies += _find_uncommitted_result(analysis)
    doubts = [
        f"reports of attempt {attempt.index} returned, and no commit at all was seen"
        for attempt in ended_attempts
        if reports[attempt.index] and not attempt.commits
    ]
    report_count = sum(map(len, reports.values()))
    evidence = report_count + (fit_return is not None)
    if not evidence and not anomalies and (analysis.has_expected_error or not ended_attempts):
        return not_applicable(
            ACK, "no attempt ended by itself, so nothing relied on what was saved"
        )
    return conclude(
        ACK,
        anomalies=anomalies,
        doubts=doubts,
        evidence=evidence,
        summary=f"{plural(report_count, 'report')} of the attempt that ended by itself, each "
        f"committed",
    )


def _has_natural_end(analysis: RunAnalysis, attempt: Attempt) -> bool:
    if attempt.index in analysis.hits or attempt.decisions or analysis.is_cut_short(attempt):
        return False
    if attempt is analysis.run.attempts[-1] and analysis.run.ending.is_finished:
        return True
    function_ends = (
        e for _, e in analysis.history.select_events(TrainFnEnded) if e.attempt == attempt.index
    )
    ended_ranks = {e.rank for e in function_ends if e.error is None}
    return bool(attempt.worker_locations) and ended_ranks == {
        location.rank for location in attempt.worker_locations
    }


def _find_returned_reports(
    analysis: RunAnalysis, attempt: Attempt
) -> Mapping[int, tuple[int, ...]]:
    """Return the epochs whose report returned on every rank, with the events."""
    numbers_by_epoch: dict[int, dict[int, int]] = {}
    for number, event in analysis.history.select_events(ReportReturned):
        if event.attempt == attempt.index and event.error is None:
            numbers_by_epoch.setdefault(event.epoch, {})[event.rank] = number
    all_ranks = set(attempt.starts)
    return {
        epoch: tuple(numbers.values())
        for epoch, numbers in numbers_by_epoch.items()
        if set(numbers) == all_ranks
    }


def _find_lost_reports(
    analysis: RunAnalysis, attempt: Attempt, reports: Mapping[int, tuple[int, ...]]
) -> Iterator[Anomaly]:
    committed_epochs = {commit.epoch for commit in attempt.commits}
    # Without any commit, it is the controller's events that are missing, not the commits.
    for epoch, events in sorted(reports.items()) if committed_epochs else ():
        if epoch not in committed_epochs:
            yield build_anomaly(
                ReportNotCommitted(attempt.index, epoch), analysis.launcher_words, events=events
            )


def _find_uncommitted_result(analysis: RunAnalysis) -> Iterator[Anomaly]:
    number, fit_return = analysis.run.ending.fit_return or (0, None)
    if fit_return is None or fit_return.checkpoint is None:
        return
    names = {c.checkpoint for a in analysis.run.attempts for c in (*a.early_commits, *a.commits)}
    final_checkpoints = find_final_checkpoints(analysis.run)
    if names and fit_return.checkpoint not in names:
        yield build_anomaly(
            ReturnedCheckpointUncommitted(fit_return.checkpoint),
            analysis.launcher_words,
            events=(number,),
        )
    elif final_checkpoints is not None and fit_return.checkpoint not in final_checkpoints[1]:
        yield build_anomaly(
            ReturnedCheckpointMissing(fit_return.checkpoint),
            analysis.launcher_words,
            events=(number, final_checkpoints[0]),
        )
