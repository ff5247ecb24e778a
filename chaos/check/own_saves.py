"""The saves of a job's own that an attempt could resume from, and whether it took the newest."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import chain
from pathlib import PurePath

from chaos.check.analysis import RunAnalysis
from chaos.check.anomaly import build_anomaly
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
from chaos.model.event import FileLoaded, FileTouched
from chaos.model.paths import TEMPFILE_NAME
from chaos.model.places import START, TrainingPlace
from chaos.model.tiers import Tiers
from chaos.model.trigger import SAVE_MOMENTS, AtMoment
from chaos.model.verdict import Anomaly
from chaos.resume.attempt import Attempt
from chaos.resume.files import (
    CHECKPOINT_SAVERS,
    SavedFile,
    find_save_place,
    is_readable_run_file,
    mask_path_numbers,
)
from chaos.resume.model_files import find_model_files
from chaos.resume.save_copies import SaveCopies, mask_name_numbers
from chaos.resume.whole_saves import SaveCompleteness, build_save_key, find_numbered_folder

TRAINED_SHARE_MIN = 0.5  # of the numbers that are trained
_STATE_EVIDENCE = ("state and inputs", "state")


def find_stale_resumes(analysis: RunAnalysis, restart: Restart) -> Iterator[Anomaly]:
    """Yield an attempt that did not go on from the newest save of the job's own that was there.

    Nothing where Ray keeps the job's checkpoints, or no step was made.
    """
    if has_own_saves(analysis) and restart.attempt.first_step_event_numbers:
        sources = _RestartSaves(analysis, restart)
        anomalies = chain(sources.find_outdated_loads(), sources.find_removed_saves())
        anomaly = next(anomalies, None) if sources.loads else sources.find_scratch_start()
        if anomaly is not None:
            interruption = ""
            if sources.removal is None:
                interruption = _describe_interruption(
                    analysis, restart, has_read=bool(sources.loads)
                )
            yield anomaly.replace(message=f"{anomaly.message}{interruption}")


def _describe_interruption(analysis: RunAnalysis, restart: Restart, *, has_read: bool) -> str:
    """Return, as the end of a sentence, what a death inside a save has left, before a restart.

    `has_read`: the attempt read a save. If that is not what was left, it may have taken an older
    one for another reason.
    """
    clean_history, previous_index = analysis.baseline, restart.attempt.index - 1
    if clean_history is None or "bucket" in analysis.plan.storage.values():
        # In a bucket an object appears only when complete, so no temporary name is needed; and
        # there are no links.
        return ""
    for injection in analysis.injections:
        trigger = injection.op.at
        if (
            isinstance(trigger, AtMoment)
            and trigger.moment in SAVE_MOMENTS
            and previous_index in injection.hit_times_by_attempt
        ):
            loads = analysis.run.files.loads.items()
            attempt_loads = (
                load
                for key, entries in loads
                if key.attempt == previous_index + 1
                for _, load in entries
            )
            read_paths = {load.path for load in attempt_loads} if has_read else None
            return describe_leftover(trigger, analysis.history, clean_history, read_paths)
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
    has_read = is_from_scratch or bool(_find_resume_loads(analysis, attempt))
    has_evidence = is_seen and has_read and analysis.run.has_only_own_saves
    return has_evidence and not any(find_stale_resumes(analysis, restart))


def find_unreachable_file(analysis: RunAnalysis, restart: Restart) -> UnreachableFile | None:
    """Return the file that one rank read, and that another one on another node cannot see."""
    attempt, files_by_rank = (
        restart.attempt,
        analysis.run.files.present_files_by_attempt.get(restart.attempt.index, {}),
    )
    nodes_by_rank = {
        worker_location.rank: worker_location.node_id
        for worker_location in attempt.worker_locations
    }
    loads_by_rank = {
        rank: analysis.run.files.find_newest_load(attempt.index, rank) for rank in files_by_rank
    }
    for reader, load in loads_by_rank.items():
        for rank, files in files_by_rank.items():
            file = None if load is None else files.get(load[1].path)
            if file is None or loads_by_rank[rank] is not None or file.state == "there":
                continue
            if nodes_by_rank.get(rank) != nodes_by_rank.get(reader):
                return UnreachableFile(file.path, rank, reader)
    return None


class _RestartSaves:
    """The saves of earlier attempts at the start of one, and the files that its ranks read."""

    def __init__(self, analysis: RunAnalysis, restart: Restart) -> None:
        self.analysis, self.restart, self.files = analysis, restart, analysis.run.files
        attempt = restart.attempt
        starts = attempt.starts.values()
        self._attempt_index = attempt.index
        self.start_number = min((start.number for start in starts), default=0)
        self.present_saves = self.files.find_readable_saves(
            attempt.index, end_number=self.start_number
        )
        self.loads = _find_resume_loads(analysis, attempt)
        self._copies = SaveCopies(
            self.files, Tiers.from_plan(analysis.plan), start_number=self.start_number
        )
        self._completeness = SaveCompleteness(
            self.files,
            attempt_index=attempt.index,
            is_resized=bool(analysis.resized_attempts),
        )
        #: how the job itself lost the newest save, once that is known
        self.removal: FileTouched | None = None

    # -- an older one than there was -----------------------------------------------------------

    def find_outdated_loads(self) -> Iterator[Anomaly]:
        """Yield the ranks that read an older save than there was, of the series that they read.

        The files that are read together count together: a save of which one rank's part is missing
        is not whole, nor one in whose folder a file is missing, such as a mark that it is whole.
        """
        for rank, (number, load) in self.loads.items():
            # A checkpoint may be several files, and several ranks' files: model here, optimizer
            # there, a part for each rank. To take the newest of each series would invent a save
            # that no rank could load; so the files that were read for one place are one save, and a
            # newer one must be whole in all of their series.
            content_place = self._normalize_place(self.files.find_content_place(load))
            loads_by_series = {
                mask_path_numbers(other_load.path): other_load
                for other_rank in self.loads
                for _, other_load in self.files.find_newest_loads(
                    self._attempt_index, other_rank
                ).values()
                if self._normalize_place(self.files.find_content_place(other_load)) == content_place
            }
            loads_by_series[mask_path_numbers(load.path)] = load
            folder = find_numbered_folder(load.path)
            folder_file_counts = self._completeness.present_file_counts[folder]
            series_saves = [
                [
                    save
                    for save in saves
                    if self._completeness.is_folder_complete(save, folder_file_counts)
                ]
                for other_load in loads_by_series.values()
                if not _is_constant(saves := self._find_series_saves(other_load))
            ]
            newest = self._find_newest_save(series_saves, load)
            if newest is None or newest.digest == load.digest:
                continue
            if self._normalize_place(newest.content_place) <= self._normalize_place(
                self._find_resume_place(rank, load)
            ):
                continue
            yield build_anomaly(
                OlderSave(
                    rank,
                    self._build_resumed_file(rank, load),
                    _build_newest_save(newest),
                    self._find_cost(newest),
                ),
                self.analysis.launcher_words,
                events=(newest.event_number, number),
            )

    def find_removed_saves(self) -> Iterator[Anomaly]:
        """Yield the ranks that read an older save than one that the job itself had removed again.

        A job that keeps the last few removes one only once a newer one is whole.
        """
        published_saves = list(self.files.find_confirmed_saves(end_number=self.start_number))
        for rank, (number, load) in self.loads.items():
            series_saves = [
                save
                for save in published_saves
                if mask_path_numbers(save.final_path) == mask_path_numbers(load.path)
            ]
            resume_place = self._normalize_place(self._find_resume_place(rank, load))
            newer_saves = [
                save
                for save in series_saves
                if self._normalize_place(save.content_place) > resume_place
            ]
            removals = {save.event_number: self._find_removal(save) for save in newer_saves}
            newest = max(newer_saves, key=lambda save: save.content_place, default=None)
            if newest is None or None in removals.values():
                continue  # one of them is lost in another way, or `find_outdated_loads` tells of it
            removal = removals[newest.event_number]
            assert removal is not None
            yield build_anomaly(
                NewerSaveRemoved(
                    rank,
                    self._build_resumed_file(rank, load),
                    _build_newest_save(newest),
                    TrainingPlace(removal[1].epoch, removal[1].step),
                    self._find_cost(newest),
                ),
                self.analysis.launcher_words,
                events=(newest.event_number, removal[0], number),
            )

    def _find_removal(self, save: SavedFile) -> tuple[int, FileTouched] | None:
        """Return the removal of a save by the job itself, before the attempt began.

        Of its very file or folder, or of one within it: another one of its series is kept or
        removed for reasons of its own.
        """
        names = (save.final_path, save.display_path)
        for number, removal in self.analysis.run.history.select_events(FileTouched):
            if (
                not save.event_number < number < self.start_number
                or removal.operation != "removing"
            ):
                continue
            if removal.path in names or any(removal.path.startswith(f"{name}/") for name in names):
                return number, removal
        return None

    def _normalize_place(self, training_place: TrainingPlace) -> TrainingPlace:
        """Map all places with no step between them to one: an epoch's end and the next's start."""
        return self.files.find_previous_step(training_place)

    def _find_resume_place(self, rank: int, load: FileLoaded) -> TrainingPlace:
        """Return the place of a rank's resume: as its state shows it, else as its file does."""
        state_place = _find_state_place(self.restart.attempt, rank)
        return self.files.find_content_place(load) if state_place is None else state_place

    def _build_resumed_file(self, rank: int, load: FileLoaded) -> ResumedFile:
        written_at, resume_place = find_save_place(load), self._find_resume_place(rank, load)
        is_earlier = self._normalize_place(resume_place) < self._normalize_place(written_at)
        return ResumedFile(
            load.path,
            written_at,
            content_place=self.files.find_content_place(load),
            earlier_resume=resume_place if is_earlier else None,
        )

    def _find_series_saves(self, load: FileLoaded) -> list[SavedFile]:
        """Return the saves of the series of a file that was read.

        By the name at which they lie; or by the one under which they were written, if it is not a
        copy that was read.
        """
        origin = self.files.find_origin(load)
        series_names, draft_names = {mask_path_numbers(load.path)}, set[str]()
        if origin is not None and (
            self._attempt_index not in self.files.present_files_by_attempt
            or origin.final_path == load.path
        ):
            series_names.add(origin.series)
            # What still has the name that the file read has given up is no save yet: with it, the
            # parts of all ranks would look whole.
            draft_names = {origin.series} - {
                mask_path_numbers(origin.final_path),
                mask_path_numbers(load.path),
            }
        return [
            save
            for save in self.present_saves
            if (mask_path_numbers(save.final_path) in series_names or save.series in series_names)
            and mask_path_numbers(save.final_path) not in draft_names
        ]

    def _find_newest_save(
        self, series_saves: list[list[SavedFile]], load: FileLoaded
    ) -> SavedFile | None:
        """Return the newest save that is whole in all series: of its files, the one like `load`."""
        complete_places = [self._find_complete_places(saves) for saves in series_saves]
        newest_place = (
            max(set[TrainingPlace].intersection(*complete_places), default=None)
            if complete_places
            else None
        )
        newest_saves = [
            save
            for saves in series_saves
            for save in saves
            if self._normalize_place(save.content_place) == newest_place
        ]
        series = mask_path_numbers(load.path)
        candidates = sorted(
            newest_saves,
            key=lambda s: (s.rank == load.saved_rank, mask_path_numbers(s.final_path) == series),
        )
        return candidates[-1] if candidates else None

    def _find_complete_places(self, saves: list[SavedFile]) -> set[TrainingPlace]:
        """Return the places of a series at which each rank that has saves has one."""
        writers: dict[TrainingPlace, set[int]] = {}
        for save in saves:
            writers.setdefault(self._normalize_place(save.content_place), set()).add(save.rank)
        ranks = set().union(*writers.values())
        return {
            training_place for training_place, save_ranks in writers.items() if save_ranks == ranks
        }

    # -- none at all ---------------------------------------------------------------------------

    def find_scratch_start(self) -> Anomaly | None:
        """Return an attempt that began at the very beginning, although there were saves."""
        attempt = self.restart.attempt
        starts = attempt.starts.values()
        if not all(start.training_place == START for start in starts):
            return None
        # The files that the ranks found as they began are the evidence, not those written before:
        # these may have been removed since, be copied elsewhere later, or lie on the disk of a node
        # that is gone. Each of these is a sentence of its own below.
        last_saves = self.files.find_unconfirmed_saves(
            self._attempt_index, end_number=self.start_number
        )
        newest = self._select_newest(self.present_saves or last_saves)
        events = tuple(start.number for start in starts)
        if newest is not None:
            return build_anomaly(
                SavesIgnored(attempt.index, _build_newest_save(newest), self._find_cost(newest)),
                self.analysis.launcher_words,
                events=(newest.event_number, *events),
            )
        if self._attempt_index not in self.files.present_files_by_attempt:
            return None
        lost_saves = [
            save
            for save in self.files.find_confirmed_saves(end_number=self.start_number)
            if not self._copies.is_awaiting_copy(save)
        ]
        newest = self._select_newest(lost_saves, requires_whole=False)
        if newest is None or "there" in self._find_file_states(newest):
            return None  # nothing was kept, or a part of a save that never became whole
        loss, removed_at = self._find_loss(newest)
        return build_anomaly(
            SavesGone(
                attempt.index, _build_newest_save(newest), loss, removed_at, self._find_cost(None)
            ),
            self.analysis.launcher_words,
            events=(newest.event_number, *events),
        )

    def _select_newest(
        self, saves: list[SavedFile], *, requires_whole: bool = True
    ) -> SavedFile | None:
        """Return the newest save from which training may resume: as all ranks have it."""
        candidates = [save for save in saves if self._is_candidate(save)]
        newest_by_rank: dict[int, SavedFile] = {}
        for save in sorted(candidates, key=lambda save: save.content_place):
            if not requires_whole or self._completeness.is_whole(save, candidates):
                newest_by_rank[save.rank] = save
        return min(newest_by_rank.values(), key=lambda save: save.content_place, default=None)

    def _is_candidate(self, save: SavedFile) -> bool:
        """Return whether a file may be one from which training resumes.

        Once anything is read, it is one of a series that was read, or a copy of such a file on a
        disk that outlives its node. Before that, left out are files under a drawn name, those that
        only wait to be copied elsewhere, those without the model, if other files have it, and those
        with less than half as many numbers as are trained, as a schedule's.
        """
        # A job writes many files that are no checkpoint: logs, tables, pictures, caches. What it
        # reads after a restart is one by definition; before anything was read, the signs below must
        # do, and where none is there, nothing is said.
        read_series = {
            mask_path_numbers(event.path)
            for loads in self.files.loads.values()
            for _, event in loads
            if is_readable_run_file(event)
        }
        if read_series:
            # One that was set aside was in use: a job that begins anew beside it has lost it.
            names = {
                mask_path_numbers(name)
                for name in (save.first_path, *save.former_names, save.final_path)
            }
            return not read_series.isdisjoint(names) or self._copies.is_durable_copy(
                read_series, save
            )
        if (
            not self._model_file_names
            and save.saver not in CHECKPOINT_SAVERS
            and not save.is_shard_index
        ):
            return False  # nothing shows that it is a checkpoint, and no picture or table
        if self._is_too_small(save):
            return False
        is_staged = (
            mask_path_numbers(save.final_path)
            in self._copies.staged_series | self._copies.renamed_away_series
        )
        names = {
            build_save_key(other_save).name
            for other_save in self.files.saves
            if other_save.digest == save.digest
        }
        lacks_model = self._model_file_names and names.isdisjoint(self._model_file_names)
        # The working directory may lie in a folder with such a name, as that of a test does.
        relative_name = save.final_path.removeprefix(str(self.analysis.plan.cwd))
        return not is_staged and not lacks_model and TEMPFILE_NAME.search(relative_name) is None

    def _is_too_small(self, save: SavedFile) -> bool:
        """Return whether the files of a save have too few numbers to go on from, all together."""
        folder = PurePath(save.final_path).parent
        shares = [
            other_save.trained_share
            for other_save in self.files.saves
            if (other_save.attempt, other_save.write_place) == (save.attempt, save.write_place)
            and PurePath(other_save.final_path).parent == folder
        ]
        return (
            None not in shares
            and sum(filter(None, shares)) < TRAINED_SHARE_MIN
            and not save.is_shard_index
        )

    @cached_property
    def _model_file_names(self) -> frozenset[str]:
        """The names of files in which the model was seen: they hold numbers of its very norm.

        Where some hold more than it, the others are for use elsewhere: no training goes on from
        a model alone, if it is kept with its optimizer as well.
        """
        model_files = {
            model_file
            for files in self._copies.run_and_baseline_files
            for model_file in find_model_files(files)
        }
        richer_names = {name for name, is_alone in model_files if not is_alone}
        all_files = self._copies.run_and_baseline_files
        saves = (save for files in all_files for save in files.saves)
        # What is in shards is not seen. Where a model that is seen stands alone, they have more.
        sharded_names = {
            mask_name_numbers(save.final_path)
            for save in saves
            if save.is_shard_index and model_files
        }
        return frozenset(richer_names or sharded_names or {name for name, _ in model_files})

    # -- facts ---------------------------------------------------------------------------------

    def _find_file_states(self, save: SavedFile) -> set[str]:
        """Return how the ranks found the files with a save's bytes."""
        files = self.files.list_expected_files(self._attempt_index)
        return {file.state for file in files if file.digest == save.digest}

    def _find_loss(self, save: SavedFile) -> tuple[SaveLoss, TrainingPlace | None]:
        """Return what became of a save that was made, and where the job removed it, if it did."""
        states = self._find_file_states(save)
        if "elsewhere" in states:
            return "in another node's temporary folder", None
        if "gone" in states and not self._find_writer_nodes(save).isdisjoint(
            self._find_lost_nodes()
        ):
            return "on a lost node's disk", None
        removal = self._find_removal(save)
        if removal is None:
            return "not there", None
        _, self.removal = removal
        removed_at = TrainingPlace(self.removal.epoch, self.removal.step)
        later_saves = (
            other_save
            for other_save in self.files.saves
            if save.event_number < other_save.event_number < self.start_number
        )
        if any(other_save.write_place > save.write_place for other_save in later_saves):
            return "removed before the next was whole", removed_at
        return "removed", removed_at

    def _find_writer_nodes(self, save: SavedFile) -> set[str]:
        """Return the nodes of the ranks that wrote a file of these bytes."""
        worker_locations = {
            (attempt.index, worker.rank): worker
            for attempt in self.analysis.run.attempts
            for worker in attempt.worker_locations
        }
        writers = {(s.attempt, s.rank) for s in self.files.saves if s.digest == save.digest}
        return {
            worker_location.node_id
            for writer, worker_location in worker_locations.items()
            if writer in writers
        }

    def _find_lost_nodes(self) -> set[str]:
        node_faults = (
            injection
            for injection in self.analysis.injections
            if injection.op.fault.lost_node_count
        )
        return {
            invocation.node_id
            for injection in node_faults
            for _, invocation in injection.invocations
        }

    def _find_cost(self, newest: SavedFile | None) -> Cost | None:
        """Return the steps trained again, and those from the newest save; None without any."""
        lost_steps = self.restart.lost_steps_by_rank
        rank = max(lost_steps, key=lambda rank: lost_steps[rank], default=None)
        if rank is None or not lost_steps[rank]:
            return None
        newest_cost = None if newest is None else self._count_repeated_steps(newest, rank)
        return Cost(lost_steps[rank], newest_cost)

    def _count_repeated_steps(self, save: SavedFile, rank: int) -> int:
        """Return the number of a rank's steps from a save to the end of the attempt before."""
        earlier_steps = [
            step
            for attempt in self.analysis.run.attempts
            if attempt.index < self._attempt_index
            for step in attempt.steps
        ]
        places = [
            TrainingPlace(step.epoch, step.step) for step in earlier_steps if step.rank == rank
        ]
        return len({place for place in places if save.content_place < place <= places[-1]})


