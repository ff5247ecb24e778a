"""The files of earlier attempts that a rank reads, and the place that may follow from them."""

from collections.abc import Callable
from pathlib import Path

from chaos.check.resume_place import Assumed, Seen, resumed_at
from chaos.model.event import CodeLine, FileLoaded, Repositioned
from chaos.model.places import START, Place
from chaos.probe.cursor import Cursor, Recorder
from chaos.probe.job_code import running_line
from chaos.probe.saves import Position, SaveRecord, Saves, real
from chaos.run.file_digest import file_digest
from chaos.words import shortened


class GoingOn:
    """The saves of earlier attempts that one rank reads before its first step.

    Where its training does not show the place of a resume (see `check.resume_place`), it is the
    place of the save that was read. Of several files, the furthest one counts whose place all
    `ranks` have read: a file that is saved at another pace is a log. If one rank reads for all, or
    the ranks do not agree, each counts by the files that it read itself, a rank that read none by
    the furthest. Text counts only if nothing else was read.

    A job may make steps before it reads its save, as one that trains a teacher at each start. A
    rank that seemed to begin anew, has reported and saved nothing since, and reads a save then, is
    looked at once more at its next step: with the model of another place it resumed there.
    """

    def __init__(self, cursor: Cursor, saves: Saves, *, ranks: int, may_move: bool) -> None:
        self._cursor = cursor
        self._saves = saves
        self._ranks = ranks
        self._reads: list[Position] = []
        self._may_read = may_move
        self.is_to_find = cursor.attempt > 0
        #: whether this rank has reported or saved nothing in this attempt
        self.is_untouched: Callable[[], bool] = lambda: False
        #: it has read a save after steps of this attempt, of which the place is to be found again
        self.is_late = False

    def has_read(self, save: SaveRecord) -> None:
        """Record a save that this rank has read, for the other ranks to see.

        What was written before training is data, of which no place follows.
        """
        cursor = self._cursor
        is_training = not save.is_data and save.goes_on_at() > START
        is_anew = cursor.epoch == START.epoch and cursor.step > 0 and not self.is_to_find
        if is_anew and save.attempt < cursor.attempt and is_training and self.is_untouched():
            self._may_read = self.is_to_find = self.is_late = True
        if self.may_move and save.attempt < cursor.attempt and is_training:
            self._reads.append(Position.of(save, attempt=cursor.attempt, rank=cursor.rank))
            self._saves.keep_reads(cursor.attempt, cursor.rank, self._reads)

    @property
    def may_move(self) -> bool:
        """Whether the place may still follow from a file: Ray handed no checkpoint."""
        return self._may_read and self.is_to_find

    def resumes(self, first: Seen, *, is_over: bool = False) -> Repositioned | None:
        """Move the cursor, once, to the place at which the rank resumed; None: nothing tells it.

        `first` is what was seen of its first step; `is_over`: it made none.
        """
        self.is_to_find, cursor = False, self._cursor
        own = self._saves.states(before=cursor.attempt)
        index = self._saves.index(cursor.rank, ranks=self._ranks)
        is_fresh = own.models.get(first.model) == {START}
        assumed = self._assumed(is_fresh=is_fresh, is_over=is_over)
        found = resumed_at([first], index, assumed, own)
        if found.by == "nothing":
            return None
        is_late, self.is_late = self.is_late, False
        is_moved = found.place > (cursor.epoch, cursor.step) and found.by.startswith("state")
        if is_late and not is_moved:
            return None
        cursor.epoch, cursor.step = found.place
        path = assumed.path if found.by == "file" else None
        self._saves.take_position(Position(cursor.attempt, cursor.rank, *found.place, path or ""))
        at = cursor.place()
        return Repositioned(**at, path=path, by=found.by, others=found.others)

    def _assumed(self, *, is_fresh: bool, is_over: bool) -> Assumed:
        """Return the place by the file that was read, or by Ray's commit."""
        read = self.furthest(is_fresh=is_fresh, is_over=is_over)
        if read is not None:
            return Assumed(read.place, "file", read.path)
        place = Place(self._cursor.epoch, self._cursor.step)
        return Assumed(place, "nothing" if self._may_read else "commit")

    def furthest(self, *, is_fresh: bool, is_over: bool = False) -> Position | None:
        """Return the place by the files that were read, if it is later than the rank's own.

        `is_fresh`: the model is the one that the run began with. Then a file that the ranks do not
        agree on has not become part of it. `is_over`: the rank found that nothing was left to
        train; others may still be reading.
        """
        reads = self._saves.reads(self._cursor.attempt)
        # Logs count only if no rank has read anything else.
        if not all(read.is_log for of in reads.values() for read in of):
            of_state = {r: tuple(read for read in of if not read.is_log) for r, of in reads.items()}
            reads = {rank: of for rank, of in of_state.items() if of}
        # The places that every rank has read: none if they differ, or if only some ranks read.
        places = [{read.place for read in of} for of in reads.values()]
        is_all = len(places) == self._ranks and not is_over
        agreed = set.intersection(*places) if is_all else set()
        ours = reads.get(self._cursor.rank, ()) or [read for of in reads.values() for read in of]
        may = [read for read in ours if read.place in agreed or not agreed]
        to = max(may, key=lambda read: read.place, default=None)
        if to is None or to.place <= (self._cursor.epoch, self._cursor.step):
            return None
        return None if (not agreed or to.is_log) and is_fresh else to


