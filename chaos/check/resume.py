"""Checks of the place of a restart: its checkpoint, the files it read, and whether ranks agree."""

from collections.abc import Iterator, Mapping

from chaos.check.analysis import RunAnalysis
from chaos.check.attempt import Commit, Start
from chaos.check.files import Save, is_own, place_of
from chaos.check.own_saves import beyond_sight, own_files, resumes_from_own_files
from chaos.check.restarts import Restart
from chaos.check.result import conclude, own_check, without_restart
from chaos.check.state_snapshots import parts_of
from chaos.check.state_snapshots import place_of as seen_at
from chaos.model.event import CheckpointRead, FileLoaded, FitCalled, PartUploaded
from chaos.model.events.state import group_of
from chaos.model.places import START
from chaos.model.verdict import Anomaly, CheckResult
from chaos.words import plural

# -- start-decision --------------------------------------------------------------------------------


START_DECISION = "start-decision"


@own_check(
    START_DECISION, asks="Did every attempt that began anew have a reason that was reported?"
)
def check_start_decision(analysis: RunAnalysis) -> CheckResult:
    """Require that no rank trains from scratch because reading its checkpoint failed.

    The promise of an explicit start. A load that fails ends the attempt, or falls back to an older
    save; it is never taken for a first run (facebookresearch/metaseq#602). The promise is broken
    where a rank's load raised, nothing of this run was read after it, the rank trained all the
    same, and did so from the very beginning, as its state shows. Where that was not seen, nothing
    of this run may have been read before it either: a file that is read besides the checkpoint may
    be missing. Where nothing was saved yet there is nothing to fall back to.
    """
    if not analysis.restarts:
        return without_restart(START_DECISION, analysis)
    anomalies = [
        a for restart in analysis.restarts for a in _taken_for_a_first_run(analysis, restart)
    ]
    started = sum(len(restart.attempt.starts) for restart in analysis.restarts)
    silent = [r.attempt.index for r in analysis.restarts if not r.attempt.starts]
    return conclude(
        START_DECISION,
        anomalies=anomalies,
        doubts=[f"how attempt {index} started was not seen" for index in silent],
        evidence=started,
        summary=f"{plural(len(analysis.restarts), 'restart')}; no failed load was taken for a "
        "first run",
    )


def _taken_for_a_first_run(analysis: RunAnalysis, restart: Restart) -> Iterator[Anomaly]:
    attempt = restart.attempt
    for rank, start in sorted(attempt.starts.items()):
        failed = _last_failure(analysis, attempt.index, rank)
        if failed is None or rank not in attempt.first_steps:
            continue
        was_saved = _was_saved(analysis, restart, before=start.number)
        if not was_saved or not _is_from_scratch(analysis, attempt.index, start):
            continue
        number, load = failed
        yield Anomaly(
            message=f"rank {rank} of attempt {attempt.index} could not read {load.path} "
            f"({load.error}), and trained from scratch without a word",
            events=(number, attempt.first_steps[rank]),
        )


def _was_saved(analysis: RunAnalysis, restart: Restart, *, before: int) -> bool:
    """Return whether there was something to resume: a commit, or a save of the job's own.

    The save must come after a step. Other files of a job that gives Ray its checkpoints do not
    count.
    """
    if restart.newest is not None:
        return True
    return resumes_from_own_files(analysis) and any(
        save.place > START for save in analysis.run.files.published(before=before)
    )


def _is_from_scratch(analysis: RunAnalysis, attempt: int, start: Start) -> bool:
    """Return whether a rank trained from scratch, as far as is known.

    A job that keeps files of its own and found no place in them begins where a first run does. Its
    state is right at that place, so it does not show the failure.
    """
    if attempt in analysis.began_anew or (start.checkpoint is None and start.place == START):
        return True
    if any(index == attempt for index, _ in analysis.run.snapshots.entries):
        return start.checkpoint is None and _is_reset(analysis, attempt, start.rank)
    return analysis.run.files.newest_loaded(attempt, start.rank) is None


