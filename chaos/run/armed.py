"""Small files in the run's folder by which storage faults are armed, claimed and proven.

Under `storage-faults/`: `<op>-armed.json` says whose uploads an op waits for,
`<op>-claim-<n>` that its nth turn is taken, `<op>-hidden.json` what cannot be
seen and until when, `<op>.json` what it did first. They are read by every
process that touches the run's storage, and each is written whole or not at all.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.faults.world import Victim
from chaos.run.clock import Clock

POLL_S = 0.01


@dataclass(frozen=True)
class Hidden:
    """A folder of the storage that cannot be seen until a moment (monotonic ns).

    `until_ns` is None as long as nobody has looked for it.
    """

    op: int
    path: str
    until_ns: int | None = None

    def covers(self, path: str, now_ns: int) -> bool:
        """Say whether a path is hidden now."""
        here, there = path.strip("/"), self.path.strip("/")
        is_late = self.until_ns is None or now_ns < self.until_ns
        return is_late and (here == there or here.startswith(f"{there}/"))


class ArmedFaults:
    """The reader and writer of these files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def arm(self, op: int, rank: int) -> None:
        """Let an op take effect from now on, for one rank."""
        self._write(f"{op}-armed.json", {"rank": rank})

    def armed_for(self, op: int) -> int | None:
        """Give the rank that an op is armed for, if it is armed."""
        armed = self._read(f"{op}-armed.json")
        return None if armed is None else int(armed["rank"])

    def claim(self, op: int, *, times: int) -> bool:
        """Take the next of an op's turns; False where all were taken."""
        for turn in range(times):
            try:
                os.close(os.open(self._folder / f"{op}-claim-{turn}", os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                continue
            return True
        return False

    def hide(self, hidden: Hidden) -> None:
        """Hide a folder, from every process."""
        self._write(f"{hidden.op}-hidden.json", {"path": hidden.path, "until_ns": hidden.until_ns})

    def hidden(self, op: int) -> Hidden | None:
        """Give what an op hides, whether or not its time is over."""
        hides = self._read(f"{op}-hidden.json")
        return None if hides is None else Hidden(op, hides["path"], hides["until_ns"])

    def took_effect(self, op: int, detail: str) -> None:
        """Write down what an op did; its first effect stands."""
        if not (self._folder / f"{op}.json").exists():
            self._write(f"{op}.json", {"detail": detail})

    def effect(self, op: int) -> str | None:
        """Give what an op did first, if it did anything."""
        done = self._read(f"{op}.json")
        return None if done is None else str(done["detail"])

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            content: dict[str, Any] = json.loads((self._folder / name).read_bytes())
        except FileNotFoundError:
            return None
        return content

    def _write(self, name: str, content: dict[str, Any]) -> None:
        self._folder.mkdir(exist_ok=True)
        draft = self._folder / f".{name}.{os.getpid()}"
        draft.write_text(json.dumps(content), encoding="utf-8")
        draft.replace(self._folder / name)


class StorageWorld:
    """The part of a `World` that reaches the run's storage: through files, on any backend."""

    def __init__(self, armed: ArmedFaults, clock: Clock) -> None:
        self._armed = armed
        self._storage_clock = clock
        self.over = False

    def arm_storage(self, victim: Victim) -> None:
        """Let the storage fault of the victim's op take effect when its rank next gives cause."""
        self._armed.arm(victim.op, victim.rank)

    def await_storage(self, victim: Victim) -> str | None:
        """Wait until storage itself says what the op's fault did; None: the run ended before."""
        while (effect := self._armed.effect(victim.op)) is None:
            if self.over:
                return self._armed.effect(victim.op)
            self._storage_clock.sleep(POLL_S)
        return effect
