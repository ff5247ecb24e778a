"""The files of earlier attempts that a rank reads, and the place that may follow from them."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Literal

from chaos.model.event import CodeLine, FileLoaded, FilesSeen, Repositioned, SeenFile
from chaos.model.objects import is_store_object
from chaos.model.places import START, TrainingPlace
from chaos.probe.cursor import Cursor, Recorder
from chaos.probe.file_facts import find_neighbours
from chaos.probe.job_code import find_running_line
from chaos.probe.saves import ResumedSave, SaveFolder, SaveRecord, resolve_name
from chaos.probe.training_listener import TrainingListener
from chaos.resume.resume_place import InferredPlace, ResumePlaceIndex, StepKeys, find_resume_point
from chaos.run.file_digest import file_digest
from chaos.wording import shorten_text

#: what a rank trains shows a place; a file that it read may be one of several
_TRAINING_EVIDENCE = ("state and inputs", "state", "inputs and losses")


class ResumeFinder:
    """The saves of earlier attempts that one rank reads before its first step.

    Where its training does not show the place of a resume (see `check.resume_place`), it is the
    place of the save that was read. Of several files, the furthest one counts whose place all
    `ranks` have read: a file that is saved at another pace is a log. If one rank reads for all, or
    the ranks do not agree, each counts by the files that it read itself, a rank that read none by
    the furthest. Text counts only if nothing else was read.

    A job may make steps before it reads its save, as one that trains a teacher at each start. A
    rank that seemed to begin anew, has reported and saved nothing since, and reads a save then, or
    loads a state into a module, is looked at once more at its next step: with the model, or the
    inputs and losses, of a later place it resumed there. `is_untouched` returns whether a rank has
    reported or saved nothing in this attempt, `is_epoch_end` whether an epoch ends at a place.
    """

    def __init__(
        self,
        cursor: Cursor,
        saves: SaveFolder,
        *,
        ranks: int,
        may_move: bool,
        is_untouched: Callable[[], bool],
        is_epoch_end: Callable[[TrainingPlace], bool],
    ) -> None:
        self._cursor = cursor
        self._saves = saves
        self._ranks, self._is_untouched, self._is_epoch_end = ranks, is_untouched, is_epoch_end
        self._reads: list[ResumedSave] = []
        self._can_use_files = may_move
        self.is_unresolved = cursor.attempt > 0
        #: it has read a save, or loaded a state, after steps of this attempt, of which the place is
        #: to be found again
        self.has_late_read = False
        self._has_moved = False

    def record_read(self, save: SaveRecord) -> None:
        """Record a save that this rank has read, for the other ranks to see.

        What was written before training is data, of which no place follows.
        """
        cursor = self._cursor
        is_training = not save.is_before_training and save.find_resume_place() > START
        if save.attempt < cursor.attempt and is_training:
            self.reopen_search()
        if self.can_move and save.attempt < cursor.attempt and is_training:
            self._reads.append(
                ResumedSave.from_save(save, attempt=cursor.attempt, rank=cursor.rank)
            )
            self._saves.record_reads(cursor.attempt, cursor.rank, self._reads)

    def reopen_search(self) -> None:
        """Look for the place once more at the next step, if the rank may have resumed only now.

        What it read may lie in a database or a mapped file, where no save is known.
        """
        cursor = self._cursor
        seems_fresh = (
            cursor.epoch == START.epoch
            and cursor.step > 0
            and not self.is_unresolved
            and not self._has_moved
        )
        if cursor.attempt > 0 and seems_fresh and self._is_untouched():
            self._can_use_files = self.is_unresolved = self.has_late_read = True

    @property
    def can_move(self) -> bool:
        """Whether the place may still follow from a file: Ray handed no checkpoint."""
        return self._can_use_files and self.is_unresolved

    def move_cursor(self, evidence: StepKeys, *, is_over: bool = False) -> Repositioned | None:
        """Move the cursor, once, to the place at which the rank resumed; None: nothing tells it.

        `evidence` is what was seen of its first step; `is_over`: it made none.
        """
        self.is_unresolved, cursor = False, self._cursor
        earlier_states = self._saves.load_states(attempt_limit=cursor.attempt)
        index = self._saves.load_index(cursor.rank, ranks=self._ranks)
        is_fresh = earlier_states.models.get(evidence.model) == {START}
        assumed = self._find_assumed_place(is_fresh=is_fresh, is_over=is_over)
        resume_point = find_resume_point([evidence], index, assumed, earlier_states)
        is_late, self.has_late_read = self.has_late_read, False
        is_moved = (
            resume_point.training_place > (cursor.epoch, cursor.step)
            and resume_point.evidence in _TRAINING_EVIDENCE
            and not self._continues_at(resume_point.training_place)
        )
        if is_late and not is_moved:
            return self._set_steps_aside(earlier_states) if is_over else None
        if resume_point.evidence == "nothing":
            return None
        self._has_moved = resume_point.training_place > START
        cursor.epoch, cursor.step = resume_point.training_place
        path = assumed.path if resume_point.evidence == "file" else None
        self._saves.record_position(
            ResumedSave(cursor.attempt, cursor.rank, *resume_point.training_place, path or "")
        )
        place_fields = cursor.place_fields()
        return Repositioned(
            **place_fields,
            path=path,
            evidence=resume_point.evidence,
            other_places=resume_point.alternatives,
        )

    def _continues_at(self, place: TrainingPlace) -> bool:
        """Return whether a place is the one after the steps that this attempt has made.

        A job may load a state in the middle of its training, as one that builds a model from what
        it has just trained: it goes on, and has not resumed.
        """
        cursor = self._cursor
        return place == (cursor.epoch + 1, 0) and self._is_epoch_end(cursor.training_place)

    def _set_steps_aside(self, earlier_states: ResumePlaceIndex) -> Repositioned | None:
        """Return the start of a rank that loaded a state and trained no more, if it had that left.

        An attempt that begins anew comes at least as far as an earlier one before it ends.
        """
        cursor = self._cursor
        reached = max(
            (place for places in earlier_states.models.values() for place in places), default=START
        )
        if cursor.training_place >= reached:
            return None
        cursor.epoch, cursor.step = START
        return Repositioned(
            attempt=cursor.attempt, rank=cursor.rank, epoch=0, step=0, evidence="nothing"
        )

    def _find_assumed_place(self, *, is_fresh: bool, is_over: bool) -> InferredPlace:
        """Return the place by the file that was read, or by Ray's commit."""
        position = self.find_furthest(is_fresh=is_fresh, is_over=is_over)
        if position is not None:
            return InferredPlace(position.training_place, "file", position.path)
        place = self._cursor.training_place
        return InferredPlace(place, "nothing" if self._can_use_files else "commit")

    def find_furthest(self, *, is_fresh: bool, is_over: bool = False) -> ResumedSave | None:
        """Return the place by the files that were read, if it is later than the rank's own.

        `is_fresh`: the model is the one that the run began with. Then a file that the ranks do not
        agree on has not become part of it. `is_over`: the rank found that nothing was left to
        train; others may still be reading.
        """
        reads = self._saves.load_reads(self._cursor.attempt)
        # Logs count only if no rank has read anything else.
        if not all(read.is_log for positions in reads.values() for read in positions):
            state_reads = {
                rank_number: tuple(read for read in positions if not read.is_log)
                for rank_number, positions in reads.items()
            }
            reads = {rank: positions for rank, positions in state_reads.items() if positions}
        # The places that every rank has read: none if they differ, or if only some ranks read.
        places = [{read.training_place for read in positions} for positions in reads.values()]
        is_all = len(places) == self._ranks and not is_over
        agreed = set.intersection(*places) if is_all else set()
        rank_positions = reads.get(self._cursor.rank, ()) or [
            read for positions in reads.values() for read in positions
        ]
        candidates = [
            read for read in rank_positions if read.training_place in agreed or not agreed
        ]
        furthest_position = max(candidates, key=lambda read: read.training_place, default=None)
        place = self._cursor.training_place
        if furthest_position is None or furthest_position.training_place <= place:
            return None
        return None if (not agreed or furthest_position.is_log) and is_fresh else furthest_position