def _is_reset(analysis: RunAnalysis, attempt: int, rank: int) -> bool:
    mine = (row for row in analysis.components if (row.attempt, row.rank) == (attempt, rank))
    return {row.standing for row in mine if row.group == "model"} == {"reset"}


def _last_failure(analysis: RunAnalysis, attempt: int, rank: int) -> tuple[int, FileLoaded] | None:
    """Return the last load that raised, if no later one succeeded."""
    failed = None
    for number, load in analysis.run.files.loads_of(attempt, rank):
        if load.error is not None:
            failed = number, load
        elif is_own(load):
            failed = None
    return failed


# -- committed-only --------------------------------------------------------------------------------


COMMITTED_ONLY = "committed-only"


@own_check(
    COMMITTED_ONLY, asks="Did every restart go on from something that was whole and recorded?"
)
def check_committed_only(analysis: RunAnalysis) -> CheckResult:
    """Require that what an attempt is handed, or asks for, was committed before it began.

    Nor does a rank continue from a file of its own whose writing was never seen to end. The promise
    that nothing is resumed from what is not committed: files of a report that was cut off
    (ray-project/ray#41700), or half a file (Lightning-AI/pytorch-lightning#688). `checkpoints`
    judges a file that cannot be read at all.
    """
    if not analysis.restarts:
        return without_restart(COMMITTED_ONLY, analysis)
    anomalies = [
        anomaly
        for restart in analysis.restarts
        for anomaly in (
            *_handed_uncommitted(restart, analysis.run.committed),
            *_read_uncommitted(analysis, restart),
        )
    ]
    anomalies += [a for restart in analysis.restarts for a in _resumed_from_torn(analysis, restart)]
    unheard = [r.attempt.index for r in analysis.restarts if not r.checkpoints]
    return conclude(
        COMMITTED_ONLY,
        anomalies=anomalies,
        doubts=[f"no rank of attempt {index} said what it was handed" for index in unheard],
        evidence=sum(len(restart.checkpoints) for restart in analysis.restarts),
        summary=f"{plural(len(analysis.restarts), 'restart')} from {analysis.terms.whole}, or anew",
    )


def _handed_uncommitted(restart: Restart, commits: Mapping[str, Commit]) -> Iterator[Anomaly]:
    for start in restart.attempt.starts.values():
        if not _is_known(start.checkpoint, restart, commits):
            yield Anomaly(
                message=f"attempt {restart.attempt.index} was handed {start.checkpoint}, which was "
                "never committed",
                events=(start.number,),
            )
            return


def _is_known(checkpoint: str | None, restart: Restart, commits: Mapping[str, Commit]) -> bool:
    if checkpoint is None:
        return True
    commit = commits.get(checkpoint)
    return commit is not None and commit.attempt < restart.attempt.index


def _read_uncommitted(analysis: RunAnalysis, restart: Restart) -> Iterator[Anomaly]:
    checkpoints = set(restart.checkpoints.values())
    for number, read in analysis.history.of(CheckpointRead):
        first = restart.attempt.first_steps.get(read.rank, len(analysis.history))
        is_early = read.attempt == restart.attempt.index and number <= first
        is_known = _is_known(read.checkpoint, restart, analysis.run.committed)
        if is_early and read.checkpoint not in checkpoints and not is_known:
            yield Anomaly(
                message=f"rank {read.rank} of attempt {read.attempt} was given {read.checkpoint}, "
                "which was never committed",
                events=(number,),
            )


def _resumed_from_torn(analysis: RunAnalysis, restart: Restart) -> Iterator[Anomaly]:
    files, index = analysis.run.files, restart.attempt.index
    for rank in sorted(restart.attempt.first_steps):
        for number, load in files.loads_of(index, rank):
            torn = files.torn(load.path, before=number)
            if load.error is None and load.saved_epoch is None and torn is not None:
                yield Anomaly(
                    message=f"rank {rank} of attempt {index} went on from {load.path}, whose "
                    f"writing by rank {torn.rank} was never finished",
                    events=(torn.number, number),
                )


