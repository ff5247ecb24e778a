"""Checks of the place of a restart: its checkpoint, the files it read, and whether ranks agree."""

from collections.abc import Iterator, Mapping

from chaos.check.analysis import RunAnalysis
from chaos.check.anomaly import build_anomaly
from chaos.check.kinds.base import Facts
from chaos.check.kinds.resume import (
    CheckpointNotHanded,
    CheckpointUnused,
    DifferentAges,
    DifferentCheckpoints,
    DifferentModels,
    DifferentPlaces,
    FailedLoadIgnored,
    NamedCheckpoint,
    OlderCheckpoint,
    OlderThanFiles,
    PlacedFile,
    UncommittedCheckpoint,
    UnfinishedFileUsed,
)
from chaos.check.own_saves import find_stale_resumes, find_unreachable_file, has_own_saves
from chaos.check.restarts import Restart
from chaos.check.result import builtin_check, conclude, judge_no_restart
from chaos.model.event import CheckpointRead, FileLoaded, FitCalled, PartUploaded
from chaos.model.events.state import find_group
from chaos.model.places import START
from chaos.model.verdict import Anomaly, CheckResult
from chaos.resume.attempt import Commit, RankStart
from chaos.resume.files import SavedFile, find_save_place, is_readable_run_file
from chaos.resume.state_snapshots import index_parts, locate_snapshot
from chaos.wording import plural

# -- start-decision --------------------------------------------------------------------------------


START_DECISION = "start-decision"


@builtin_check(
    START_DECISION, asks="Did every attempt that began anew have a reason that was reported?"
)
def check_start_decision(analysis: RunAnalysis) -> CheckResult:
    """Require that no rank trains from scratch because reading its checkpoint failed.

    A load that fails ends the attempt, or falls back to an older save; it is never taken for a
    first run (facebookresearch/metaseq#602). The check fails where a rank's load raised, nothing of
    this run was read after it, and the rank trained from the very beginning, as its state shows.
    """
    if not analysis.restarts:
        return judge_no_restart(START_DECISION, analysis)
    anomalies = [a for restart in analysis.restarts for a in _find_silent_starts(analysis, restart)]
    start_count = sum(len(restart.attempt.starts) for restart in analysis.restarts)
    silent_attempts = [r.attempt.index for r in analysis.restarts if not r.attempt.starts]
    return conclude(
        START_DECISION,
        anomalies=anomalies,
        doubts=[f"how attempt {index} started was not seen" for index in silent_attempts],
        evidence=start_count,
        summary=f"{plural(len(analysis.restarts), 'restart')}; no failed load was taken for a "
        "first run",
    )


def _find_silent_starts(analysis: RunAnalysis, restart: Restart) -> Iterator[Anomaly]:
    attempt = restart.attempt
    for rank, start in sorted(attempt.starts.items()):
        failed_load = _find_last_failure(analysis, attempt.index, rank)
        if failed_load is None or rank not in attempt.first_step_event_numbers:
            continue
        has_save = _has_earlier_save(analysis, restart, start_number=start.number)
        if not has_save or not _is_from_scratch(analysis, attempt.index, start):
            continue
        number, load = failed_load
        yield build_anomaly(
            FailedLoadIgnored(rank, attempt.index, load.path, str(load.error)),
            analysis.launcher_words,
            events=(number, attempt.first_step_event_numbers[rank]),
        )


def _has_earlier_save(analysis: RunAnalysis, restart: Restart, *, start_number: int) -> bool:
    """Return whether there was something to resume: a commit, or a save of the job's own.

    The save must come after a step. Other files of a job that gives Ray its checkpoints do not
    count.
    """
    if restart.newest_commit is not None:
        return True
    return has_own_saves(analysis) and any(
        save.write_place > START
        for save in analysis.run.files.find_confirmed_saves(end_number=start_number)
    )


