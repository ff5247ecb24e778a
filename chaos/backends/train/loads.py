"""The files of earlier attempts that a rank reads."""

from collections.abc import Callable
from pathlib import Path

from chaos.backends.train.cursor import Record
from chaos.backends.train.going_on import GoingOn
from chaos.backends.train.saves import Save, Saves
from chaos.model.event import FileLoaded
from chaos.run.file_digest import file_digest


class Loads:
    """The loads of one rank; `strike` is called inside the first of an earlier attempt's file."""

    def __init__(self, record: Record, saves: Saves, going_on: GoingOn) -> None:
        self._cursor, self._write = record.cursor, record.write
        self._saves = saves
        self._going_on = going_on
        self._opened: list[tuple[Path, str]] = []
        self._told: set[tuple[str, str]] = set()
        self.strike: Callable[[], None] | None = None

    def within(self, digest: str) -> None:
        """Stop at an op inside the first load of a file that an earlier attempt saved."""
        if self.strike is not None and self._of_an_earlier_attempt(digest) is not None:
            strike, self.strike = self.strike, None
            strike()

    def reading(self, path: Path) -> None:
        """Remember a file of an earlier attempt that is being opened; stop at an op inside it."""
        if not self._saves.has_size(path.stat().st_size):
            return
        digest = file_digest(path)
        save = self._of_an_earlier_attempt(digest)
        if save is None:
            return
        if not save.is_log or self._going_on.may_move:
            self._opened.append((path, digest))
        if not save.is_log:
            self.within(digest)

    def look(self) -> None:
        """Record the files opened since, except those that were recorded by `loaded`."""
        opened, self._opened = self._opened, []
        for path, digest in opened:
            if (str(path), digest) not in self._told:
                self.loaded(path, digest, None)

    def loaded(self, path: Path, digest: str, error: BaseException | None) -> None:
        """Record that a file was read, from which training may resume."""
        save = self._saves.find(digest)
        self._told.add((str(path), digest))
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
        if error is None and save is not None:
            self._going_on.has_read(save)

    def _of_an_earlier_attempt(self, digest: str) -> Save | None:
        save = self._saves.find(digest)
        return save if save is not None and save.attempt < self._cursor.attempt else None