def _find_resume_loads(
    analysis: RunAnalysis, attempt: Attempt
) -> Mapping[int, tuple[int, FileLoaded]]:
    """Return the file of this run from which each rank resumed, if its save is known.

    Of several that it read, the one with the model of the place where it trains; else the youngest.
    """
    files = analysis.run.files
    loads = {}
    for rank in sorted(attempt.starts):
        state_place = _find_state_place(attempt, rank)
        model_loads = [
            (number, load)
            for number, load in files.select_loads(attempt.index, rank)
            if state_place is not None
            and is_readable_run_file(load)
            and files.has_model(load, state_place)
        ]
        load = model_loads[-1] if model_loads else files.find_newest_load(attempt.index, rank)
        if load is not None and files.find_origin(load[1]) is not None:
            loads[rank] = load
    return loads


def _find_state_place(attempt: Attempt, rank: int) -> TrainingPlace | None:
    """Return the place of a rank's resume, if its state shows one and no other."""
    start = attempt.starts.get(rank)
    is_shown = start is not None and start.evidence in _STATE_EVIDENCE and not start.alternatives
    return start.training_place if start is not None and is_shown else None


def _is_constant(saves: list[SavedFile]) -> bool:
    """Return whether a series has the same content at each save, and so no age."""
    return len({save.digest for save in saves}) == 1 and len(saves) > 1


def _build_newest_save(save: SavedFile) -> NewestSave:
    return NewestSave(save.display_path, save.content_place)