def _is_from_scratch(analysis: RunAnalysis, attempt: int, start: RankStart) -> bool:
    """Return whether a rank trained from scratch, as far as is known.

    A job that keeps files of its own and found no place in them begins where a first run does. Its
    state is right at that place, so it does not show the failure.
    """
    if attempt in analysis.scratch_attempts or (
        start.checkpoint is None and start.training_place == START
    ):
        return True
    if any(index == attempt for index, _ in analysis.run.snapshots.entries):
        return start.checkpoint is None and _is_reset(analysis, attempt, start.rank)
    return analysis.run.files.find_newest_load(attempt, start.rank) is None


def _is_reset(analysis: RunAnalysis, attempt: int, rank: int) -> bool:
    rank_rows = (row for row in analysis.state_rows if (row.attempt, row.rank) == (attempt, rank))
    return {row.standing for row in rank_rows if row.group == "model"} == {"reset"}


def _find_last_failure(
    analysis: RunAnalysis, attempt: int, rank: int
) -> tuple[int, FileLoaded] | None:
    """Return the last load that raised, if no later one succeeded."""
    failed_load = None
    for number, load in analysis.run.files.select_loads(attempt, rank):
        if load.error is not None:
            failed_load = number, load
        elif is_readable_run_file(load):
            failed_load = None
    return failed_load


# -- committed-only --------------------------------------------------------------------------------


COMMITTED_ONLY = "committed-only"


@builtin_check(
    COMMITTED_ONLY, asks="Did every restart go on from something that was whole and recorded?"
)
def check_committed_only(analysis: RunAnalysis) -> CheckResult:
    """Require that what an attempt is handed, or asks for, was committed before it began.

    Nor does a rank go on from a file of its own whose writing was never seen to end. Known defects:
    ray-project/ray#41700, Lightning-AI/pytorch-lightning#688. `checkpoints` judges a file that
    cannot be read at all.
    """
    if not analysis.restarts:
        return judge_no_restart(COMMITTED_ONLY, analysis)
    anomalies = [
        anomaly
        for restart in analysis.restarts
        for anomaly in (
            *_find_uncommitted_starts(analysis, restart),
            *_find_uncommitted_reads(analysis, restart),
        )
    ]
    anomalies += [a for restart in analysis.restarts for a in _find_torn_resumes(analysis, restart)]
    silent_attempts = [r.attempt.index for r in analysis.restarts if not r.checkpoints]
    return conclude(
        COMMITTED_ONLY,
        anomalies=anomalies,
        doubts=[f"no rank of attempt {index} said what it was handed" for index in silent_attempts],
        evidence=sum(len(restart.checkpoints) for restart in analysis.restarts),
        summary=f"{plural(len(analysis.restarts), 'restart')} from "
        f"{analysis.launcher_words.complete_saves}, or anew",
    )


def _find_uncommitted_starts(analysis: RunAnalysis, restart: Restart) -> Iterator[Anomaly]:
    for start in restart.attempt.starts.values():
        checkpoint = start.checkpoint
        if checkpoint is not None and not _is_committed(analysis, checkpoint, restart):
            yield build_anomaly(
                UncommittedCheckpoint(restart.attempt.index, checkpoint),
                analysis.launcher_words,
                events=(start.number,),
            )
            return


def _is_committed(analysis: RunAnalysis, checkpoint: str, restart: Restart) -> bool:
    commit = analysis.run.checkpoint_commits.get(checkpoint)
    return commit is not None and commit.attempt < restart.attempt.index


def _find_uncommitted_reads(analysis: RunAnalysis, restart: Restart) -> Iterator[Anomaly]:
    checkpoints = set(restart.checkpoints.values())
    for number, checkpoint_read in analysis.history.select_events(CheckpointRead):
        first_step = restart.attempt.first_step_event_numbers.get(
            checkpoint_read.rank, len(analysis.history)
        )
        is_early = checkpoint_read.attempt == restart.attempt.index and number <= first_step
        checkpoint = checkpoint_read.checkpoint
        if not is_early or checkpoint is None or checkpoint in checkpoints:
            continue
        if not _is_committed(analysis, checkpoint, restart):
            yield build_anomaly(
                UncommittedCheckpoint(restart.attempt.index, checkpoint, checkpoint_read.rank),
                analysis.launcher_words,
                events=(number,),
            )


