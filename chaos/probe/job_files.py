"""The files that a rank saves and loads, as hooks and openings show them."""

import contextlib
import io
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from chaos.model.places import START
from chaos.probe.cursor import Recorder
from chaos.probe.epoch_ends import EpochEnds
from chaos.probe.file_facts import digest_file, extract_content, resolve_links
from chaos.probe.job_code import find_running_line
from chaos.probe.loads import LoadRecorder, ResumeFinder
from chaos.probe.open_watch import OpenedFiles, create_folder, truncate_file
from chaos.probe.save_recorder import SaveRecorder
from chaos.probe.saves import SaveFolder
from chaos.probe.thread_place import ThreadPlaces
from chaos.probe.training_listener import FileOperation, Stop, TrainingListener
from chaos.resume.resume_place import StepKeys
from chaos.run.file_digest import WHOLE_MAX, file_digest, stream_digest


class JobFiles(TrainingListener):
    """The saves and loads of one rank, by which its cursor may move (see `ResumeFinder`).

    What is seen is recorded by its parts: `save_recorder`, `load_recorder` and `epoch_ends`. A
    `listener` may stop the rank within a save or a load.
    """

    def __init__(
        self,
        record: Recorder,
        saves: SaveFolder,
        listener: TrainingListener,
        *,
        may_move: bool,
        ranks: int,
        reported_epoch: int | None = None,
    ) -> None:
        self._cursor, self._cost = record.cursor, record.cost
        cursor = record.cursor
        self._write, self._report_failure = record.write, record.report_failure
        self._listener, self.save_folder = listener, saves
        self._lock = threading.RLock()
        self._has_told_save = False
        self.epoch_ends = EpochEnds(cursor, saves, ranks=ranks, reported_epoch=reported_epoch)
        self.resume_finder = ResumeFinder(
            cursor,
            saves,
            ranks=ranks,
            may_move=may_move,
            is_untouched=self._is_untouched,
            is_epoch_end=self.epoch_ends.is_end,
        )
        self.load_recorder = LoadRecorder(record, saves, self.resume_finder, listener)
        self.thread_places = ThreadPlaces(cursor)
        self.opened_files = OpenedFiles(
            saves.run_folder,
            self.thread_places.find_work_place,
            self,
            record.report_failure,
            is_reading=cursor.attempt > 0,
        )
        self.save_recorder = SaveRecorder(
            record, saves, self.epoch_ends, self.opened_files, self.thread_places, listener
        )

    def watch_opened(self) -> None:
        """Follow, from now on, files that are written and read by other means than torch's."""
        self.opened_files.watch()
        self.thread_places.watch()
        if self._cursor.attempt:
            self.record_safely("files", self.load_recorder.record_files_seen)

    def record_early_reads(self, paths: Iterable[Path]) -> None:
        """Look at files that this process has read before it was watched."""
        for path in paths:
            if self.opened_files.is_reading and path.is_file():
                self.record_safely("load", partial(self.load_recorder.record_reading, path))
        self.record_safely("load", self.load_recorder.record_opened_files)

    # -- events of torch.save and torch.load, and of pickle --------------------------------------

    def save_begins(self, path: Path) -> None:
        place = self.thread_places.find_work_place()
        self.record_safely(
            "save", lambda: self.save_recorder.record_begin(resolve_links(path), place, "torch")
        )

    def file_saved(self, path: Path, value: Any) -> None:  # whatever `torch.save` is given
        """Record a file's bytes and the counts in it, for later attempts to find."""
        self.opened_files.ignore_file(path)
        place = self.thread_places.find_work_place()
        real, code = resolve_links(path), find_running_line()
        self.record_safely(
            "save",
            lambda: self.save_recorder.record_saved_file(
                real, place, extract_content(value), digest_file(real), code
            ),
        )
        if not self.thread_places.is_background():
            self._listener.save_ends([path], value)

    def content_pickled(self, path: Path, value: Any) -> None:  # whatever is pickled
        self.record_safely("save", lambda: self.save_recorder.add_content(str(path), value))

    def stream_saved(self, stream: Any, value: Any) -> None:
        """Remember the content of a buffer whose bytes may be written to a file."""
        if not isinstance(stream, io.BytesIO) or stream.closed or stream.tell() > WHOLE_MAX:
            return
        place_key, digest = self._cursor.place_key(), stream_digest(io.BytesIO(stream.getvalue()))
        self.record_safely("save", lambda: self.save_recorder.add_content(digest, value))
        self.record_safely("save", lambda: self.save_folder.set_mark("look", *place_key))

    def find_midpoint_stop(self, path: Path) -> Stop | None:
        """Return the function that arrives at an op in the middle of a save of this file, or None.

        What is written before the first step of a job that makes steps is data, and no save.
        """
        cursor = self._cursor
        is_data = cursor.training_place == START and self.epoch_ends.makes_steps
        return None if is_data else self._listener.save_reached("saving", cursor.epoch, str(path))

    def background_save_begins(self, folder: Path) -> None:
        self.record_safely("save", lambda: self.save_recorder.add_background_folder(folder))

    def shards_begin(self, folder: Path) -> None:
        place = self.thread_places.find_work_place()
        self.record_safely("save", lambda: self.save_recorder.record_begin(folder, place, "shards"))

    def shards_written(self, folder: Path) -> None:
        """Stop at an op inside a save, in the epoch in which the save was asked for."""
        epoch = self.thread_places.find_work_place().epoch
        if (stop := self._listener.save_reached("saving", epoch, str(folder))) is not None:
            stop()

    def load_begins(self, path: Path) -> str | None:
        if not path.is_file():
            return None
        try:
            with self._cost.watch_time, self.opened_files.pause_watch():
                digest = file_digest(path)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's load
            self._report_failure("load", error)
            return None
        self.load_recorder.enter_load(digest)
        return digest

    def load_ended(
        self, path: Path, digest: str, error: BaseException | None, value: Any = None
    ) -> None:
        del value
        self.record_safely("load", lambda: self.load_recorder.record_load(path, digest, error))

    def pause_watch(self) -> AbstractContextManager[None]:
        return self.opened_files.pause_watch()

    def call_unhooked(self, call: Callable[[], Any]) -> Any:
        """Call a function while no module has a hook of chaos.

        Beside training the hooks stay, as they see the steps that are made meanwhile: a module
        that is pickled there gets hooks that do nothing.
        """
        if self.thread_places.is_background():
            return call()
        return self._listener.call_unhooked(call)

    # -- events of `OpenedFiles` ------------------------------------------------------------------

    def reading_begins(self, path: Path) -> None:
        self.load_recorder.record_reading(path)

    def files_closed(self) -> None:
        """Look, in the thread that has closed a file; its time is not counted as a step's."""
        try:
            with self.opened_files.pause_watch(), self._lock:
                self._record_files(at_rest=False)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's save
            self._report_failure("files", error)

    def operation_begins(self, operation: FileOperation) -> None:
        """Stop at an op whose place is an operation on a name, of which none is before training.

        Caches are made there, once for all runs of a machine.
        """
        moment, path, place = operation.moment, operation.path, operation.place
        stop = None if place <= START else self._listener.save_reached(moment, place.epoch, path)
        if stop is None:
            return
        self.files_closed()  # what was written before is complete now
        if moment != "opening":
            with create_folder(path) if moment == "making" else contextlib.nullcontext():
                stop()
            return
        with truncate_file(path):
            real = resolve_links(path)  # of a writing that is cut off there is no other sign
            saver = real.suffix.lstrip(".") or "file"
            self.record_safely("files", lambda: self.save_recorder.record_begin(real, place, saver))
            stop()

    def file_moved(self, path: str, new_path: str | None) -> None:
        self.save_recorder.record_move(path, new_path)

    # -- called by the watchers ------------------------------------------------------------------

    def scan_files(self, *, at_rest: bool = False) -> None:
        """Record the files written and closed, or read, since the last look.

        `at_rest` also looks again at files that were still open at an earlier look.
        """
        self.record_safely("files", lambda: self._record_files(at_rest=at_rest))

    def enter_step(self, find_evidence: Callable[[], StepKeys] = StepKeys) -> None:
        """Move the cursor, before the first step of a later attempt, to where it resumed.

        `find_evidence` returns what was seen of that step. The ranks share a step's gradients: by
        now every rank has read its files.
        """
        self._settle_place(find_evidence)
        self.opened_files.step_begins()

    def leave_step(self) -> None:
        """Remember that training has begun, and that the saves so far are of an earlier step."""
        self.opened_files.end_reading()
        self.epoch_ends.step_done()

    def can_resume(self) -> bool:
        """Return whether a rank has saved its state since the last step, or read a saved one."""
        cursor = self._cursor
        if not cursor.step:
            return False
        if self.resume_finder.is_unresolved:  # it has read a save since its last step
            return True
        return self.epoch_ends.has_save() or self.save_folder.has_mark("look", *cursor.place_key())

    def pass_reported_end(self) -> None:
        """Begin the next epoch at a step, if the report that ends this one came before."""
        if self.epoch_ends.is_at_reported_end():
            self.record_safely("files", self.epoch_ends.begin_next_epoch)

    def epoch_ended(self) -> None:
        """Mark the saves since the last step as the end of their epoch, where no report does."""
        self.record_safely("files", self.epoch_ends.mark_ends)
        self._write_texts()

    def report_begun(self, *, is_early: bool = False) -> None:
        """Mark the saves since the last step as the end of their epoch.

        Before an `is_early` report nothing was trained: the first step still shows the place.
        """
        self.scan_files(at_rest=True)
        if not is_early:
            self._settle_place()
        self.record_safely("report", self.epoch_ends.pass_at_report)
        self.record_safely("report", self.epoch_ends.mark_ends)
        self._write_texts()

    def part_uploaded(self, checkpoint: str, folder: Path, files: Mapping[str, str]) -> None:
        self.scan_files(at_rest=True)
        self.record_safely(
            "upload", lambda: self.save_recorder.record_part(checkpoint, folder, files)
        )

    def train_fn_ended(self, *, returned: bool = True) -> None:
        """Record the files that the job leaves when its train function is over.

        A job that has `returned` without a step found in its files that nothing was left to train.
        """
        if returned and self.resume_finder.is_unresolved:
            self.scan_files()
            self.record_safely("load", lambda: self._record_resume(StepKeys(), is_over=True))
        self.record_safely("files", lambda: self._record_files(at_rest=True, at_end=True))
        self._write_texts()

    def record_safely(self, site: str, action: Callable[[], object]) -> None:
        """Do what only records: an error of it is recorded, and not raised."""
        try:
            with self._cost.watch_time, self.opened_files.pause_watch(), self._lock:
                action()
                if self.save_recorder.has_saved and not self._has_told_save:
                    self._listener.first_save_done()
                    self._has_told_save = True
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's save or load
            self._report_failure(site, error)

    # -- inside ------------------------------------------------------------------------------

    def _is_untouched(self) -> bool:
        return not self.save_recorder.has_saved and not self.epoch_ends.has_reported

    def _settle_place(self, find_evidence: Callable[[], StepKeys] = StepKeys) -> None:
        self.thread_places.mark_training_thread()
        self.scan_files(at_rest=True)  # torchrun's jobs make no report, at which it would be done
        if self.resume_finder.is_unresolved:
            self.record_safely("load", lambda: self._record_resume(find_evidence()))

    def _record_resume(self, evidence: StepKeys, *, is_over: bool = False) -> None:
        event = self.resume_finder.move_cursor(evidence, is_over=is_over)
        if event is not None:
            self._write(event)

    def _record_files(self, *, at_rest: bool, at_end: bool = False) -> None:
        self.load_recorder.record_opened_files()
        for opening in self.opened_files.take_closed_files(look_again=at_rest, at_end=at_end):
            try:
                self.save_recorder.record_written_file(opening)
            except FileNotFoundError:
                # A temporary file may be gone by now. One that is renamed is not: its thread waits.
                if Path(opening.path).exists():
                    raise
        self.save_recorder.report_operations()

    def _write_texts(self) -> None:
        for text in self.save_recorder.take_texts():
            self.record_safely("files", partial(self._write, text))
