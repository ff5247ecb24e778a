"""Where a rank goes on that keeps its files itself: it is told by what it reads of them."""

from collections.abc import Callable
from dataclasses import replace

from chaos.backends.train.cursor import Cursor
from chaos.backends.train.saves import Position, Save, Saves


class GoingOn:
    """Told of the saves that one rank reads before its first step.

    A rank that Ray handed no checkpoint begins at epoch 0 in the probe's
    counting. Where it loads, before its first step, a file that an earlier
    attempt of this run has saved, it may keep its files itself: with its first
    step its cursor moves to where that was. Of several files the furthest one
    counts that all `ranks` read at one age: what is saved at another pace is
    a log. Where one rank reads for all, or they do not agree, each goes by
    what it read, the others by the furthest; unless `is_fresh` says that the
    model is the one that the first attempt began with, so that nothing of
    what was read has become part of it. Text counts only where nothing else was read.
    """

    def __init__(self, cursor: Cursor, saves: Saves, *, ranks: int, may_move: bool) -> None:
        self._cursor = cursor
        self._saves = saves
        self._ranks = ranks
        self._reads: list[Position] = []
        self.may_move = may_move
        self.is_fresh: Callable[[], bool] = lambda: False

    def has_read(self, save: Save) -> None:
        """Leave word for the other ranks of what this one has read."""
        cursor = self._cursor
        if self.may_move and save.attempt < cursor.attempt:
            self._reads.append(Position.of(save, attempt=cursor.attempt, rank=cursor.rank))
            self._saves.keep_reads(cursor.attempt, cursor.rank, self._reads)

    def settle(self) -> Position | None:
        """Move the cursor, once, to where the files say that training goes on; give where."""
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
        if not all(read.is_log for of in reads.values() for read in of):
            of_state = {r: tuple(read for read in of if not read.is_log) for r, of in reads.items()}
            reads = {rank: of for rank, of in of_state.items() if of}
        places = [{read.place for read in of} for of in reads.values()]
        agreed = set.intersection(*places) if len(places) == self._ranks else set()
        ours = reads.get(self._cursor.rank, ()) or [read for of in reads.values() for read in of]
        may = [read for read in ours if read.place in agreed or not agreed]
        to = max(may, key=lambda read: read.place, default=None)
        if to is None or to.place <= (self._cursor.epoch, self._cursor.step):
            return None
        return None if (not agreed or to.is_log) and self.is_fresh() else to