# -- agreement -------------------------------------------------------------------------------------


AGREEMENT = "agreement"


@own_check(AGREEMENT, asks="Did all ranks of an attempt go on from one and the same place?")
def check_agreement(analysis: RunAnalysis) -> CheckResult:
    """Require that all ranks of a new attempt agree on checkpoint, epoch and step.

    They also agree on the age of the files of one kind that several of them read, and on the model
    that they enter with, if they do so in the baseline. Where all state is seen to be right at
    their place, the ages of files do not matter: the files then hold no training state, but a log
    that each rank keeps at its own pace. The promise that ranks and parts agree: files of each rank
    without a barrier (ray-project/ray#41700), a file that only some ranks find
    (facebookresearch/detectron2#1732), two streams that each pick their own newest
    (pytorch/torchtitan PR #4686).
    """
    if not analysis.restarts:
        return without_restart(AGREEMENT, analysis)
    anomalies = [
        anomaly
        for restart in analysis.restarts
        for anomaly in (
            _different_starts(analysis, restart)
            or _different_files(analysis, restart)
            or _different_models(analysis, restart),
        )
        if anomaly is not None
    ]
    unheard = [r.attempt.index for r in analysis.restarts if not r.attempt.starts]
    return conclude(
        AGREEMENT,
        anomalies=anomalies,
        doubts=[f"no rank of attempt {index} said how it started" for index in unheard],
        evidence=sum(len(restart.attempt.starts) for restart in analysis.restarts),
        summary=f"all ranks resumed at one place in {plural(len(analysis.restarts), 'restart')}"
        f"{_grounds(analysis)}",
    )


def _grounds(analysis: RunAnalysis) -> str:
    """Return the evidence for the places, each kind once."""
    told = dict.fromkeys(r.attempt.grounds for r in analysis.restarts if r.attempt.grounds)
    return f": {', or '.join(told)}" if told else ""


def _different_starts(analysis: RunAnalysis, restart: Restart) -> Anomaly | None:
    starts = dict(sorted(restart.attempt.starts.items()))
    checkpoints = {rank: start.checkpoint or "nothing" for rank, start in starts.items()}
    places = {r: str(start.place) for r, start in starts.items() if start.settled}
    events = tuple(start.number for start in starts.values())
    if len(set(checkpoints.values())) > 1:
        who, named = f"attempt {restart.attempt.index}", _by_rank(checkpoints)
        return Anomaly(message=f"{who} was not handed one checkpoint: {named}", events=events)
    # Where none had a step left to make, each stands where a file that it read says.
    is_idle = not restart.attempt.steps and analysis.run.ending.is_finished
    if len(set(places.values())) > 1 and not is_idle:
        said = f"the ranks of attempt {restart.attempt.index} resumed at several places: "
        why = beyond_sight(analysis, restart)
        return Anomaly(message=f"{said}{_by_rank(places)}{why}", events=events)
    return None


def _different_files(analysis: RunAnalysis, restart: Restart) -> Anomaly | None:
    index = restart.attempt.index
    by_series: dict[str, dict[int, tuple[int, FileLoaded]]] = {}
    for rank in sorted(restart.attempt.starts):
        for series, found in analysis.run.files.newest_of_series(index, rank).items():
            by_series.setdefault(series, {})[rank] = found
    for newest in by_series.values():
        # One that did not change from save to save, as a generator that nothing draws from, has
        # every age at which it was saved.
        ages = [analysis.run.files.ages(load) for _, load in newest.values()]
        if set.intersection(*ages) or _is_no_matter(analysis, restart, ranks=set(newest)):
            continue
        told = {r: f"{load.path} of {place_of(load)}" for r, (_, load) in newest.items()}
        return Anomaly(
            message=f"the ranks of attempt {index} read files of different ages: {_by_rank(told)}; "
            "ranks must agree on the newest save that all of them have",
            events=tuple(number for number, _ in newest.values()),
        )
    return None


