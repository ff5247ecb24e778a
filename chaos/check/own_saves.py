"""Attempts that did not go on from the newest of the job's own saves."""

from collections.abc import Iterator
from typing import NamedTuple

from chaos.check.analysis import RunAnalysis
from chaos.check.anomaly import build_anomaly
from chaos.check.kinds.base import Facts
from chaos.check.kinds.resume import UnreachableFile
from chaos.check.kinds.saves import (
    Cost,
    NewerSaveRemoved,
    NewestSave,
    OlderSave,
    ResumedFile,
    SaveLoss,
    SavesGone,
    SavesIgnored,
)
from chaos.check.restarts import Restart
from chaos.check.save_operations import describe_leftover
from chaos.model.places import START, TrainingPlace
from chaos.model.tiers import Tiers
from chaos.model.trigger import SAVE_MOMENTS, AtMoment
from chaos.model.verdict import Anomaly
from chaos.resume.files import SavedFile, find_save_place
from chaos.resume.newest_save import RemovedSave, SavesAtStart, find_resume_loads


class _Finding(NamedTuple):
    facts: Facts
    events: tuple[int, ...]


def find_stale_resumes(analysis: RunAnalysis, restart: Restart) -> Iterator[Anomaly]:
    """Yield an attempt that did not go on from the newest save of the job's own that was there.

    Nothing where Ray keeps the job's checkpoints, or no step was made.
    """
    if not has_own_saves(analysis) or not restart.attempt.first_step_event_numbers:
        return
    finding = _StaleResume(analysis, restart).find()
    if finding is not None:
        anomaly = build_anomaly(finding.facts, analysis.launcher_words, events=finding.events)
        is_removed = isinstance(finding.facts, SavesGone) and finding.facts.removed_at is not None
        interruption = "" if is_removed else _describe_interruption(analysis, restart)
        yield anomaly.replace(message=f"{anomaly.message}{interruption}")


def _describe_interruption(analysis: RunAnalysis, restart: Restart) -> str:
    """Return, as the end of a sentence, what a death inside a save has left, before a restart.

    Where the attempt read a save, and not what was left, it may have taken an older one for another
    reason.
    """
    clean_history, index = analysis.baseline, restart.attempt.index
    if clean_history is None or "bucket" in analysis.plan.storage.values():
        # In a bucket an object appears only when complete, so no temporary name is needed; and
        # there are no links.
        return ""
    triggers = (
        injection.op.at
        for injection in analysis.injections
        if index - 1 in injection.hit_times_by_attempt
    )
    for trigger in triggers:
        if isinstance(trigger, AtMoment) and trigger.moment in SAVE_MOMENTS:
            files = analysis.run.files
            read_paths = {
                load.path
                for reader, loads in files.loads.items()
                for _, load in loads
                if reader.attempt == index
            }
            has_read = bool(find_resume_loads(files, restart.attempt))
            return describe_leftover(
                trigger, analysis.history, clean_history, read_paths if has_read else None
            )
    return ""


def has_own_saves(analysis: RunAnalysis) -> bool:
    """Return whether the job keeps what it resumes from itself, and Ray none of it."""
    reference = analysis.reference
    has_ray_checkpoints = reference is not None and any(
        commit.checkpoint for commit in reference.lineage.commits
    )
    return analysis.run.has_only_own_saves and not has_ray_checkpoints


def has_resumed_from_newest(analysis: RunAnalysis, restart: Restart) -> bool:
    """Return whether an attempt was seen to go on from the newest of the job's own saves.

    Or to begin anew, as there was none.
    """
    attempt = restart.attempt
    is_seen = attempt.index in analysis.run.files.present_files_by_attempt
    is_from_scratch = all(start.training_place == START for start in attempt.starts.values())
    has_read = is_from_scratch or bool(find_resume_loads(analysis.run.files, attempt))
    has_evidence = is_seen and has_read and analysis.run.has_only_own_saves
    return has_evidence and not any(find_stale_resumes(analysis, restart))


def find_unreachable_file(analysis: RunAnalysis, restart: Restart) -> UnreachableFile | None:
    """Return the file that one rank read, and that another one on another node cannot see."""
    attempt, run_files = restart.attempt, analysis.run.files
    files_by_rank = run_files.present_files_by_attempt.get(attempt.index, {})
    nodes_by_rank = {location.rank: location.node_id for location in attempt.worker_locations}
    loads_by_rank = {
        rank: run_files.find_newest_load(attempt.index, rank) for rank in files_by_rank
    }
    for reader, load in loads_by_rank.items():
        for rank, files in files_by_rank.items():
            file = None if load is None else files.get(load[1].path)
            if file is None or loads_by_rank[rank] is not None or file.state == "there":
                continue
            if nodes_by_rank.get(rank) != nodes_by_rank.get(reader):
                return UnreachableFile(file.path, rank, reader)
    return None


