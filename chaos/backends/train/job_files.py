"""What a rank saves and loads: recorded, traced to the save it came from, and followed."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaos.backends.train.cursor import Record
from chaos.backends.train.saves import Position, Save, Saves
from chaos.backends.train.state.content import parts_of
from chaos.backends.train.state.counts import counts_of
from chaos.model.event import (
    FileLoaded,
    FileSaveBegun,
    FileSaved,
    Repositioned,
    SavedPart,
)
from chaos.run.file_digest import file_digest


class JobFiles:
    """Told of one rank's saves and loads.

    A rank that Ray handed no checkpoint begins at epoch 0 in the probe's
    counting. Where it loads, before its first step, a file that an earlier
    attempt of this run has saved, it may keep its files itself: with its first
    step its cursor moves to where that was. Of several files the furthest one
    counts that all `ranks` read at one age: what is saved at another pace is
    a log. Where one rank reads for all, or they do not agree, each goes by
    what it read, the others by the furthest; unless `is_fresh` says that the
    model is the one that the first attempt began with, so that nothing of
    what was read has become part of it.
    """

    def __init__(
        self,
        record: Record,
        saves: Saves,
        *,
        is_kept: bool,
        may_move: bool,
        ranks: int,
    ) -> None:
        self._cursor, self._cost = record.cursor, record.cost
        self._write, self._failed = record.write, record.failed
        self._saves = saves
        self._records = is_kept
        self._may_move = may_move
        self._ranks = ranks
        self._reads: list[Position] = []
        self._since_step: list[Save] = []
        self.is_fresh: Callable[[], bool] = lambda: False
        self.settle: Callable[[], object] | None = None
        self.halfway_of: Callable[[int], Callable[[], None] | None] = lambda _: None
        self.strike_in_load: Callable[[], None] | None = None
        self.unhook: Callable[[Callable[[], Any]], Any] = lambda save: save()

    # -- told by torch.save and torch.load -----------------------------------------------------

    def save_begun(self, path: Path) -> None:
        """Record that a file begins to be written."""
        self._guarded(
            "save", lambda: self._write(FileSaveBegun(**self._cursor.place(), path=str(path)))
        )

    def saved(self, path: Path, what: Any) -> None:  # noqa: ANN401 - whatever `torch.save` is given
        """Record a file's bytes and what it counts, and leave word of it for later attempts."""
        self._guarded("save", lambda: self._saved(path, counts_of(what), parts_of(what)))

    def halfway(self) -> Callable[[], None] | None:
        """Give the arrival at an op that strikes in the middle of a save of this epoch."""
        return self.halfway_of(self._cursor.epoch)

    def loading(self, path: Path) -> str | None:
        """Give a file's digest, before it is read."""
        if not self._records or not path.is_file():
            return None
        try:
            with self._cost.watching:
                return file_digest(path)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's load
            self._failed("load", error)
            return None

    def within_load(self, digest: str) -> None:
        """Stop at an op that strikes inside the first load of what an earlier attempt saved."""
        strike = self.strike_in_load
        if strike is None:
            return
        save = self._saves.find(digest)
        if save is not None and save.attempt < self._cursor.attempt:
            self.strike_in_load = None
            strike()

    def loaded(self, path: Path, digest: str, error: BaseException | None) -> None:
        """Record that a file was read, and where training may go on by it."""
        self._guarded("load", lambda: self._loaded(path, digest, error))

    def is_saved_here(self) -> bool:
        """Say whether any rank has saved a file since the last step of an epoch.

        Of ranks that step together: one that saves holds the others' next step up.
        """
        cursor = self._cursor
        if not self._records or not cursor.step:
            return False
        return self._saves.has_place(cursor.attempt, cursor.epoch, cursor.step)

    def unhooked(self, save: Callable[[], Any]) -> Any:  # noqa: ANN401 - what `save` gives
        """Save while no module carries a hook of ours."""
        return self.unhook(save)

    # -- told by the probe -----------------------------------------------------------------------

    def step_begins(self) -> None:
        """Go on from where the files say that this attempt was read from.

        A step's gradients are shared: by now every rank has read its files.
        """
        if not self._may_move:
            return
        self._may_move = False
        self._guarded("load", self._go_on)

    def step_done(self) -> None:
        """Remember that what was saved so far lies in the middle of an epoch."""
        self._since_step.clear()

    def report_begun(self) -> None:
        """Mark what was saved since the last step as the end of its epoch."""
        self.step_begins()
        for save in self._since_step:
            if save.epoch == self._cursor.epoch and save.step > 0:
                self._saves.mark_end(save)
        self._since_step.clear()

    # -- inside ------------------------------------------------------------------------------

    def _guarded(self, where: str, act: Callable[[], object]) -> None:
        if not self._records:
            return
        try:
            with self._cost.watching:
                act()
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's save or load
            self._failed(where, error)

    def _saved(self, path: Path, counts: dict[str, int], parts: tuple[SavedPart, ...]) -> None:
        digest = file_digest(path)
        place = self._cursor.place()
        size = path.stat().st_size
        self._write(
            FileSaved(
                **place, path=str(path), digest=digest, bytes=size, counts=counts, parts=parts
            )
        )
        cursor = self._cursor
        save = Save(digest, cursor.attempt, cursor.rank, cursor.epoch, cursor.step, str(path))
        self._saves.keep(save)
        self._saves.mark_place(cursor.attempt, cursor.epoch, cursor.step)
        self._since_step.append(save)
        if self.settle is not None:  # what the next attempt will ask of this one must be there
            self.settle()
            self.settle = None

    def _loaded(self, path: Path, digest: str, error: BaseException | None) -> None:
        save = self._saves.find(digest)
        self._write(
            FileLoaded(
                **self._cursor.place(),
                path=str(path),
                digest=digest,
                saved_attempt=None if save is None else save.attempt,
                saved_rank=None if save is None else save.rank,
                saved_epoch=None if save is None else save.epoch,
                saved_step=None if save is None else save.step,
                error=None if error is None else f"{type(error).__name__}: {error}"[:300],
            )
        )
        if self._may_move and error is None and save and save.attempt < self._cursor.attempt:
            attempt, rank = self._cursor.attempt, self._cursor.rank
            self._reads.append(Position.of(save, attempt=attempt, rank=rank))
            self._saves.keep_reads(attempt, rank, self._reads)

    def _go_on(self) -> None:
        reads = self._saves.reads(self._cursor.attempt)
        places = [{read.place for read in of} for of in reads.values()]
        agreed = set.intersection(*places) if len(places) == self._ranks else set()
        ours = self._reads or [read for of in reads.values() for read in of]
        may = [read for read in ours if read.place in agreed or not agreed]
        to = max(may, key=lambda read: read.place, default=None)
        cursor = self._cursor
        if to is None or to.place <= (cursor.epoch, cursor.step):
            return
        if not agreed and self.is_fresh():
            return
        cursor.epoch, cursor.step = to.place
        self._saves.take_position(replace(to, rank=cursor.rank))
        self._write(Repositioned(**cursor.place(), path=to.path))