class Loads:
    """The loads of one rank; `strike` is called inside the first of an earlier attempt's file."""

    def __init__(self, record: Recorder, saves: Saves, going_on: GoingOn) -> None:
        self._cursor, self._write = record.cursor, record.write
        self._saves = saves
        self._going_on = going_on
        self._opened: list[tuple[Path | str, str, CodeLine | None]] = []
        self._told: set[tuple[str, str]] = set()
        self.strike: Callable[[], None] | None = None

    def within(self, digest: str) -> None:
        """Stop at an op inside the first load of a file that an earlier attempt saved."""
        if self.strike is not None and self._of_an_earlier_attempt(digest) is not None:
            strike, self.strike = self.strike, None
            strike()

    def reading(self, path: Path) -> None:
        """Remember a file of an earlier attempt that is being opened; stop at an op inside it."""
        if self._saves.has("size", path.stat().st_size):
            self.reading_bytes(path, file_digest(path))

    def reading_bytes(self, path: Path | str, digest: str) -> None:
        """Remember a file, or an object, with these bytes, if an earlier attempt saved them."""
        save = self._of_an_earlier_attempt(digest)
        if save is None and isinstance(path, str):  # its writer may have ended as it was put
            save = self._saves.finish(path, digest, before=self._cursor.attempt)
        if save is None:
            return
        if not save.is_log or self._going_on.may_move:
            self._opened.append((path, digest, running_line()))
        if not save.is_log:
            self.within(digest)

    def look(self) -> None:
        """Record the files opened since, except those that were recorded by `loaded`."""
        opened, self._opened = self._opened, []
        for path, digest, code in opened:
            if (str(path), digest) not in self._told:
                self._loaded(path, digest, None, code)

    def loaded(self, path: Path, digest: str, error: BaseException | None) -> None:
        """Record that this thread has read a file."""
        self._loaded(path, digest, error, running_line())

    def _loaded(
        self, path: Path | str, digest: str, error: BaseException | None, code: CodeLine | None
    ) -> None:
        save = self._saves.find(digest)
        if save is None and error is None:
            save = self._saves.finish(path, digest, before=self._cursor.attempt)
        self._told.add((str(path), digest))
        self._write(
            FileLoaded(
                **self._cursor.place(),
                path=real(path),  # as it was saved, whatever links lead to it
                digest=digest,
                saved_attempt=None if save is None else save.attempt,
                saved_rank=None if save is None else save.rank,
                saved_epoch=None if save is None else save.epoch,
                saved_step=None if save is None else save.step,
                error=None if error is None else shortened(f"{type(error).__name__}: {error}"),
                code=code,
            )
        )
        if error is None and save is not None:
            self._going_on.has_read(save)

    def _of_an_earlier_attempt(self, digest: str) -> SaveRecord | None:
        save = self._saves.find(digest)
        return save if save is not None and save.attempt < self._cursor.attempt else None
