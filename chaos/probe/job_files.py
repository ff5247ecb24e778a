"""The files that a rank saves and loads: recorded, and traced to the save they came from."""

import contextlib
import functools
import io
import os
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeAlias

from chaos.check.resume_place import StepKeys
from chaos.model.event import (
    CodeLine,
    FileCopied,
    FileRenamed,
    FileSaveBegun,
    FileSaved,
    FilesSeen,
    FileTouched,
    FileWritten,
    SeenFile,
)
from chaos.model.objects import is_store_object
from chaos.model.places import START, TrainingPlace
from chaos.model.trigger import PARTS_MAX, Moment, build_path_pattern
from chaos.probe.cursor import Recorder
from chaos.probe.file_facts import (
    FileContent,
    Stored,
    digest_file,
    extract_content,
    find_neighbours,
    resolve_folder,
    resolve_links,
)
from chaos.probe.job_code import find_running_line
from chaos.probe.loads import LoadRecorder, ResumeFinder
from chaos.probe.open_watch import (
    FileOperation,
    OpenedFile,
    OpenedFiles,
    create_folder,
    truncate_file,
)
from chaos.probe.saves import SaveFolder, SaveRecord
from chaos.probe.state.readable import is_text, load_content
from chaos.probe.thread_place import ThreadPlaces
from chaos.run.file_digest import WHOLE_MAX, file_digest, stream_digest

# Returns, for a moment of an epoch and the file, the function that stops a rank at an op, if it is
# to stop there.
Stops: TypeAlias = Callable[[Moment, int, str], Callable[[], None] | None]
# Kinds of operations at one place that are recorded: a job may write files with names of its own.
KINDS_MAX = 32
_EVENTS = "events.out."  # how TensorBoard's files of events begin