def _is_no_matter(analysis: RunAnalysis, restart: Restart, *, ranks: set[int]) -> bool:
    """Return whether the files that ranks read cannot matter.

    The attempt was ended, by a fault or at our limit, before any rank trained; or these ranks were
    seen to enter with the right model, and all ranks with all the state that was due.
    """
    attempt = restart.attempt
    is_ended = attempt.index in analysis.hits or analysis.is_cut_short(attempt)
    if is_ended and not attempt.first_steps:
        return True
    rows = [row for row in analysis.components if row.attempt == attempt.index]
    models = {row.rank for row in rows if row.group == "model" and row.standing == "restored"}
    return models >= ranks and not any(row.is_broken for row in rows)


def _different_models(analysis: RunAnalysis, restart: Restart) -> Anomaly | None:
    entries = analysis.run.snapshots.entries
    mine = [
        (n, s) for (index, _), (n, s) in sorted(entries.items()) if index == restart.attempt.index
    ]
    if analysis.reference is None or len({(s.epoch, s.step) for _, s in mine}) != 1:
        return None
    theirs = analysis.reference.snapshots.by_place
    due = [theirs.get(seen_at(seen)) for _, seen in mine]
    for name in sorted(parts_of(mine[0][1])):
        if group_of(name) != "model" or name in analysis.unstable:
            continue
        digests = {s.rank: parts_of(s)[name].digest for _, s in mine if name in parts_of(s)}
        agreed = {parts_of(seen)[name].digest for seen in due if name in parts_of(seen)}
        if len(set(digests.values())) > 1 and len(agreed) == 1:
            rank = next(r for r, d in digests.items() if d != digests[min(digests)])
            return Anomaly(
                message=f"rank {rank} entered attempt {restart.attempt.index} with another model "
                f"than rank {min(digests)}: not all ranks loaded it, and nothing made them equal",
                events=tuple(number for number, _ in mine),
            )
    return None


def _by_rank(by_rank: Mapping[int, str]) -> str:
    return ", ".join(f"rank {rank} {what}" for rank, what in by_rank.items())


# -- resume-point ----------------------------------------------------------------------------------


RESUME_POINT = "resume-point"


@own_check(RESUME_POINT, asks="Did every restart begin from the newest committed checkpoint?")
def check_resume_point(analysis: RunAnalysis) -> CheckResult:
    """Require that a new attempt continues from the checkpoint that was committed last.

    The promise of the resume point. An attempt has no checkpoint only if none was committed. Known
    defects: an older one (ray-project/ray#9036: resume and retention disagree), none although there
    is one (ray-project/ray#5734), one that is handed and not used (ray-project/ray#46814), or one
    whose files are younger than the place at which training is seen to go on. In Ray
    2.60 a report that returned is no commit yet: the controller records it at its next poll. A job
    that keeps files of its own continues from the newest save that was there as the attempt began,
    whole and with the part of every rank, of the series that it reads (latest by name:
    allenai/open-instruct#542). A save is as old as the model in it: one that is written again, as
    with a mark, is no newer. What a process writes before its first step is data, and no save; a
    whole copy of a save is one more. Of an attempt that began anew the finding says what became of
    the saves: no rank read them, they were removed, or they lay on the disk of a node. Where all is
    the baseline's in the end, the severity is work lost.
    """
    if not analysis.restarts:
        return without_restart(RESUME_POINT, analysis)
    anomalies = []
    for restart in analysis.restarts:
        if len(set(restart.checkpoints.values())) > 1:
            continue  # a finding of `agreement`
        found = (
            list(_handed_older(analysis, restart, analysis.run.committed))
            or list(_left_alone(analysis, restart))
            or list(_went_back(analysis, restart))
        )
        anomalies += found or list(own_files(analysis, restart))
    unheard = [r.attempt.index for r in analysis.restarts if not r.checkpoints]
    return conclude(
        RESUME_POINT,
        anomalies=anomalies,
        doubts=[f"no rank of attempt {i} said which checkpoint it was handed" for i in unheard],
        evidence=sum(len(restart.checkpoints) for restart in analysis.restarts),
        summary=f"{plural(len(analysis.restarts), 'restart')} from the newest "
        f"{analysis.terms.save} on every rank",
    )


