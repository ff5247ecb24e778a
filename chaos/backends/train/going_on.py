"""The resume place of a rank that keeps its files itself, inferred from the files it reads."""

from collections.abc import Callable
from dataclasses import replace

from chaos.backends.train.cursor import Cursor
from chaos.backends.train.saves import Position, Save, Saves


class GoingOn:
    """The saves that one rank reads before its first step, and the place that follows from them.

    A rank that Ray handed no checkpoint begins at epoch 0 in the probe's count.
    If it loads, before its first step, a file that an earlier attempt of this run
    saved, the job may keep its files itself: with its first step, the cursor moves
    to the place of that save. Of several files, the furthest one counts whose place
    all `ranks` have read: a file that is saved at another pace is a log. If one rank
    reads for all, or the ranks do not agree, each counts by the files that it read
    itself, a rank that read none by the furthest. But if `is_fresh` is true, the model
    is the one that the first attempt began with: no file has become part of it, and
    the cursor stays. Text counts only if nothing else was read.
    """

    def __init__(self, cursor: Cursor, saves: Saves, *, ranks: int, may_move: bool) -> None:
        self._cursor = cursor
        self._saves = saves
        self._ranks = ranks
        self._reads: list[Position] = []
        self.may_move = may_move
        self.is_fresh: Callable[[], bool] = lambda: False

    def has_read(self, save: Save) -> None:
        """Record a save that this rank has read, for the other ranks to see."""
        cursor = self._cursor
        if self.may_move and save.attempt < cursor.attempt:
            self._reads.append(Position.of(save, attempt=cursor.attempt, rank=cursor.rank))
            self._saves.keep_reads(cursor.attempt, cursor.rank, self._reads)

    def settle(self) -> Position | None:
        """Move the cursor, once, to the resume place by the files; return it if that is later."""
        self.may_move = False
        to = self._furthest()
        if to is None:
            return None
        self._cursor.epoch, self._cursor.step = to.place
        position = replace(to, rank=self._cursor.rank)
        self._saves.take_position(position)
        return position

    def _furthest(self) -> Position | None:
        reads = self._saves.reads(self._cursor.attempt)
        # Logs count only if no rank has read anything else.
        if not all(read.is_log for of in reads.values() for read in of):
            of_state = {r: tuple(read for read in of if not read.is_log) for r, of in reads.items()}
            reads = {rank: of for rank, of in of_state.items() if of}
        # The places that every rank has read: none if they differ, or if only some ranks read.
        places = [{read.place for read in of} for of in reads.values()]
        agreed = set.intersection(*places) if len(places) == self._ranks else set()
        ours = reads.get(self._cursor.rank, ()) or [read for of in reads.values() for read in of]
        may = [read for read in ours if read.place in agreed or not agreed]
        to = max(may, key=lambda read: read.place, default=None)
        if to is None or to.place <= (self._cursor.epoch, self._cursor.step):
            return None
        return None if (not agreed or to.is_log) and self.is_fresh() else to