class _StaleResume:
    """The finding of one restart that went on from no save, or from an older one."""

    def __init__(self, analysis: RunAnalysis, restart: Restart) -> None:
        self._analysis, self._restart = analysis, restart
        self._files, self._attempt = analysis.run.files, restart.attempt
        self._saves = SavesAtStart(
            self._files,
            restart.attempt,
            tiers=Tiers.from_plan(analysis.plan),
            cwd=str(analysis.plan.cwd),
            is_resized=bool(analysis.resized_attempts),
        )

    def find(self) -> _Finding | None:
        """Return that an older save was read, a newer one was removed, or none was read."""
        ranks = self._saves.loads
        if not ranks:
            return self._find_scratch_start()
        findings = (
            find(rank)
            for find in (self._find_older_save, self._find_removed_save)
            for rank in ranks
        )
        return next((finding for finding in findings if finding is not None), None)

    def _find_older_save(self, rank: int) -> _Finding | None:
        newest = self._saves.find_newer(rank)
        if newest is None:
            return None
        facts = OlderSave(
            rank,
            self._build_resumed_file(rank),
            _build_newest_save(newest.file),
            self._find_cost(newest.file),
            newest.rule,
        )
        return _Finding(facts, (newest.file.event_number, self._saves.loads[rank][0]))

    def _find_removed_save(self, rank: int) -> _Finding | None:
        newest = self._saves.find_newer_removed(rank)
        if newest is None:
            return None
        facts = NewerSaveRemoved(
            rank,
            self._build_resumed_file(rank),
            _build_newest_save(newest.file),
            newest.place,
            self._find_cost(newest.file),
        )
        load_number, _ = self._saves.loads[rank]
        return _Finding(facts, (newest.file.event_number, newest.number, load_number))

    def _find_scratch_start(self) -> _Finding | None:
        """Return that an attempt began at the very beginning, although there were saves."""
        index, starts = self._attempt.index, self._attempt.starts.values()
        if not all(start.training_place == START for start in starts):
            return None
        events = tuple(start.number for start in starts)
        if newest := self._saves.find_newest_unread():
            save, cost = _build_newest_save(newest.file), self._find_cost(newest.file)
            facts: Facts = SavesIgnored(index, save, cost, newest.rule)
        elif newest := self._saves.find_newest_lost():
            loss, removal = self._find_loss(newest.file)
            save, cost = _build_newest_save(newest.file), self._find_cost(None)
            removed_at = None if removal is None else removal.place
            facts = SavesGone(index, save, loss, removed_at, cost, newest.rule)
        else:
            return None
        return _Finding(facts, (newest.file.event_number, *events))

    # -- facts ---------------------------------------------------------------------------------

    def _build_resumed_file(self, rank: int) -> ResumedFile:
        (_, load), resume_place = self._saves.loads[rank], self._saves.find_resume_place(rank)
        written_at, find_step = find_save_place(load), self._files.find_previous_step
        return ResumedFile(
            load.path,
            written_at,
            content_place=self._files.find_content_place(load),
            earlier_resume=resume_place
            if find_step(resume_place) < find_step(written_at)
            else None,
        )

    def _find_loss(self, save: SavedFile) -> tuple[SaveLoss, RemovedSave | None]:
        """Return what became of a save that was made, and its removal by the job, if it did so."""
        states = self._saves.find_states(save)
        if "elsewhere" in states:
            return "in another node's temporary folder", None
        if "gone" in states and not self._find_writer_nodes(save).isdisjoint(
            self._find_lost_nodes()
        ):
            return "on a lost node's disk", None
        removal = self._saves.find_removal(save)
        if removal is None:
            return "not there", None
        later_places = (
            other_save.write_place
            for other_save in self._files.saves
            if save.event_number < other_save.event_number < self._saves.start_number
        )
        if any(place > save.write_place for place in later_places):
            return "removed before the next was whole", removal
        return "removed", removal

    def _find_writer_nodes(self, save: SavedFile) -> set[str]:
        """Return the nodes of the ranks that wrote a file of these bytes."""
        writers = {(s.attempt, s.rank) for s in self._files.saves if s.digest == save.digest}
        return {
            location.node_id
            for attempt in self._analysis.run.attempts
            for location in attempt.worker_locations
            if (attempt.index, location.rank) in writers
        }

    def _find_lost_nodes(self) -> set[str]:
        return {
            invocation.node_id
            for injection in self._analysis.injections
            if injection.op.fault.lost_node_count
            for _, invocation in injection.invocations
        }

    def _find_cost(self, newest: SavedFile | None) -> Cost | None:
        """Return the steps trained again, and those from the newest save; None without any."""
        lost_steps = self._restart.lost_steps_by_rank
        rank = max(lost_steps, key=lambda rank: lost_steps[rank], default=None)
        if rank is None or not lost_steps[rank]:
            return None
        newest_cost = None if newest is None else self._count_repeated_steps(newest, rank)
        return Cost(lost_steps[rank], newest_cost)

    def _count_repeated_steps(self, save: SavedFile, rank: int) -> int:
        """Return the number of a rank's steps from a save to the end of the attempt before."""
        places = [
            TrainingPlace(step.epoch, step.step)
            for attempt in self._analysis.run.attempts
            if attempt.index < self._attempt.index
            for step in attempt.steps
            if step.rank == rank
        ]
        return len({place for place in places if save.content_place < place <= places[-1]})


def _build_newest_save(save: SavedFile) -> NewestSave:
    return NewestSave(save.display_path, save.content_place)
