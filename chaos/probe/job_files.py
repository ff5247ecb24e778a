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

from chaos.check.resume_place import Seen
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
from chaos.model.objects import is_object
from chaos.model.places import START, Place
from chaos.model.trigger import PARTS_MAX, Moment, path_pattern
from chaos.probe.cursor import Recorder
from chaos.probe.file_facts import (
    Content,
    Stored,
    beside,
    bytes_of,
    content_of,
    in_folder,
    real_path,
)
from chaos.probe.job_code import running_line
from chaos.probe.loads import GoingOn, Loads
from chaos.probe.open_watch import Opened, Opening, Operation, emptied, made
from chaos.probe.saves import SaveRecord, Saves
from chaos.probe.state.readable import is_text, read
from chaos.probe.thread_place import ThreadPlaces
from chaos.run.file_digest import WHOLE_MAX, file_digest, stream_digest

# Returns, for a moment of an epoch and the file, the function that stops a rank at an op, if it is
# to stop there.
Stops: TypeAlias = Callable[[Moment, int, str], Callable[[], None] | None]
# Kinds of operations at one place that are recorded: a job may write files with names of its own.
KINDS_MAX = 32
_EVENTS = "events.out."  # how TensorBoard's files of events begin


class JobFiles:
    """The saves and loads of one rank, by which its cursor may move (see `GoingOn`)."""

    #: called once the thread that trains has saved a file
    on_save: Callable[[], None] = staticmethod(lambda: None)

    def __init__(
        self,
        record: Recorder,
        saves: Saves,
        *,
        may_move: bool,
        ranks: int,
    ) -> None:
        self._cursor, self._cost = record.cursor, record.cost
        self._write, self._failed = record.write, record.failed
        self.saves = saves
        self.going_on = GoingOn(record.cursor, saves, ranks=ranks, may_move=may_move)
        self.going_on.is_untouched = lambda: not self._has_saved and not self._ended
        self.loads = Loads(record, saves, self.going_on)
        self._since_step: list[SaveRecord] = []
        self._due = saves.lengths(record.cursor.rank, ranks=ranks)
        self._ended: dict[int, int] = {}  # the steps of each epoch that was reported
        self.thread_places = ThreadPlaces(lambda: Place(self._cursor.epoch, self._cursor.step))
        self._lock = threading.RLock()
        self.opened = Opened(
            saves.run,
            self.thread_places.place,
            is_read=self.loads.reading,
            look=self._look_beside,
            before=self._before,
            failed=record.failed,
        )
        self.opened.moved = self._moved
        self.opened.is_reading = record.cursor.attempt > 0
        self._contents: dict[str, Content] = {}  # by path, or by the digest of the bytes
        self._texts: dict[str, FileWritten] = {}
        self._folders: dict[str, Place] = {}  # that are written beside training
        self._set_hooks()
        self._has_saved = self._has_stepped = False
        self._tmp = os.path.realpath(tempfile.gettempdir())
        self.reported: int | None = None
        self._touched: tuple[Place, set[tuple[str, str]]] = START, set()

    def _set_hooks(self) -> None:
        """Set what the watch may replace by functions of its own."""
        self.settle: Callable[[], object] | None = None
        self.stops: Stops = lambda *_: None
        #: whether a fault hides an object from all that list the store
        self.hides: Callable[[str], bool] = lambda _: False
        self.unhook: Callable[[Callable[[], Any]], Any] = lambda save: save()
        #: the number of the numbers that this rank trains
        self.trained: Callable[[], int] = lambda: 0

    def watch_opened(self) -> None:
        """Follow, from now on, files that are written and read by other means than torch's."""
        self.opened.watch()
        self.thread_places.watch()
        if self._cursor.attempt:
            self.guarded("files", self._tell_found)

    def has_read(self, paths: Iterable[Path]) -> None:
        """Look at files that this process has read before it was watched."""
        for path in paths:
            if self.opened.is_reading and path.is_file():
                self.guarded("load", functools.partial(self.loads.reading, path))
        self.guarded("load", self.loads.look)

    # -- called by torch.save and torch.load, and by pickle --------------------------------------

    def save_begun(self, path: Path) -> None:
        """Record that a file begins to be written."""
        self.guarded(
            "save", lambda: self._begun(real_path(path), self.thread_places.place(), "torch")
        )

    def saved(self, path: Path, what: Any) -> None:  # whatever `torch.save` is given
        """Record a file's bytes and the counts in it, for later attempts to find."""
        self.opened.forget(path)
        place = self.thread_places.place()
        real, code = real_path(path), running_line()
        self.guarded(
            "save", lambda: self._saved(real, place, content_of(what), bytes_of(real), code)
        )
        if not self.thread_places.is_beside():
            self.on_save()

    def holds(self, path: Path, what: Any) -> None:  # whatever is pickled
        """Remember the content of a file that is not closed yet."""
        self.guarded("save", lambda: self._contents.update({str(path): content_of(what)}))

    def holds_stream(self, stream: Any, what: Any) -> None:
        """Remember the content of a buffer whose bytes may be written to a file."""
        if not isinstance(stream, io.BytesIO) or stream.closed or stream.tell() > WHOLE_MAX:
            return
        cursor, digest = self._cursor, stream_digest(io.BytesIO(stream.getvalue()))
        self.guarded("save", lambda: self._contents.update({digest: content_of(what)}))
        self.guarded("save", lambda: self.saves.mark("look", *cursor.numbers()))

    def halfway(self, path: Path) -> Callable[[], None] | None:
        """Return the function that arrives at an op in the middle of a save of this file, or None.

        What is written before the first step of a job that makes steps is data, and no save.
        """
        cursor = self._cursor
        is_data = (cursor.epoch, cursor.step) == START and any(self._due.values())
        return None if is_data else self.stops("saving", cursor.epoch, str(path))

    def save_handed_over(self, folder: Path) -> None:
        """Mark the place of a save that is written later, while training goes on.

        By another process perhaps, whose files are not seen until they are uploaded.
        """
        cursor = self._cursor
        self._folders[str(folder)] = place = Place(cursor.epoch, cursor.step)
        self.guarded("save", lambda: self.saves.mark("place", cursor.attempt, *place))

    def shard_begun(self, folder: Path) -> None:
        """Record that this rank begins to write its files of a sharded checkpoint."""
        place = self.thread_places.place()
        self.guarded("save", lambda: self._begun(folder, place, "shards"))

    def shard_written(self, folder: Path) -> None:
        """Stop at an op inside a save, in the epoch in which the save was asked for."""
        epoch = self.thread_places.place().epoch
        if (arrive := self.stops("saving", epoch, str(folder))) is not None:
            arrive()

    def shards_read(self, folder: Path) -> None:
        """Do nothing: its files were seen as they were opened."""

    def loading(self, path: Path) -> str | None:
        if not path.is_file():
            return None
        try:
            with self._cost.watching, self.opened.quietly():
                return file_digest(path)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's load
            self._failed("load", error)
            return None

    def within_load(self, digest: str) -> None:
        """Stop at an op inside the first load of a file that an earlier attempt saved."""
        self.loads.within(digest)

    def quietly(self) -> contextlib.AbstractContextManager[None]:
        """Return a context in which `open` is not watched: the caller reports the file itself."""
        return self.opened.quietly()

    def loaded(
        self, path: Path, digest: str, error: BaseException | None, value: object = None
    ) -> None:
        del value
        self.guarded("load", lambda: self.loads.loaded(path, digest, error))

    def part_uploaded(self, checkpoint: str, folder: Path, files: Mapping[str, str]) -> None:
        self.look(at_rest=True)
        self.guarded("upload", lambda: self._part(checkpoint, folder, files))

    def is_saved_here(self) -> bool:
        """Return whether any rank has saved a file since the last step of an epoch.

        The ranks step together: the save of one holds up the next step of the others.
        """
        cursor = self._cursor
        return cursor.step > 0 and self.saves.has("place", *cursor.numbers())

    def may_resume_here(self) -> bool:
        """Return whether a rank has saved its state since the last step, or read a saved one."""
        cursor = self._cursor
        if not cursor.step:
            return False
        if self.going_on.is_to_find:  # it has read a save since its last step
            return True
        return self.is_saved_here() or self.saves.has("look", *cursor.numbers())

    def unhooked(self, save: Callable[[], Any]) -> Any:  # what `save` gives
        """Call `save` while no module has a hook of chaos.

        Beside training the hooks stay, as they see the steps that are made meanwhile: a module
        that is pickled there gets hooks that do nothing.
        """
        return save() if self.thread_places.is_beside() else self.unhook(save)

    # -- called by the probe ---------------------------------------------------------------------

    def look(self, *, at_rest: bool = False) -> None:
        """Record the files written and closed, or read, since the last look.

        `at_rest` also looks again at files that were still open at an earlier look.
        """
        self.guarded("files", lambda: self._look(at_rest=at_rest))

    def step_begins(self, first: Callable[[], Seen] = Seen) -> None:
        """Move the cursor, before the first step of a later attempt, to where it resumed.

        `first` returns what was seen of that step. The ranks share a step's gradients: by now every
        rank has read its files.
        """
        self._comes_here(first)
        self.opened.step_begins()

    def _comes_here(self, first: Callable[[], Seen] = Seen) -> None:
        self.thread_places.trains_here()
        self.look(at_rest=True)  # torchrun's jobs make no report, at which it would be done
        if self.going_on.is_to_find:
            self.guarded("load", lambda: self._go_on(first()))

    def pass_reported(self) -> None:
        """Begin the next epoch at a step, if the report that ends this one came before.

        A checkpoint may be older than its report: one that is saved beside training is reported
        when it is whole, which is a save later. A job that resumes from it trains the rest of
        that epoch, and does not report it again. `reported` is the epoch whose report came with
        the checkpoint that this attempt resumed from; of epochs after it, each has its report.
        """
        if self._is_at_reported_end():
            self.guarded("files", self._pass)

    def _is_at_reported_end(self) -> bool:
        cursor = self._cursor
        return (
            self.reported is not None
            and cursor.epoch <= self.reported
            and cursor.epoch not in self._ended
            and 0 < cursor.step == self._due.get(cursor.epoch)
        )

    def _pass(self) -> None:
        cursor = self._cursor
        self.saves.mark("passed", cursor.attempt, cursor.epoch)
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
        is_saved = self.saves.has("place", *cursor.numbers())
        if is_saved and self._due.get(cursor.epoch + 1) == 0 and self._is_at_reported_end():
            self._pass()

    def is_at_end(self, epoch_steps: int | None) -> bool:
        """Return whether a step begins the next epoch, in a job that reports nothing.

        Its epochs are those of the baseline. In the baseline itself, an epoch ends after
        `epoch_steps`; without that, where any rank has saved a file since the last step: by now
        all ranks have come to this one, since they share its gradients.
        """
        epoch, step = self._cursor.epoch, self._cursor.step
        if self._due:
            return 0 < step == self._due.get(epoch)
        if epoch_steps is not None:
            return step >= epoch_steps
        return self.is_saved_here()

    def epoch_ended(self) -> None:
        """Mark the saves since the last step as the end of their epoch, where no report does."""
        self.guarded("files", self._mark_ends)
        self._tell_texts()

    def step_done(self) -> None:
        """Remember that the saves so far lie in the middle of an epoch."""
        self.opened.is_reading, self._has_stepped = False, True
        self._since_step.clear()

    def report_begun(self, *, is_early: bool = False) -> None:
        """Mark the saves since the last step as the end of their epoch.

        Before an `is_early` report nothing was trained: the first step still shows the place.
        """
        self.look(at_rest=True)
        if not is_early:
            self._comes_here()
        self.guarded("report", self._pass_at_report)
        self.guarded("report", self._mark_ends)
        self._tell_texts()

    def train_fn_ended(self, *, returned: bool = True) -> None:
        """Record the files that the job leaves when its train function is over.

        A job that has `returned` without a step found in its files that nothing was left to train.
        """
        if returned and self.going_on.is_to_find:
            self.look()
            self.guarded("load", lambda: self._go_on(Seen(), is_over=True))
        self.guarded("files", lambda: self._look(at_rest=True, at_end=True))
        self._tell_texts()

    # -- inside ------------------------------------------------------------------------------

    def guarded(self, where: str, act: Callable[[], object]) -> None:
        """Do what only records: an error of it is recorded, and not raised."""
        try:
            with self._cost.watching, self.opened.quietly(), self._lock:
                act()
                if self._has_saved and self.settle is not None:
                    self.settle()  # the next attempt compares its model with this one's
                    self.settle = None
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's save or load
            self._failed(where, error)

    def _look_beside(self) -> None:
        """Look, in the thread that has closed a file; its time is not counted as a step's."""
        try:
            with self.opened.quietly(), self._lock:
                self._look(at_rest=False)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's save
            self._failed("files", error)

    def _before(self, operation: Operation) -> None:
        """Stop at an op whose place is an operation on a name, of which none is before training.

        Caches are made there, once for all runs of a machine.
        """
        moment, path, place = operation.moment, operation.path, operation.place
        if place <= START or (arrive := self.stops(moment, place.epoch, path)) is None:
            return
        self._look_beside()  # what was written before is complete now
        if moment != "opening":
            with made(path) if moment == "making" else contextlib.nullcontext():
                arrive()
            return
        with emptied(path):
            real = real_path(path)  # of a writing that is cut off there is no other sign
            saver = real.suffix.lstrip(".") or "file"
            self.guarded("files", lambda: self._begun(real, place, saver))
            arrive()

    def _moved(self, path: str, to: str | None) -> None:
        """Follow a file that is renamed or removed, by whomever it was saved."""
        if to is None:
            self.saves.drop(in_folder(path))
        else:
            self.saves.move(in_folder(path), in_folder(to))

    def _tell_found(self) -> None:
        """Record which of the files that earlier attempts left are there for this rank."""
        files = []
        for laid in self.saves.laid():
            is_elsewhere = laid.tmp not in (None, self._tmp)
            where = None if self.hides(laid.path) else laid.where()
            state: Literal["there", "gone"] = "gone" if where is None else "there"
            files.append(
                SeenFile(
                    path=where or laid.path,
                    digest=laid.digest,
                    state="elsewhere" if is_elsewhere else state,
                )
            )
        there = {file.path for file in files if file.state == "there"}
        known = {file.path for file in files}
        others = sorted(beside(path for path in there if not is_object(path)) - known)
        files += [SeenFile(path=path, digest="", state="there") for path in others]
        self._write(FilesSeen(**self._cursor.who(), files=tuple(files)))

    def _at(self, place: Place) -> dict[str, Any]:
        return {**self._cursor.who(), "epoch": place[0], "step": place[1]}

    def _begun(
        self, path: Path | str, place: Place, saver: str, *, thread: int | None = None
    ) -> None:
        """Record a save that begins, or that was begun by the `thread` that opened its file."""
        self.tell_operations()  # those before it
        is_beside = self.thread_places.is_beside(thread)
        self._write(
            FileSaveBegun(**self._at(place), path=str(path), saver=saver, is_beside=is_beside)
        )
        if saver == "torch":  # the others are recorded once they are written
            self.saves.begin(self.save_of(path, place, digest=""))

    def _saved(
        self,
        path: Path | str,
        place: Place,
        content: Content,
        stored: Stored,
        code: CodeLine | None,
    ) -> None:
        digest, size = stored
        what: dict[str, Any] = {"path": str(path), "digest": digest, "bytes": size, "code": code}
        what |= {"parts": content.parts, "counts": dict(content.counts)}
        self._write(FileSaved(**self._at(place), **what, share=self._share(content)))
        self._keep(path, place, digest, size=size)
        self.saves.mark("place", self._cursor.attempt, *place)
        self._has_saved = True

    def _share(self, content: Content) -> float | None:
        trained = self.trained()
        return content.elements / trained if trained and content.elements is not None else None

    def _keep(
        self, path: Path | str, place: Place, digest: str, *, size: int, is_log: bool = False
    ) -> None:
        save = self.save_of(path, place, digest, is_log=is_log)
        self.saves.lay(path, digest, size=size, tmp=self._tmp)
        if save.is_data and self.saves.find(digest) is not None:
            return  # what was saved in training stays so, though a new process writes it again
        self.saves.keep(save, size=size)
        self._since_step.append(save)

    def save_of(
        self, path: Path | str, place: Place, digest: str, *, is_log: bool = False
    ) -> SaveRecord:
        who, ends = self._cursor, self._ends_epoch(place)
        is_data = not self._has_stepped and any(self._due.values())  # in a job that makes steps
        return SaveRecord(digest, who.attempt, who.rank, *place, str(path), ends, is_log, is_data)

    def _part(self, checkpoint: str, folder: Path, files: Mapping[str, str]) -> None:
        """Record the place of the youngest file, if this run is known to have saved all files."""
        digests = [
            file_digest(folder / name) if digest.startswith("size:") else digest
            for name, digest in files.items()
        ]
        place = self._folders.pop(os.path.abspath(folder), None)  # noqa: PTH100 - links stay links
        if place is not None:
            for name, digest in zip(files, digests, strict=True):
                if self.saves.find(digest) is None:
                    path = folder / name
                    self._saved(
                        path, place, content_of(read(path)), (digest, path.stat().st_size), None
                    )
        found = [save for save in map(self.saves.find, digests) if save is not None]
        places = [save.goes_on_at() for save in found if not save.is_log]
        # In an epoch without a step it is unknown whether a save is of its end.
        is_known = bool(places) and len(found) == len(digests) and self._cursor.step > 0
        self.saves.keep_part(checkpoint, self._cursor.rank, max(places) if is_known else None)

    def _ends_epoch(self, place: Place) -> bool:
        """Return whether an epoch ended there: by its report, or by its steps in the baseline.

        The report after a save may never begin, since a fault may come between.
        """
        epoch, step = place
        if epoch in self._ended:
            return self._ended[epoch] == step
        return step > 0 and self._due.get(epoch) == step

    def _mark_ends(self) -> None:
        # A save comes before the report that ends its epoch, so only now is it known that a job
        # which loads it continues with the next epoch. The mark is a file of its own, for later
        # attempts; saves of earlier steps stay places within the epoch.
        epoch, step = self._cursor.epoch, self._cursor.step
        self._ended[epoch] = step
        for save in self._since_step:
            if (save.epoch, save.step) == (epoch, step) and step > 0:
                self.saves.mark_end(save)
        self._since_step.clear()

    def _look(self, *, at_rest: bool, at_end: bool = False) -> None:
        self.loads.look()
        for opening in self.opened.closed(look_again=at_rest, at_end=at_end):
            try:
                self._written(opening)
            except FileNotFoundError:
                # A temporary file may be gone by now. One that is renamed is not: its thread waits.
                if Path(opening.path).exists():
                    raise
        self.tell_operations()

    def tell_operations(self) -> None:
        for done in self.opened.operations():
            names: dict[str, Any] = {"path": done.path, "to": done.to}
            if done.moment == "renaming":
                self._write(FileRenamed(**self._at(done.place), **names))
            elif self._is_first(done):
                self._write(FileTouched(**self._at(done.place), **names, how=done.moment))

    def _is_first(self, operation: Operation) -> bool:
        """Return whether an operation is the first of its kind at its place: there may be many."""
        place, known = self._touched
        if place != operation.place:
            self._touched = place, known = operation.place, set()
        kind = operation.moment, path_pattern(operation.path, PARTS_MAX)
        is_first = kind not in known and len(known) < KINDS_MAX
        known.add(kind)
        return is_first

    def _written(self, opening: Opening) -> None:
        """Record a file that was opened and closed: as a save, if it may be one.

        A text file may hold a job's place, but mostly is a log of it.
        """
        path = real_path(opening.path)
        content = self._contents.pop(opening.path, None)
        if opening.appends or path.name.startswith(_EVENTS):  # a log, and no state
            return
        if opening.stays_open and not is_text(path):
            return  # it is of many steps, and says of none what was in it
        self.stored(opening, str(path), path, content)

    def stored(self, opening: Opening, name: str, path: Path, content: Content | None) -> None:
        """Record bytes that lie in a file, or in an object of which the file is a copy of ours."""
        digest, size = bytes_of(path)
        known = self.saves.find(digest)
        if known is not None and self._is_copy(known, opening, name):
            self._copied(name, known, size)
            return
        content = content or self._contents.pop(digest, None) or content_of(read(path))
        if not is_text(path):
            self._begun(name, opening.place, path.suffix.lstrip("."), thread=opening.thread)
            self._saved(name, opening.place, content, (digest, size), opening.code)
            return
        self._keep(name, opening.place, digest, size=size, is_log=True)
        if content.parts:
            what: dict[str, Any] = {"path": opening.path, "digest": digest, "bytes": size}
            text = FileWritten(**self._at(opening.place), **what, parts=content.parts)
            self._texts[opening.path] = text

    def _is_copy(self, known: SaveRecord, opening: Opening, name: str) -> bool:
        """Return whether a file holds what was saved elsewhere.

        What another thread copies may be done before training goes on, or after it.
        """
        is_beside = known.path != name and self.thread_places.is_beside(opening.thread)
        return is_beside or (known.epoch, known.step) != opening.place

    def _copied(self, path: str, known: SaveRecord, size: int) -> None:
        """Record a copy of a file that was saved elsewhere, now that it is whole."""
        self.saves.lay(path, known.digest, size=size, tmp=self._tmp)
        if known.path != path:  # else it is written again, with the same bytes
            at = self._at(Place(known.epoch, known.step))
            self._write(FileCopied(**at, path=path, digest=known.digest))

    def _tell_texts(self) -> None:
        texts, self._texts = self._texts, {}
        for text in texts.values():
            self.guarded("files", lambda text=text: self._write(text))  # type: ignore[misc]

    def _go_on(self, first: Seen, *, is_over: bool = False) -> None:
        found = self.going_on.resumes(first, is_over=is_over)
        if found is not None:
            self._write(found)
