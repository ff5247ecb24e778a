"""What a told run writes down and keeps: events, checkpoints in storage, files of its own."""

from dataclasses import dataclass, field
from typing import Any

from chaos.model import event as ev
from chaos.model.history import Entry
from tests.check.script import MS, Script
from tests.check.watching import digest


@dataclass
class Ledger:
    """`registered`: the checkpoints that Ray knows; `saved`: (attempt, epoch) of own files."""

    script: Script
    now_ns: int = 1_000_000_000
    attempt: int = 0
    resume_at: int = 0
    entries: list[Entry] = field(default_factory=list)
    storage: dict[str, dict[str, str]] = field(default_factory=dict)
    registered: list[str] = field(default_factory=list)
    saved: list[tuple[int, int]] = field(default_factory=list)

    def say(self, source: str, *events: ev.AnyEvent, ms: float = 1) -> None:
        for event in events:
            self.now_ns += int(ms * MS)
            seq = len(self.entries)
            self.entries.append(Entry(time_ns=self.now_ns, source=source, seq=seq, what=event))

    def pid(self, rank: int) -> int:
        return 1000 * (self.attempt + 1) + rank

    def worker(self, rank: int, *events: ev.AnyEvent) -> None:
        self.say(f"worker-{self.pid(rank)}", *events)

    def upload(self, name: str | None, place: dict[str, Any]) -> None:
        if name is None or not self.script.watch:
            return
        rank, epoch = place["rank"], place["epoch"]
        files = {f"rank_{rank}.pt": digest("part", rank, epoch)}
        self.storage.setdefault(name, {}).update(files)
        self.write(place, f"/tmp/rank_{rank}.pt", files[f"rank_{rank}.pt"])
        part = ev.PartUploaded(**place, checkpoint=name, files=files)
        self.say(f"worker-{self.pid(rank)}", part, ms=0)

    def register(self, name: str | None) -> None:
        """Remove what a new checkpoint replaces, before it is recorded, as Ray does."""
        if name is None:
            return
        self.registered.append(name)
        while self.script.keep is not None and len(self.registered) > self.script.keep:
            gone = self.registered.pop(0)
            self.storage.pop(gone, None)
            self.say("controller-9", ev.CheckpointDeleted(attempt=self.attempt, checkpoint=gone))

    def look(self, op: int | None) -> None:
        if self.script.watch:
            found = tuple(
                ev.StoredCheckpoint(name=name, files=dict(files))
                for name, files in sorted(self.storage.items())
            )
            self.say("harness", ev.StorageSeen(op=op, checkpoints=found), ms=0)

    def see_others(self) -> None:
        """Tell of the other trials, which nothing was done to."""
        if not self.script.others:
            return
        self.say("driver", ev.ExperimentEnded(trials=1 + self.script.others), ms=0)
        for trial in range(1, 1 + self.script.others):
            seen = ev.BystanderSeen(
                trial=trial,
                began_ns=0,
                ended_ns=self.now_ns,
                attempts=1,
                failures=0,
                steps=self.script.steps,
                losses={"rank 0, epoch 0": digest("loss", trial)},
                finished=True,
            )
            self.say("harness", seen, ms=0)

    def save(self, rank: int, epoch: int) -> None:
        place = {"attempt": self.attempt, "rank": rank, "epoch": epoch}
        self.write(place, f"/own/rank{rank}_{epoch}.pt", digest("file", rank, epoch))

    def write(self, place: dict[str, int], path: str, of: str) -> None:
        """Save a file at the end of an epoch, with an average in it that nobody reads."""
        rank, epoch = place["rank"], place["epoch"]
        where: dict[str, Any] = {**place, "step": self.script.steps, "path": path}
        ship = ev.SavedPart(
            name="ship", kind="numbers", digest=digest("ship", rank, epoch), size=1.0 + epoch
        )
        source = f"worker-{self.pid(rank)}"
        self.say(source, ev.FileSaveBegun(**where), ms=0)
        self.say(source, ev.FileSaved(**where, digest=of, bytes=100, parts=(ship,)), ms=0)

    def load(self, rank: int) -> None:
        """Read the newest file that every rank has, and go on after it."""
        epoch = self.resume_at - 1
        attempt = next(of for of, saved in reversed(self.saved) if saved == epoch)
        loaded = ev.FileLoaded(
            attempt=self.attempt,
            rank=rank,
            epoch=0,
            step=0,
            path=f"/own/rank{rank}_{epoch}.pt",
            digest=digest("file", rank, epoch),
            saved_attempt=attempt,
            saved_rank=rank,
            saved_epoch=epoch,
            saved_step=self.script.steps,
        )
        moved = ev.Repositioned(
            attempt=self.attempt,
            rank=rank,
            epoch=self.resume_at,
            step=0,
            path=loaded.path,
            by="state",
        )
        self.worker(rank, loaded, moved)