class JobFiles:
    """The saves and loads of one rank, by which its cursor may move (see `ResumeFinder`)."""

    #: called once the thread that trains has saved a file
    on_save: Callable[[], None] = staticmethod(lambda: None)

    def __init__(
        self,
        record: Recorder,
        saves: SaveFolder,
        *,
        may_move: bool,
        ranks: int,
    ) -> None:
        self._cursor, self._cost = record.cursor, record.cost
        self._write, self._report_failure = record.write, record.report_failure
        self.saves = saves
        self.resume_finder = ResumeFinder(record.cursor, saves, ranks=ranks, may_move=may_move)
        self.resume_finder.is_untouched = lambda: not self._has_saved and not self._reported_lengths
        self.load_recorder = LoadRecorder(record, saves, self.resume_finder)
        self._recent_saves: list[SaveRecord] = []
        self._epoch_lengths = saves.load_epoch_lengths(record.cursor.rank, ranks=ranks)
        self._reported_lengths: dict[int, int] = {}  # the steps of each epoch that was reported
        self.thread_places = ThreadPlaces(
            lambda: TrainingPlace(self._cursor.epoch, self._cursor.step)
        )
        self._lock = threading.RLock()
        self.opened_files = OpenedFiles(
            saves.run_folder,
            self.thread_places.find_work_place,
            on_read=self.load_recorder.record_reading,
            on_close=self._scan_in_background,
            on_operation=self._stop_before_operation,
            report_failure=record.report_failure,
        )
        self.opened_files.on_move = self._record_move
        self.opened_files.is_reading = record.cursor.attempt > 0
        self._contents: dict[str, FileContent] = {}  # by path, or by the digest of the bytes
        self._text_files: dict[str, FileWritten] = {}
        self._background_folders: dict[str, TrainingPlace] = {}  # that are written beside training
        self._set_hooks()
        self._has_saved = self._has_stepped = False
        self._temporary_folder = os.path.realpath(tempfile.gettempdir())
        self.reported_epoch: int | None = None
        self._place_operations: tuple[TrainingPlace, set[tuple[str, str]]] = START, set()

    def _set_hooks(self) -> None:
        """Set what the watch may replace by functions of its own."""
        self.settle_state: Callable[[], object] | None = None
        self.find_stop: Stops = lambda *_: None
        #: whether a fault hides an object from all that list the store
        self.is_hidden: Callable[[str], bool] = lambda _: False
        self.run_unhooked: Callable[[Callable[[], Any]], Any] = lambda save: save()
        #: the number of the numbers that this rank trains
        self.count_trained: Callable[[], int] = lambda: 0

    def watch_opened(self) -> None:
        """Follow, from now on, files that are written and read by other means than torch's."""
        self.opened_files.watch()
        self.thread_places.watch()
        if self._cursor.attempt:
            self.record_safely("files", self._report_files_seen)

    def record_early_reads(self, paths: Iterable[Path]) -> None:
        """Look at files that this process has read before it was watched."""
        for path in paths:
            if self.opened_files.is_reading and path.is_file():
                self.record_safely(
                    "load", functools.partial(self.load_recorder.record_reading, path)
                )
        self.record_safely("load", self.load_recorder.record_opened_files)

    # -- called by torch.save and torch.load, and by pickle --------------------------------------

    def begin_save(self, path: Path) -> None:
        """Record that a file begins to be written."""
        self.record_safely(
            "save",
            lambda: self._record_begin(
                resolve_links(path), self.thread_places.find_work_place(), "torch"
            ),
        )

    def record_save(self, path: Path, value: Any) -> None:  # whatever `torch.save` is given
        """Record a file's bytes and the counts in it, for later attempts to find."""
        self.opened_files.ignore_file(path)
        place = self.thread_places.find_work_place()
        real, code = resolve_links(path), find_running_line()
        self.record_safely(
            "save",
            lambda: self._record_saved_file(
                real, place, extract_content(value), digest_file(real), code
            ),
        )
        if not self.thread_places.is_background():
            self.on_save()

    def record_content(self, path: Path, value: Any) -> None:  # whatever is pickled
        """Remember the content of a file that is not closed yet."""
        self.record_safely(
            "save", lambda: self._contents.update({str(path): extract_content(value)})
        )

    def record_stream(self, stream: Any, value: Any) -> None:
        """Remember the content of a buffer whose bytes may be written to a file."""
        if not isinstance(stream, io.BytesIO) or stream.closed or stream.tell() > WHOLE_MAX:
            return
        cursor, digest = self._cursor, stream_digest(io.BytesIO(stream.getvalue()))
        self.record_safely("save", lambda: self._contents.update({digest: extract_content(value)}))
        self.record_safely("save", lambda: self.saves.set_mark("look", *cursor.place_key()))

    def find_midpoint_action(self, path: Path) -> Callable[[], None] | None:
        """Return the function that arrives at an op in the middle of a save of this file, or None.

        What is written before the first step of a job that makes steps is data, and no save.
        """
        cursor = self._cursor
        is_data = (cursor.epoch, cursor.step) == START and any(self._epoch_lengths.values())
        return None if is_data else self.find_stop("saving", cursor.epoch, str(path))

    def begin_background_save(self, folder: Path) -> None:
        """Mark the place of a save that is written later, while training goes on.

        By another process perhaps, whose files are not seen until they are uploaded.
        """
        cursor = self._cursor
        self._background_folders[str(folder)] = place = TrainingPlace(cursor.epoch, cursor.step)
        self.record_safely("save", lambda: self.saves.set_mark("place", cursor.attempt, *place))

    def begin_shards(self, folder: Path) -> None:
        """Record that this rank begins to write its files of a sharded checkpoint."""
        place = self.thread_places.find_work_place()
        self.record_safely("save", lambda: self._record_begin(folder, place, "shards"))

    def finish_shards(self, folder: Path) -> None:
        """Stop at an op inside a save, in the epoch in which the save was asked for."""
        epoch = self.thread_places.find_work_place().epoch
        if (arrive := self.find_stop("saving", epoch, str(folder))) is not None:
            arrive()

    def record_shard_load(self, folder: Path) -> None:
        """Do nothing: its files were seen as they were opened."""

    def begin_load(self, path: Path) -> str | None:
        if not path.is_file():
            return None
        try:
            with self._cost.watch_time, self.opened_files.pause_watch():
                return file_digest(path)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's load
            self._report_failure("load", error)
            return None

    def enter_load(self, digest: str) -> None:
        """Stop at an op inside the first load of a file that an earlier attempt saved."""
        self.load_recorder.enter_load(digest)

    def pause_watch(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which `open` is not watched: the caller reports the file itself."""
        return self.opened_files.pause_watch()

    def finish_load(
        self, path: Path, digest: str, error: BaseException | None, value: object = None
    ) -> None:
        del value
        self.record_safely("load", lambda: self.load_recorder.record_load(path, digest, error))

    def part_uploaded(self, checkpoint: str, folder: Path, files: Mapping[str, str]) -> None:
        self.scan_files(at_rest=True)
        self.record_safely("upload", lambda: self._record_part(checkpoint, folder, files))

    def has_save(self) -> bool:
        """Return whether any rank has saved a file since the last step of an epoch.

        The ranks step together: the save of one holds up the next step of the others.
        """
        cursor = self._cursor
        return cursor.step > 0 and self.saves.has_mark("place", *cursor.place_key())

    def can_resume(self) -> bool:
        """Return whether a rank has saved its state since the last step, or read a saved one."""
        cursor = self._cursor
        if not cursor.step:
            return False
        if self.resume_finder.is_unresolved:  # it has read a save since its last step
            return True
        return self.has_save() or self.saves.has_mark("look", *cursor.place_key())

    def call_unhooked(self, save: Callable[[], Any]) -> Any:  # what `save` gives
        """Call `save` while no module has a hook of chaos.

        Beside training the hooks stay, as they see the steps that are made meanwhile: a module
        that is pickled there gets hooks that do nothing.
        """
        return save() if self.thread_places.is_background() else self.run_unhooked(save)

    # -- called by the probe ---------------------------------------------------------------------

    def scan_files(self, *, at_rest: bool = False) -> None:
        """Record the files written and closed, or read, since the last look.

        `at_rest` also looks again at files that were still open at an earlier look.
        """
        self.record_safely("files", lambda: self._record_files(at_rest=at_rest))

    def step_begins(self, find_evidence: Callable[[], StepKeys] = StepKeys) -> None:
        """Move the cursor, before the first step of a later attempt, to where it resumed.

        `find_evidence` returns what was seen of that step. The ranks share a step's gradients: by
        now every rank has read its files.
        """
        self._settle_place(find_evidence)
        self.opened_files.step_begins()

    def _settle_place(self, find_evidence: Callable[[], StepKeys] = StepKeys) -> None:
        self.thread_places.mark_training_thread()
        self.scan_files(at_rest=True)  # torchrun's jobs make no report, at which it would be done
        if self.resume_finder.is_unresolved:
            self.record_safely("load", lambda: self._record_resume(find_evidence()))

    def pass_reported_end(self) -> None:
        """Begin the next epoch at a step, if the report that ends this one came before.

        A checkpoint may be older than its report: one that is saved beside training is reported
        when it is whole, which is a save later. A job that resumes from it trains the rest of
        that epoch, and does not report it again. `reported_epoch` is the epoch whose report came
        with the checkpoint that this attempt resumed from; of epochs after it, each has its report.
        """
        if self._is_at_reported_end():
            self.record_safely("files", self._begin_next_epoch)

    def _is_at_reported_end(self) -> bool:
        cursor = self._cursor
        return (
            self.reported_epoch is not None
            and cursor.epoch <= self.reported_epoch
            and cursor.epoch not in self._reported_lengths
            and 0 < cursor.step == self._epoch_lengths.get(cursor.epoch)
        )

    def _begin_next_epoch(self) -> None:
        cursor = self._cursor
        self.saves.set_mark("passed", cursor.attempt, cursor.epoch)
        cursor.epoch, cursor.step = cursor.epoch + 1, 0

    def _pass_at_report(self) -> None:
        """Pass the end at a report, if it is the one of a last checkpoint saved beside training.

        In the baseline no step lies between the report of this epoch and that one, and what is
        saved here is reported by the second.
        """
        # With saves beside training (`dcp.async_save`) a checkpoint is reported when it is whole,
        # one save later, so that the last two reports of a job come without a step between them:
        #
        #     steps of the epoch | report of the save before | report of this epoch's own save
        #
        # An attempt that resumed from the first of the two counts no end at it, since its
        # checkpoint brought that report with it. Without this, its second report would end the
        # epoch that the baseline ended with the first, and the baseline's last epoch be missing.
        cursor = self._cursor
        is_saved = self.saves.has_mark("place", *cursor.place_key())
        if (
            is_saved
            and self._epoch_lengths.get(cursor.epoch + 1) == 0
            and self._is_at_reported_end()
        ):
            self._begin_next_epoch()

    def is_at_end(self, epoch_steps: int | None) -> bool:
        """Return whether a step begins the next epoch, in a job that reports nothing.

        Its epochs are those of the baseline. In the baseline itself, an epoch ends after
        `epoch_steps`; without that, where any rank has saved a file since the last step: by now
        all ranks have come to this one, since they share its gradients.
        """
        epoch, step = self._cursor.epoch, self._cursor.step
        if self._epoch_lengths:
            return 0 < step == self._epoch_lengths.get(epoch)
        if epoch_steps is not None:
            return step >= epoch_steps
        return self.has_save()

    def epoch_ended(self) -> None:
        """Mark the saves since the last step as the end of their epoch, where no report does."""
        self.record_safely("files", self._mark_ends)
        self._report_texts()

    def step_done(self) -> None:
        """Remember that the saves so far lie in the middle of an epoch."""
        self.opened_files.is_reading, self._has_stepped = False, True
        self._recent_saves.clear()

    def report_begun(self, *, is_early: bool = False) -> None:
        """Mark the saves since the last step as the end of their epoch.

        Before an `is_early` report nothing was trained: the first step still shows the place.
        """
        self.scan_files(at_rest=True)
        if not is_early:
            self._settle_place()
        self.record_safely("report", self._pass_at_report)
        self.record_safely("report", self._mark_ends)
        self._report_texts()

    def train_fn_ended(self, *, returned: bool = True) -> None:
        """Record the files that the job leaves when its train function is over.

        A job that has `returned` without a step found in its files that nothing was left to train.
        """
        if returned and self.resume_finder.is_unresolved:
            self.scan_files()
            self.record_safely("load", lambda: self._record_resume(StepKeys(), is_over=True))
        self.record_safely("files", lambda: self._record_files(at_rest=True, at_end=True))
        self._report_texts()

    # -- inside ------------------------------------------------------------------------------

    def record_safely(self, site: str, action: Callable[[], object]) -> None:
        """Do what only records: an error of it is recorded, and not raised."""
        try:
            with self._cost.watch_time, self.opened_files.pause_watch(), self._lock:
                action()
                if self._has_saved and self.settle_state is not None:
                    self.settle_state()  # the next attempt compares its model with this one's
                    self.settle_state = None
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's save or load
            self._report_failure(site, error)

    def _scan_in_background(self) -> None:
        """Look, in the thread that has closed a file; its time is not counted as a step's."""
        try:
            with self.opened_files.pause_watch(), self._lock:
                self._record_files(at_rest=False)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's save
            self._report_failure("files", error)

    def _stop_before_operation(self, operation: FileOperation) -> None:
        """Stop at an op whose place is an operation on a name, of which none is before training.

        Caches are made there, once for all runs of a machine.
        """
        moment, path, place = operation.moment, operation.path, operation.place
        if place <= START or (arrive := self.find_stop(moment, place.epoch, path)) is None:
            return
        self._scan_in_background()  # what was written before is complete now
        if moment != "opening":
            with create_folder(path) if moment == "making" else contextlib.nullcontext():
                arrive()
            return
        with truncate_file(path):
            real = resolve_links(path)  # of a writing that is cut off there is no other sign
            saver = real.suffix.lstrip(".") or "file"
            self.record_safely("files", lambda: self._record_begin(real, place, saver))
            arrive()

    def _record_move(self, path: str, new_path: str | None) -> None:
        """Follow a file that is renamed or removed, by whomever it was saved."""
        if new_path is None:
            self.saves.record_removal(resolve_folder(path))
        else:
            self.saves.record_renaming(resolve_folder(path), resolve_folder(new_path))

    def _report_files_seen(self) -> None:
        """Record which of the files that earlier attempts left are there for this rank."""
        files = []
        for copy in self.saves.load_copies():
            is_elsewhere = copy.writer_temp_folder not in (None, self._temporary_folder)
            current_path = None if self.is_hidden(copy.path) else copy.find_path()
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

    def _build_fields(self, place: TrainingPlace) -> dict[str, Any]:
        return {**self._cursor.rank_fields(), "epoch": place[0], "step": place[1]}

    def _record_begin(
        self, path: Path | str, place: TrainingPlace, saver: str, *, thread: int | None = None
    ) -> None:
        """Record a save that begins, or that was begun by the `thread` that opened its file."""
        self.report_operations()  # those before it
        is_beside = self.thread_places.is_background(thread)
        self._write(
            FileSaveBegun(
                **self._build_fields(place), path=str(path), saver=saver, is_beside=is_beside
            )
        )
        if saver == "torch":  # the others are recorded once they are written
            self.saves.record_begin(self.build_save(path, place, digest=""))

    def _record_saved_file(
        self,
        path: Path | str,
        place: TrainingPlace,
        content: FileContent,
        stored_digest: Stored,
        code: CodeLine | None,
    ) -> None:
        digest, size = stored_digest
        file_fields: dict[str, Any] = {
            "path": str(path),
            "digest": digest,
            "bytes": size,
            "code": code,
        }
        file_fields |= {"parts": content.parts, "counts": dict(content.counts)}
        self._write(
            FileSaved(
                **self._build_fields(place), **file_fields, share=self._measure_share(content)
            )
        )
        self._keep_save(path, place, digest, size=size)
        self.saves.set_mark("place", self._cursor.attempt, *place)
        self._has_saved = True

    def _measure_share(self, content: FileContent) -> float | None:
        trained = self.count_trained()
        return content.elements / trained if trained and content.elements is not None else None

    def _keep_save(
        self,
        path: Path | str,
        place: TrainingPlace,
        digest: str,
        *,
        size: int,
        is_log: bool = False,
    ) -> None:
        save = self.build_save(path, place, digest, is_log=is_log)
        self.saves.record_copy(path, digest, size=size, tmp=self._temporary_folder)
        if save.is_before_training and self.saves.find_save(digest) is not None:
            return  # what was saved in training stays so, though a new process writes it again
        self.saves.record_save(save, size=size)
        self._recent_saves.append(save)

    def build_save(
        self, path: Path | str, place: TrainingPlace, digest: str, *, is_log: bool = False
    ) -> SaveRecord:
        cursor, is_epoch_end = self._cursor, self._ends_epoch(place)
        is_data = not self._has_stepped and any(
            self._epoch_lengths.values()
        )  # in a job that makes steps
        return SaveRecord(
            digest, cursor.attempt, cursor.rank, *place, str(path), is_epoch_end, is_log, is_data
        )

    def _record_part(self, checkpoint: str, folder: Path, files: Mapping[str, str]) -> None:
        """Record the place of the youngest file, if this run is known to have saved all files."""
        digests = [
            file_digest(folder / name) if digest.startswith("size:") else digest
            for name, digest in files.items()
        ]
        place = self._background_folders.pop(os.path.abspath(folder), None)  # noqa: PTH100 - links stay links
        if place is not None:
            for name, digest in zip(files, digests, strict=True):
                if self.saves.find_save(digest) is None:
                    path = folder / name
                    self._record_saved_file(
                        path,
                        place,
                        extract_content(load_content(path)),
                        (digest, path.stat().st_size),
                        None,
                    )
        known_saves = [save for save in map(self.saves.find_save, digests) if save is not None]
        places = [save.find_resume_place() for save in known_saves if not save.is_text]
        # In an epoch without a step it is unknown whether a save is of its end.
        is_known = bool(places) and len(known_saves) == len(digests) and self._cursor.step > 0
        self.saves.record_part(checkpoint, self._cursor.rank, max(places) if is_known else None)

    def _ends_epoch(self, place: TrainingPlace) -> bool:
        """Return whether an epoch ended there: by its report, or by its steps in the baseline.

        The report after a save may never begin, since a fault may come between.
        """
        epoch, step = place
        if epoch in self._reported_lengths:
            return self._reported_lengths[epoch] == step
        return step > 0 and self._epoch_lengths.get(epoch) == step

    def _mark_ends(self) -> None:
        # A save comes before the report that ends its epoch, so only now is it known that a job
        # which loads it continues with the next epoch. The mark is a file of its own, for later
        # attempts; saves of earlier steps stay places within the epoch.
        epoch, step = self._cursor.epoch, self._cursor.step
        self._reported_lengths[epoch] = step
        for save in self._recent_saves:
            if (save.epoch, save.step) == (epoch, step) and step > 0:
                self.saves.mark_epoch_end(save)
        self._recent_saves.clear()

    def _record_files(self, *, at_rest: bool, at_end: bool = False) -> None:
        self.load_recorder.record_opened_files()
        for opening in self.opened_files.take_closed_files(look_again=at_rest, at_end=at_end):
            try:
                self._record_written_file(opening)
            except FileNotFoundError:
                # A temporary file may be gone by now. One that is renamed is not: its thread waits.
                if Path(opening.path).exists():
                    raise
        self.report_operations()

    def report_operations(self) -> None:
        for operation in self.opened_files.take_operations():
            names: dict[str, Any] = {"path": operation.path, "to": operation.other_path}
            if operation.moment == "renaming":
                self._write(FileRenamed(**self._build_fields(operation.place), **names))
            elif self._is_new_kind(operation):
                self._write(
                    FileTouched(
                        **self._build_fields(operation.place), **names, operation=operation.moment
                    )
                )

    def _is_new_kind(self, operation: FileOperation) -> bool:
        """Return whether an operation is the first of its kind at its place: there may be many."""
        place, known_kinds = self._place_operations
        if place != operation.place:
            self._place_operations = place, known_kinds = operation.place, set()
        kind = operation.moment, build_path_pattern(operation.path, PARTS_MAX)
        is_first = kind not in known_kinds and len(known_kinds) < KINDS_MAX
        known_kinds.add(kind)
        return is_first

    def _record_written_file(self, opening: OpenedFile) -> None:
        """Record a file that was opened and closed: as a save, if it may be one.

        A text file may hold a job's place, but mostly is a log of it.
        """
        path = resolve_links(opening.path)
        content = self._contents.pop(opening.path, None)
        if opening.is_append or path.name.startswith(_EVENTS):  # a log, and no state
            return
        if opening.is_kept_open and not is_text(path):
            return  # it is of many steps, and says of none what was in it
        self.record_bytes(opening, str(path), path, content)

    def record_bytes(
        self, opening: OpenedFile, name: str, path: Path, content: FileContent | None
    ) -> None:
        """Record bytes that lie in a file, or in an object of which the file is a copy of ours."""
        digest, size = digest_file(path)
        earlier_save = self.saves.find_save(digest)
        if earlier_save is not None and self._is_copy(earlier_save, opening, name):
            self._record_copy(name, earlier_save, size)
            return
        content = content or self._contents.pop(digest, None) or extract_content(load_content(path))
        if not is_text(path):
            self._record_begin(name, opening.place, path.suffix.lstrip("."), thread=opening.thread)
            self._record_saved_file(name, opening.place, content, (digest, size), opening.code)
            return
        self._keep_save(name, opening.place, digest, size=size, is_log=True)
        if content.parts:
            file_fields: dict[str, Any] = {"path": opening.path, "digest": digest, "bytes": size}
            text = FileWritten(
                **self._build_fields(opening.place), **file_fields, parts=content.parts
            )
            self._text_files[opening.path] = text

    def _is_copy(self, earlier_save: SaveRecord, opening: OpenedFile, name: str) -> bool:
        """Return whether a file holds what was saved elsewhere.

        What another thread copies may be done before training goes on, or after it.
        """
        is_beside = earlier_save.path != name and self.thread_places.is_background(opening.thread)
        return is_beside or (earlier_save.epoch, earlier_save.step) != opening.place

    def _record_copy(self, path: str, earlier_save: SaveRecord, size: int) -> None:
        """Record a copy of a file that was saved elsewhere, now that it is whole."""
        self.saves.record_copy(path, earlier_save.digest, size=size, tmp=self._temporary_folder)
        if earlier_save.path != path:  # else it is written again, with the same bytes
            place_fields = self._build_fields(TrainingPlace(earlier_save.epoch, earlier_save.step))
            self._write(FileCopied(**place_fields, path=path, digest=earlier_save.digest))

    def _report_texts(self) -> None:
        texts, self._text_files = self._text_files, {}
        for text in texts.values():
            self.record_safely("files", lambda text=text: self._write(text))  # type: ignore[misc]

    def _record_resume(self, evidence: StepKeys, *, is_over: bool = False) -> None:
        event = self.resume_finder.move_cursor(evidence, is_over=is_over)
        if event is not None:
            self._write(event)