class LoadRecorder:
    """The loads of one rank; a `listener` may stop it in the first of an earlier attempt's file."""

    def __init__(
        self,
        record: Recorder,
        saves: SaveFolder,
        resume_finder: ResumeFinder,
        listener: TrainingListener,
    ) -> None:
        self._cursor, self._write = record.cursor, record.write
        self._saves, self._listener = saves, listener
        self._resume_finder = resume_finder
        self._opened_files: list[tuple[Path | str, str, CodeLine | None]] = []
        self._recorded_loads: set[tuple[str, str]] = set()
        self._has_told_load = record.cursor.attempt == 0
        self._temporary_folder = os.path.realpath(tempfile.gettempdir())

    def enter_load(self, digest: str) -> None:
        """Stop at an op inside the first load of a file that an earlier attempt saved."""
        if not self._has_told_load and self._find_earlier_save(digest) is not None:
            self._has_told_load = True
            self._listener.earlier_save_entered()

    def record_files_seen(self) -> None:
        """Record which of the files that earlier attempts left are there for this rank."""
        files = []
        for copy in self._saves.load_copies():
            is_elsewhere = copy.writer_temp_folder not in (None, self._temporary_folder)
            current_path = None if self._listener.is_hidden(copy.path) else copy.find_path()
            state: Literal["there", "gone"] = "gone" if current_path is None else "there"
            files.append(
                SeenFile(
                    path=current_path or copy.path,
                    digest=copy.digest,
                    state="elsewhere" if is_elsewhere else state,
                )
            )
        existing_paths = {file.path for file in files if file.state == "there"}
        known_paths = {file.path for file in files}
        neighbour_paths = sorted(
            find_neighbours(path for path in existing_paths if not is_store_object(path))
            - known_paths
        )
        files += [SeenFile(path=path, digest="", state="there") for path in neighbour_paths]
        self._write(FilesSeen(**self._cursor.rank_fields(), files=tuple(files)))

    def record_reading(self, path: Path) -> None:
        """Remember a file of an earlier attempt that is being opened; stop at an op inside it."""
        if self._saves.has_mark("size", path.stat().st_size):
            self.record_bytes(path, file_digest(path))

    def record_bytes(self, path: Path | str, digest: str) -> None:
        """Remember a file, or an object, with these bytes, if an earlier attempt saved them."""
        save = self._find_earlier_save(digest)
        if save is None and isinstance(path, str):  # its writer may have ended as it was put
            save = self._saves.recover_save(path, digest, attempt_limit=self._cursor.attempt)
        if save is None:
            return
        if not save.is_text or self._resume_finder.can_move:
            self._opened_files.append((path, digest, find_running_line()))
        if not save.is_text:
            self.enter_load(digest)

    def record_opened_files(self) -> None:
        """Record the files opened since, except those that were recorded by `record_load`."""
        opened_files, self._opened_files = self._opened_files, []
        for path, digest, code in opened_files:
            if (str(path), digest) not in self._recorded_loads:
                self._write_load(path, digest, None, code)

    def record_load(self, path: Path, digest: str, error: BaseException | None) -> None:
        """Record that this thread has read a file."""
        self._write_load(path, digest, error, find_running_line())

    def _write_load(
        self, path: Path | str, digest: str, error: BaseException | None, code: CodeLine | None
    ) -> None:
        save = self._saves.find_save(digest)
        if save is None and error is None:
            save = self._saves.recover_save(path, digest, attempt_limit=self._cursor.attempt)
        self._recorded_loads.add((str(path), digest))
        self._write(
            FileLoaded(
                **self._cursor.place_fields(),
                path=resolve_name(path),  # as it was saved, whatever links lead to it
                digest=digest,
                saved_attempt=None if save is None else save.attempt,
                saved_rank=None if save is None else save.rank,
                saved_epoch=None if save is None else save.epoch,
                saved_step=None if save is None else save.step,
                error=None if error is None else shorten_text(f"{type(error).__name__}: {error}"),
                code=code,
            )
        )
        if error is None and save is not None:
            self._resume_finder.record_read(save)

    def _find_earlier_save(self, digest: str) -> SaveRecord | None:
        save = self._saves.find_save(digest)
        return save if save is not None and save.attempt < self._cursor.attempt else None