def _find_torn_resumes(analysis: RunAnalysis, restart: Restart) -> Iterator[Anomaly]:
    files, index = analysis.run.files, restart.attempt.index
    for rank in sorted(restart.attempt.first_step_event_numbers):
        for number, load in files.select_loads(index, rank):
            torn_save = files.find_torn_save(load.path, end_number=number)
            if load.error is None and load.saved_epoch is None and torn_save is not None:
                yield build_anomaly(
                    UnfinishedFileUsed(rank, index, load.path, torn_save.rank),
                    analysis.launcher_words,
                    events=(torn_save.event_number, number),
                )


# -- agreement -------------------------------------------------------------------------------------


AGREEMENT = "agreement"


@builtin_check(AGREEMENT, asks="Did all ranks of an attempt go on from one and the same place?")
def check_agreement(analysis: RunAnalysis) -> CheckResult:
    """Require that all ranks of a new attempt agree on checkpoint, epoch and step.

    They also agree on the age of the files of one kind that several of them read, and on the model
    that they enter with. Both count only if they agree in the baseline. Where all state is right at
    their place, ages do not matter. Known defects: ray-project/ray#41700,
    facebookresearch/detectron2#1732, pytorch/torchtitan PR #4686.
    """
    if not analysis.restarts:
        return judge_no_restart(AGREEMENT, analysis)
    anomalies = [
        anomaly
        for restart in analysis.restarts
        for anomaly in (
            _compare_starts(analysis, restart)
            or _compare_files(analysis, restart)
            or _compare_models(analysis, restart),
        )
        if anomaly is not None
    ]
    silent_attempts = [r.attempt.index for r in analysis.restarts if not r.attempt.starts]
    return conclude(
        AGREEMENT,
        anomalies=anomalies,
        doubts=[f"no rank of attempt {index} said how it started" for index in silent_attempts],
        evidence=sum(len(restart.attempt.starts) for restart in analysis.restarts),
        summary=f"all ranks resumed at one place in {plural(len(analysis.restarts), 'restart')}"
        f"{_describe_grounds(analysis)}",
    )


def _describe_grounds(analysis: RunAnalysis) -> str:
    """Return the evidence for the places, each kind once."""
    grounds = dict.fromkeys(
        restart.attempt.grounds for restart in analysis.restarts if restart.attempt.grounds
    )
    return f": {', or '.join(grounds)}" if grounds else ""


def _compare_starts(analysis: RunAnalysis, restart: Restart) -> Anomaly | None:
    starts = dict(sorted(restart.attempt.starts.items()))
    checkpoints = {rank: start.checkpoint for rank, start in starts.items()}
    training_places = {r: start.training_place for r, start in starts.items() if start.is_settled}
    events = tuple(start.number for start in starts.values())
    if len(set(checkpoints.values())) > 1:
        facts = DifferentCheckpoints(restart.attempt.index, checkpoints)
        return build_anomaly(facts, analysis.launcher_words, events=events)
    # Where none had a step left to make, each stands where a file that it read says.
    is_finished = not restart.attempt.steps and analysis.run.ending.is_finished
    if len(set(training_places.values())) > 1 and not is_finished:
        unreachable_file = find_unreachable_file(analysis, restart)
        return build_anomaly(
            DifferentPlaces(restart.attempt.index, training_places, unreachable_file),
            analysis.launcher_words,
            events=events,
        )
    return None


def _compare_files(analysis: RunAnalysis, restart: Restart) -> Anomaly | None:
    index = restart.attempt.index
    by_series: dict[str, dict[int, tuple[int, FileLoaded]]] = {}
    for rank in sorted(restart.attempt.starts):
        for series, newest_load in analysis.run.files.find_newest_loads(index, rank).items():
            by_series.setdefault(series, {})[rank] = newest_load
    for newest_loads in by_series.values():
        # One that did not change from save to save, as a generator that nothing draws from, has
        # every age at which it was saved.
        ages = [analysis.run.files.find_ages(load) for _, load in newest_loads.values()]
        if set.intersection(*ages) or _is_irrelevant(analysis, restart, ranks=set(newest_loads)):
            continue
        placed_files = {
            rank: PlacedFile(load.path, find_save_place(load))
            for rank, (_, load) in newest_loads.items()
        }
        return build_anomaly(
            DifferentAges(index, placed_files),
            analysis.launcher_words,
            events=(number for number, _ in newest_loads.values()),
        )
    return None


