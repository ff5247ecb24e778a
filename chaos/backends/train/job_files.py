"""What a rank saves and loads: recorded, traced to the save it came from, and followed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from chaos.backends.train.cursor import Record
from chaos.backends.train.saves import Position, Save, Saves
from chaos.model.event import (
    FileLoaded,
    FileSaveBegun,
    FileSaved,
    Repositioned,
)
from chaos.run.file_digest import file_digest


class JobFiles:
    """Told of one rank's saves and loads.

    A rank that Ray handed no checkpoint begins at epoch 0 in the probe's
    counting. Where it loads, before its first step, a file that an earlier
    attempt of this run has saved, its cursor moves to where that was: it keeps
    its files itself.
    """

    def __init__(
        self,
        record: Record,
        saves: Saves,
        *,
        is_kept: bool,
        may_move: bool,
    ) -> None:
        self._cursor, self._cost = record.cursor, record.cost
        self._write, self._failed = record.write, record.failed
        self._saves = saves
        self._records = is_kept
        self._may_move = may_move
        self._since_step: list[Save] = []
        self.halfway_of: Callable[[int], Callable[[], None] | None] = lambda _: None
        self.strike_in_load: Callable[[], None] | None = None
        self.unhook: Callable[[Callable[[], Any]], Any] = lambda save: save()

    # -- told by torch.save and torch.load -----------------------------------------------------

    def save_begun(self, path: Path) -> None:
        """Record that a file begins to be written."""
        self._guarded(
            "save", lambda: self._write(FileSaveBegun(**self._cursor.place(), path=str(path)))
        )

    def saved(self, path: Path) -> None:
        """Record a file's bytes, and leave word of it for later attempts."""
        self._guarded("save", lambda: self._saved(path))

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
        """Record that a file was read, and follow it where it says where training goes on."""
        self._guarded("load", lambda: self._loaded(path, digest, error))

    def unhooked(self, save: Callable[[], Any]) -> Any:  # noqa: ANN401 - what `save` gives
        """Save while no module carries a hook of ours."""
        return self.unhook(save)

    # -- told by the probe -----------------------------------------------------------------------

    def step_begins(self) -> None:
        """Follow the rank of this attempt that has loaded the file that all go on from."""
        if not self._may_move:
            return
        ahead = self._saves.position(self._cursor.attempt)
        if ahead is not None:
            self._move(ahead)
        self._may_move = False

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

    def _saved(self, path: Path) -> None:
        digest = file_digest(path)
        place = self._cursor.place()
        size = path.stat().st_size
        self._write(FileSaved(**place, path=str(path), digest=digest, bytes=size))
        cursor = self._cursor
        save = Save(digest, cursor.attempt, cursor.rank, cursor.epoch, cursor.step, str(path))
        self._saves.keep(save)
        self._since_step.append(save)

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
        if error is None and save is not None and save.attempt < self._cursor.attempt:
            self._move(Position.of(save, attempt=self._cursor.attempt, rank=self._cursor.rank))

    def _move(self, to: Position) -> None:
        """Move on to a position; of several files that were loaded the furthest counts."""
        cursor = self._cursor
        if not self._may_move or (to.epoch, to.step) <= (cursor.epoch, cursor.step):
            return
        cursor.epoch, cursor.step = to.epoch, to.step
        self._saves.take_position(Position(cursor.attempt, cursor.rank, to.epoch, to.step, to.path))
        self._write(Repositioned(**cursor.place(), path=to.path))