def _handed_older(
    analysis: RunAnalysis, restart: Restart, commits: Mapping[str, Commit]
) -> Iterator[Anomaly]:
    newest = restart.newest.checkpoint if restart.newest else None
    wrong = [s for s in restart.attempt.starts.values() if s.checkpoint != newest]
    if not wrong or restart.newest is None:
        return
    who, checkpoint = f"attempt {restart.attempt.index}", wrong[0].checkpoint
    commit = None if checkpoint is None else commits.get(checkpoint)
    if checkpoint is not None and (commit is None or commit.attempt >= restart.attempt.index):
        return  # never committed at all
    was = f"{restart.newest.checkpoint} (epoch {restart.newest.epoch}) was committed"
    message = f"{who} was handed no checkpoint and started from scratch, although {was}"
    names = [e.replaced.get("name", e.run_name) for _, e in analysis.history.of(FitCalled)]
    if len(set(names)) > 1:  # Ray looks for its snapshot by the run's name
        message += f"; the script named its run {names[0]} at first, and {names[-1]} at the end"
    if commit is not None:
        message = f"{who} was handed {checkpoint} (epoch {commit.epoch}), although {was} after it"
    yield Anomaly(message=message, events=(*(s.number for s in wrong), restart.newest.number))


def _left_alone(analysis: RunAnalysis, restart: Restart) -> Iterator[Anomaly]:
    """Yield an attempt that was handed a checkpoint, and trained as if there were none."""
    attempt, files = restart.attempt, analysis.run.files
    checkpoint = next((c for c in restart.checkpoints.values() if c is not None), None)
    read = any(files.newest_loaded(attempt.index, rank) for rank in attempt.starts)
    if checkpoint is None or read or attempt.index not in analysis.began_anew:
        return
    why = "and loaded nothing from it" if attempt.asked else "and no rank asked for it"
    yield Anomaly(
        message=f"attempt {attempt.index} started from scratch: it was handed {checkpoint}, {why}",
        events=tuple(start.number for start in attempt.starts.values()),
    )


def _went_back(analysis: RunAnalysis, restart: Restart) -> Iterator[Anomaly]:
    """Yield an attempt whose training shows an older place than the files that it was handed.

    A checkpoint may be older than its report, so the place of its files counts, as far as they were
    seen to be saved.
    """
    for rank, start in sorted(restart.attempt.starts.items()):
        if start.checkpoint is None or not start.moved:
            continue
        saved = _saved_at(analysis, start.checkpoint)
        if saved is None or start.place >= saved.place:
            continue
        yield Anomaly(
            message=f"rank {rank} of attempt {restart.attempt.index} was handed "
            f"{start.checkpoint}, whose files were saved at {saved.place}, and resumed at "
            f"{start.place}: {restart.attempt.grounds}",
            events=(start.number, saved.number),
        )
        return


def _saved_at(analysis: RunAnalysis, checkpoint: str) -> Save | None:
    """Return the youngest save among the files of a checkpoint of Ray's; None: none is known."""
    parts = analysis.history.of(PartUploaded)
    digests = {d for _, e in parts if e.checkpoint == checkpoint for d in e.files.values()}
    known = [save for save in analysis.run.files.saves if save.digest in digests]
    return max(known, key=lambda save: save.place, default=None)