def _is_irrelevant(analysis: RunAnalysis, restart: Restart, *, ranks: set[int]) -> bool:
    """Return whether the files that ranks read cannot matter.

    The attempt was ended, by a fault or at our limit, before any rank trained; or these ranks were
    seen to enter with the right model, and all ranks with all the state that was due.
    """
    attempt = restart.attempt
    is_ended = attempt.index in analysis.hits or analysis.is_cut_short(attempt)
    if is_ended and not attempt.first_step_event_numbers:
        return True
    rows = [row for row in analysis.state_rows if row.attempt == attempt.index]
    models = {row.rank for row in rows if row.group == "model" and row.standing == "restored"}
    return models >= ranks and not any(row.is_broken for row in rows)


def _compare_models(analysis: RunAnalysis, restart: Restart) -> Anomaly | None:
    entries_by_rank = analysis.run.snapshots.entries
    entry_states = [
        (n, s)
        for (index, _), (n, s) in sorted(entries_by_rank.items())
        if index == restart.attempt.index
    ]
    if analysis.reference is None or len({(s.epoch, s.step) for _, s in entry_states}) != 1:
        return None
    baseline_states = analysis.reference.snapshots.latest_snapshots
    expected_states = [baseline_states.get(locate_snapshot(state)) for _, state in entry_states]
    for name in sorted(index_parts(entry_states[0][1])):
        if find_group(name) != "model" or name in analysis.unstable_components:
            continue
        digests = {
            s.rank: index_parts(s)[name].digest for _, s in entry_states if name in index_parts(s)
        }
        baseline_digests = {
            index_parts(state)[name].digest
            for state in expected_states
            if name in index_parts(state)
        }
        if len(set(digests.values())) > 1 and len(baseline_digests) == 1:
            rank = next(r for r, d in digests.items() if d != digests[min(digests)])
            return build_anomaly(
                DifferentModels(restart.attempt.index, rank, min(digests)),
                analysis.launcher_words,
                events=(number for number, _ in entry_states),
            )
    return None


# -- resume-point ----------------------------------------------------------------------------------


RESUME_POINT = "resume-point"


@builtin_check(RESUME_POINT, asks="Did every restart begin from the newest committed checkpoint?")
def check_resume_point(analysis: RunAnalysis) -> CheckResult:
    """Require that a new attempt continues from the checkpoint that was committed last.

    An attempt has no checkpoint only if none was committed. Known defects: ray-project/ray#9036,
    ray-project/ray#5734, ray-project/ray#46814. In Ray 2.60 a report that returned is no commit
    yet: the controller records it at its next poll.

    A job with files of its own goes on from the newest save of the series that it reads: whole,
    with the part of every rank, and there as the attempt began. A save is as old as the model in
    it, even if it is written again. What a process writes before its first step is data, and no
    save. Where all is the baseline's in the end, the severity is work lost.
    """
    if not analysis.restarts:
        return judge_no_restart(RESUME_POINT, analysis)
    anomalies = []
    for restart in analysis.restarts:
        if len(set(restart.checkpoints.values())) > 1:
            continue  # a finding of `agreement`
        findings = (
            list(_find_older_starts(analysis, restart, analysis.run.checkpoint_commits))
            or list(_find_unused_checkpoint(analysis, restart))
            or list(_find_older_place(analysis, restart))
        )
        anomalies += findings or list(find_stale_resumes(analysis, restart))
    silent_attempts = [r.attempt.index for r in analysis.restarts if not r.checkpoints]
    return conclude(
        RESUME_POINT,
        anomalies=anomalies,
        doubts=[
            f"no rank of attempt {i} said which checkpoint it was handed" for i in silent_attempts
        ],
        evidence=sum(len(restart.checkpoints) for restart in analysis.restarts),
        summary=f"{plural(len(analysis.restarts), 'restart')} from the newest "
        f"{analysis.launcher_words.save} on every rank",
    )


