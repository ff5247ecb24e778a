"""Writes down what happens to two ranks: groups, strikes, decisions, the end. See `shorthand`."""

from dataclasses import dataclass, field
from typing import Any

from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.model import event as ev
from chaos.model.history import Entry
from chaos.model.plan import Op
from chaos.model.trigger import AtStep

RANKS = (0, 1)


@dataclass
class Scribe:
    """`ops`: the plan that the strikes make; `attempt`, `epoch`, `step`: where training is."""

    entries: list[Entry] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    now_ns: int = 1_000_000_000
    attempt: int = -1
    epoch: int = 0
    step: int = 0

    def say(self, source: str, *events: ev.AnyEvent) -> None:
        for event in events:
            self.now_ns += 1_000_000
            entry = Entry(time_ns=self.now_ns, source=source, seq=len(self.entries), what=event)
            self.entries.append(entry)

    def ranks(self, kind: Any, **fields: Any) -> None:
        for rank in RANKS:
            mine = {k: v[rank] if isinstance(v, tuple) else v for k, v in fields.items()}
            self.say(f"worker-{rank}", kind(attempt=self.attempt, rank=rank, **mine))

    @property
    def place(self) -> dict[str, int]:
        return {"epoch": self.epoch, "step": self.step}

    def open(self, node: str) -> None:
        places = tuple(
            ev.WorkerPlace(rank=r, pid=self.attempt * 10 + r, node_id=f"{node}-{r}", node_ip="::1")
            for r in RANKS
        )
        self.say("controller", ev.WorkerGroupStarted(attempt=self.attempt, workers=places))

    def strike(self, fault: KillWorker | PreemptNode, *, is_seen: bool = True) -> None:
        at = AtStep(epoch=self.epoch, step=max(1, self.step), rank=1)
        kind = "kill_worker" if isinstance(fault, KillWorker) else "preempt_node"
        done: dict[str, Any] = {kind: fault}
        self.ops.append(Op(index=len(self.ops), at=at, **done))
        who: dict[str, Any] = {"op": len(self.ops) - 1, "attempt": self.attempt, "rank": 1}
        there: dict[str, Any] = {"pid": self.attempt * 10 + 1, "node_id": f"node-{self.attempt}-1"}
        self.say("chaos", ev.GateReached(**who, **there))
        self.say("chaos", ev.FaultInvoked(**who, **there, fault=kind))
        if kind == "kill_worker" and is_seen:
            self.gone(who["op"])

    def gone(self, op: int) -> None:
        self.say("chaos", ev.FaultEnded(op=op, status="ok", detail="rank 1 is gone"))

    def decide(self, charged: Any) -> None:
        self.say(
            "controller",
            ev.FailureDecided(
                attempt=self.attempt, decision="RETRY", charged=charged, error="E", errors={1: "E"}
            ),
        )

    def close(self) -> None:
        searched = ev.LeftoversSearched(places=("processes",))
        self.say("harness", ev.DriverExited(code=0), searched, ev.RunEnded())
