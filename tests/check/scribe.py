"""Writes down what happens to the ranks of a job, as chaos would record it.

`shorthand` lets it write by the words of a line, `story` by the model of a right job.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from chaos.model import event as ev
from chaos.model.history import History, JournalEntry

MS = 1_000_000


def history_of(*events: ev.AnyEvent, source: str = "worker-1000") -> History:
    """Return the history of these events, one process's own, a nanosecond apart."""
    return History(
        [JournalEntry(time_ns=n, source=source, seq=n, event=what) for n, what in enumerate(events)]
    )


@dataclass
class Scribe:
    """A run so far; `attempt`, `epoch` and `step` are where training is."""

    ranks: int = 2
    now_ns: int = 1_000_000_000
    attempt: int = -1
    epoch: int = 0
    step: int = 0
    entries: list[JournalEntry] = field(default_factory=list)

    def say(self, source: str, *events: ev.AnyEvent, ms: float = 1) -> None:
        for event in events:
            self.now_ns += int(ms * MS)
            seq = len(self.entries)
            self.entries.append(
                JournalEntry(time_ns=self.now_ns, source=source, seq=seq, event=event)
            )

    def pid(self, rank: int) -> int:
        return 1000 * (self.attempt + 1) + rank

    def worker(self, rank: int, *events: ev.AnyEvent, ms: float = 1) -> None:
        self.say(f"worker-{self.pid(rank)}", *events, ms=ms)

    def each(self, kind: Any, only: Sequence[int] | None = None, **fields: Any) -> None:
        """Let each rank say the same; of a tuple each rank's own value."""
        for rank in range(self.ranks) if only is None else only:
            mine = {k: v[rank] if isinstance(v, tuple) else v for k, v in fields.items()}
            self.worker(rank, kind(attempt=self.attempt, rank=rank, **mine))

    @property
    def place(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "step": self.step}

    def open(self, *, on: int | None = None) -> tuple[ev.WorkerPlace, ...]:
        """Open the next attempt's worker group, on nodes of its own or on those of another."""
        self.attempt += 1
        node = f"node-{self.attempt if on is None else on}"
        places = tuple(
            ev.WorkerPlace(rank=r, pid=self.pid(r), node_id=f"{node}-{r}", node_ip="::1")
            for r in range(self.ranks)
        )
        group = ev.WorkerGroupStarted(attempt=self.attempt, workers=places)
        self.say("controller-9", group, ms=900)
        return places

    def start(self, place: ev.WorkerPlace, checkpoint: str | None, epoch: int) -> None:
        """Start the train function of one rank, which reads the checkpoint."""
        mine: dict[str, Any] = {"attempt": self.attempt, "rank": place.rank}
        started = ev.WorkerStarted(
            **mine,
            world_size=self.ranks,
            pid=place.pid,
            node_id=place.node_id,
            checkpoint=checkpoint,
            epoch=epoch,
        )
        self.worker(place.rank, started, ev.CheckpointRead(**mine, checkpoint=checkpoint))

    def invoke(self, op: int, fault: str, rank: int) -> None:
        """Reach the gate of an op, and begin with its fault."""
        who: dict[str, Any] = {"op": op, "attempt": self.attempt, "rank": rank}
        there: dict[str, Any] = {"pid": self.pid(rank), "node_id": f"node-{self.attempt}-{rank}"}
        reached = ev.GateReached(**who, **there)
        self.say("chaos", reached, ev.FaultInvoked(**who, **there, fault=fault))

    def notice(self, op: int, rank: int, *, ahead_ms: float) -> None:
        """Tell of the deadline of a rank's node, and let training go on."""
        node, deadline_ns = f"node-{self.attempt}-{rank}", self.now_ns + int(ahead_ms * MS)
        given = ev.NoticeGiven(op=op, node_id=node, deadline_ns=deadline_ns)
        self.say("chaos", given, ev.GateReleased(op=op, attempt=self.attempt, rank=rank))

    def gone(self, op: int, detail: str, *, ms: float = 1) -> None:
        self.say("chaos", ev.FaultEnded(op=op, status="ok", detail=detail), ms=ms)

    def decide(self, charged: Any, *, decision: Literal["RETRY", "RAISE"] = "RETRY") -> None:
        decided = ev.FailureDecided(
            attempt=self.attempt,
            decision=decision,
            charged=charged,
            error="WorkerGroupError",
            errors={0: "RuntimeError: connection closed by peer"},
        )
        self.say("controller-9", decided, ms=80)

    def bystander(self, trial: int, *, steps: int, losses: str) -> None:
        """Tell of another trial of the experiment, which nothing was done to."""
        seen = ev.BystanderSeen(
            trial=trial,
            began_ns=0,
            ended_ns=self.now_ns,
            attempts=1,
            failures=0,
            steps=steps,
            losses={"rank 0, epoch 0": losses},
            finished=True,
        )
        self.say("harness", seen, ms=0)

    def close(self, *, code: int = 0) -> History:
        searched = ev.LeftoversSearched(places=("processes", "actors"))
        self.say("harness", ev.DriverExited(code=code), searched, ev.RunEnded())
        return History(self.entries)