def _find_older_starts(
    analysis: RunAnalysis, restart: Restart, commits: Mapping[str, Commit]
) -> Iterator[Anomaly]:
    newest = restart.newest_commit.checkpoint if restart.newest_commit else None
    wrong_starts = [
        start for start in restart.attempt.starts.values() if start.checkpoint != newest
    ]
    if not wrong_starts or restart.newest_commit is None:
        return
    index, checkpoint = restart.attempt.index, wrong_starts[0].checkpoint
    commit = None if checkpoint is None else commits.get(checkpoint)
    if checkpoint is not None and (commit is None or commit.attempt >= restart.attempt.index):
        return  # never committed at all
    newest_checkpoint = NamedCheckpoint(newest or "", restart.newest_commit.epoch)
    facts: Facts = CheckpointNotHanded(index, newest_checkpoint, _find_run_names(analysis))
    if checkpoint is not None and commit is not None:
        handed_checkpoint = NamedCheckpoint(checkpoint, commit.epoch)
        facts = OlderCheckpoint(index, handed_checkpoint, newest_checkpoint)
    yield build_anomaly(
        facts,
        analysis.launcher_words,
        events=(*(start.number for start in wrong_starts), restart.newest_commit.number),
    )


def _find_run_names(analysis: RunAnalysis) -> tuple[str, str] | None:
    """Return the first and the last name of the run, by which Ray looks for its snapshot.

    None where they are the same.
    """
    names = [
        str(event.original_settings.get("name", event.run_name))
        for _, event in analysis.history.select_events(FitCalled)
    ]
    return (names[0], names[-1]) if len(set(names)) > 1 else None


def _find_unused_checkpoint(analysis: RunAnalysis, restart: Restart) -> Iterator[Anomaly]:
    """Yield an attempt that was handed a checkpoint, and trained as if there were none."""
    attempt, files = restart.attempt, analysis.run.files
    checkpoint = next((name for name in restart.checkpoints.values() if name is not None), None)
    has_read = any(files.find_newest_load(attempt.index, rank) for rank in attempt.starts)
    if checkpoint is None or has_read or attempt.index not in analysis.scratch_attempts:
        return
    yield build_anomaly(
        CheckpointUnused(attempt.index, checkpoint, is_requested=bool(attempt.reading_ranks)),
        analysis.launcher_words,
        events=(start.number for start in attempt.starts.values()),
    )


def _find_older_place(analysis: RunAnalysis, restart: Restart) -> Iterator[Anomaly]:
    """Yield an attempt whose training shows an older place than the files that it was handed.

    A checkpoint may be older than its report, so the place of its files counts, as far as they were
    seen to be saved.
    """
    for rank, start in sorted(restart.attempt.starts.items()):
        if start.checkpoint is None or not start.has_moved:
            continue
        newest_save = _find_youngest_save(analysis, start.checkpoint)
        if newest_save is None or start.training_place >= newest_save.write_place:
            continue
        yield build_anomaly(
            OlderThanFiles(
                rank,
                restart.attempt.index,
                start.checkpoint,
                saved_at=newest_save.write_place,
                resumed_at=start.training_place,
                evidence=restart.attempt.grounds,
            ),
            analysis.launcher_words,
            events=(start.number, newest_save.event_number),
        )
        return


def _find_youngest_save(analysis: RunAnalysis, checkpoint: str) -> SavedFile | None:
    """Return the youngest save among the files of a checkpoint of Ray's; None: none is known."""
    parts = analysis.history.select_events(PartUploaded)
    digests = {
        digest
        for _, event in parts
        if event.checkpoint == checkpoint
        for digest in event.files.values()
    }
    known_saves = [save for save in analysis.run.files.saves if save.digest in digests]
    return max(known_saves, key=lambda save: save.write_place, default=None)
