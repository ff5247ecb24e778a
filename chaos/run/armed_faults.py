"""Small files in the run's folder by which storage faults are armed, claimed and proven.

    storage-faults/<op>-armed.json    the rank for whose uploads an op waits
    storage-faults/<op>-claim-<n>     exists once the op's nth turn is taken
    storage-faults/<op>-hidden.json   the folder that it hides, and until when
    storage-faults/<op>.json          its first effect

They are read by every process that uses the run's storage, and each is written whole or not
at all.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from chaos.run.record_file import read_fields, write_fields


@dataclass(frozen=True)
class HiddenFolder:
    """A folder of the storage that is hidden until a moment (monotonic ns)."""

    op: int
    path: str
    #: None until a process has looked for it
    until_ns: int | None = None

    def covers(self, path: str, now_ns: int) -> bool:
        candidate, hidden = path.strip("/"), self.path.strip("/")
        is_active = self.until_ns is None or now_ns < self.until_ns
        return is_active and (candidate == hidden or candidate.startswith(f"{hidden}/"))


class ArmedFaults:
    """The armed faults of one run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def arm(self, op: int, rank: int) -> None:
        write_fields(self._folder / f"{op}-armed.json", {"rank": rank})

    def find_armed_rank(self, op: int) -> int | None:
        armed = read_fields(self._folder / f"{op}-armed.json")
        return None if armed is None else int(armed["rank"])

    def claim(self, op: int, *, times: int) -> bool:
        """Take the next of an op's turns; return False if all were taken."""
        for turn in range(times):
            try:
                os.close(os.open(self._folder / f"{op}-claim-{turn}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return True
        return False

    def hide_folder(self, hidden: HiddenFolder) -> None:
        write_fields(
            self._folder / f"{hidden.op}-hidden.json",
            {"path": hidden.path, "until_ns": hidden.until_ns},
        )

    def find_hidden(self, op: int) -> HiddenFolder | None:
        """Return the folder that an op hides, even if its time is over."""
        fields = read_fields(self._folder / f"{op}-hidden.json")
        return None if fields is None else HiddenFolder(op, fields["path"], fields["until_ns"])

    def record_effect(self, op: int, detail: str) -> None:
        """Record an op's effect; the first one stands."""
        if not (self._folder / f"{op}.json").exists():
            write_fields(self._folder / f"{op}.json", {"detail": detail})

    def find_effect(self, op: int) -> str | None:
        """Return an op's first effect, None if it had none."""
        fields = read_fields(self._folder / f"{op}.json")
        return None if fields is None else str(fields["detail"])
