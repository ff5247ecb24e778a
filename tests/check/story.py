"""A pure model of a job that Ray Train restarts: right by default, guilty where it is told to be.

`Story(...)` is one line of a test; `.history()` and `.plan()` are what chaos would have of it.
"""

import math
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.model import event as ev
from chaos.model.history import Entry, History
from chaos.model.plan import Op, Plan, Shape
from chaos.model.scenario import Expect, Job, Limits
from chaos.model.trigger import AtMoment, AtStep
from tests.check.watching import components, digest, inputs

MS = 1_000_000


@dataclass(frozen=True)
class Strike:
    """What is done, and where. `drift`: steps from a notice to the loss of the node."""

    epoch: int
    step: int = 0
    rank: int = 0
    kind: Literal["kill_worker", "kill_node", "preempt_node"] = "kill_worker"
    moment: Literal["reported", "committed"] | None = None
    drift: int = 2

    def op(self, index: int) -> Op:
        at: AtStep | AtMoment
        if self.moment is None:
            at = AtStep(epoch=self.epoch, step=self.step, rank=self.rank)
        else:
            at = AtMoment(epoch=self.epoch, moment=self.moment, rank=self.rank)
        match self.kind:
            case "kill_worker":
                return Op(index=index, at=at, kill_worker=KillWorker())
            case "kill_node":
                return Op(index=index, at=at, kill_node=KillNode())
            case "preempt_node":
                return Op(index=index, at=at, preempt_node=PreemptNode(notice_s=1.0))


def loss(rank: int, epoch: int, step: int) -> float:
    return 2.3 / (1 + epoch + step / 16) + math.sin(rank * 3 + epoch * 7 + step) / 50


@dataclass(frozen=True)
class Story:
    """`surplus`: steps too many in the first epoch after a restart; `extra`: epochs too many.

    `budget`: how many retries Ray allows; `wall`: a metric that never repeats.
    `watch`: state, inputs and storage are recorded. `files`: the job keeps
    files of its own, one per rank and epoch, and gives Ray no checkpoint.
    `keep`: how many checkpoints Ray keeps. `best`: the best accuracy is
    reported.
    """

    strikes: tuple[Strike, ...] = ()
    ranks: int = 2
    epochs: int = 4
    steps: int = 6
    every: int = 1
    surplus: int = 0
    extra: int = 0
    budget: int = 9
    wall: bool = False
    sync: bool = True
    watch: bool = True
    files: bool = False
    keep: int | None = None
    best: bool = False

    def history(self) -> History:
        return _Teller(self).tell()

    def baseline(self) -> History:
        quiet = replace(self, strikes=(), surplus=0, extra=0)
        return _Teller(quiet, now_ns=7_700_000_000).tell()

    def plan(self, **expect: Any) -> Plan:
        metric = expect.pop("epoch_metric", None)
        return Plan(
            scenario="a test",
            slug="a-test",
            file="/a/test.chaos.yaml",
            seed=1,
            cwd="/a",
            job=Job(script="job.py", workers=self.ranks, epoch_metric=metric),
            shape=Shape(nodes=self.ranks + 1, cpus_per_node=1),
            ops=tuple(strike.op(index) for index, strike in enumerate(self.strikes)),
            expect=Expect(**expect),
            limits=Limits(),
        )


@dataclass
class _Teller:
    story: Story
    now_ns: int = 1_000_000_000
    entries: list[Entry] = field(default_factory=list)
    pending: list[int] = field(default_factory=list)
    checkpoint: str | None = None
    resume_at: int = 0
    began_at: int = 0
    attempt: int = 0
    countdown: int | None = None
    noticed: int | None = None
    storage: dict[str, dict[str, str]] = field(default_factory=dict)
    registered: list[str] = field(default_factory=list)
    saved: list[tuple[int, int]] = field(default_factory=list)

    def tell(self) -> History:
        self.pending = list(range(len(self.story.strikes)))
        self.say("harness", ev.RunStarted(scenario="a test", seed=1, backend="ray"))
        if self.story.keep is not None:
            self.say("driver", self.fit_called())
        ended = False
        while not ended:
            self.open()
            ended = self.train()
            if not ended and self.attempt >= self.story.budget:
                return self.close(ev.FitRaised(error="WorkerGroupError", message="no retry left"))
            self.attempt += 1
        return self.close(ev.FitReturned(metrics={}, checkpoint=self.checkpoint))

    def say(self, source: str, *events: ev.AnyEvent, ms: float = 1) -> None:
        for event in events:
            self.now_ns += int(ms * MS)
            seq = len(self.entries)
            self.entries.append(Entry(time_ns=self.now_ns, source=source, seq=seq, what=event))

    def fit_called(self) -> ev.FitCalled:
        return ev.FitCalled(
            trainer="TorchTrainer",
            workers=self.story.ranks,
            run_name="a-test",
            storage_path="/a",
            settings={"num_to_keep": self.story.keep, "checkpoint_score_attribute": None},
            replaced={},
        )

    def pid(self, rank: int) -> int:
        return 1000 * (self.attempt + 1) + rank

    def worker(self, rank: int, *events: ev.AnyEvent) -> None:
        self.say(f"worker-{self.pid(rank)}", *events)

    def open(self) -> None:
        places = tuple(
            ev.WorkerPlace(
                rank=r, pid=self.pid(r), node_id=f"node-{self.attempt}-{r}", node_ip="::1"
            )
            for r in range(self.story.ranks)
        )
        group = ev.WorkerGroupStarted(attempt=self.attempt, workers=places)
        self.say("controller-9", group, ms=900)
        for place in places:
            self.worker(
                place.rank,
                ev.WorkerStarted(
                    attempt=self.attempt,
                    rank=place.rank,
                    world_size=self.story.ranks,
                    pid=place.pid,
                    node_id=place.node_id,
                    checkpoint=self.checkpoint,
                    epoch=0 if self.story.files else self.resume_at,
                ),
                ev.CheckpointRead(
                    attempt=self.attempt, rank=place.rank, checkpoint=self.checkpoint
                ),
            )

        if self.story.files and self.saved:
            for rank in range(self.story.ranks):
                self.load(rank)

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
            saved_step=self.story.steps,
        )
        place = {"rank": rank, "epoch": self.resume_at, "step": 0}
        moved = ev.Repositioned(attempt=self.attempt, path=loaded.path, **place)
        self.worker(rank, loaded, moved)

    def save(self, rank: int, epoch: int) -> None:
        place = {"attempt": self.attempt, "rank": rank, "epoch": epoch, "step": self.story.steps}
        path = f"/own/rank{rank}_{epoch}.pt"
        self.worker(
            rank,
            ev.FileSaveBegun(**place, path=path),
            ev.FileSaved(**place, path=path, digest=digest("file", rank, epoch), bytes=100),
        )

    def train(self) -> bool:
        """Give whether the attempt came to its end."""
        extra = self.story.extra if self.attempt else 0
        self.began_at = self.resume_at
        if not all(self.epoch(e) for e in range(self.resume_at, self.story.epochs + extra)):
            return False
        if self.story.watch:
            over = self.story.epochs + extra
            for rank in range(self.story.ranks):
                ended = ev.TrainFnEnded(attempt=self.attempt, rank=rank, epoch=over, step=0)
                self.worker(rank, ended)
        return True

    def state(self, rank: int, epoch: int, step: int, moment: Any) -> None:
        if self.story.watch:
            done = epoch * self.story.steps + step
            parts = components(rank, done, epoch, drawn=moment == "entered")
            place = {"attempt": self.attempt, "rank": rank, "epoch": epoch, "step": step}
            seen = ev.StateSeen(**place, moment=moment, components=parts)
            self.say(f"worker-{self.pid(rank)}", seen, ms=0)

    def epoch(self, epoch: int) -> bool:
        is_first = self.attempt > 0 and epoch == self.began_at
        steps = self.story.steps + (self.story.surplus if is_first else 0)
        for step in range(1, steps + 1):
            for rank in range(self.story.ranks):
                if step == 1:
                    self.state(rank, epoch, 0, "entered")
                self.worker(rank, self.step_done(rank, epoch, step))
                if not self.strike(epoch, step, rank):
                    return False
            if self.countdown is not None:
                self.countdown -= 1
                if self.countdown <= 0:
                    return self.lose_node()
        return self.report(epoch)

    def step_done(self, rank: int, epoch: int, step: int) -> ev.AnyEvent:
        losses = (loss(rank, epoch, step),)
        place: dict[str, Any] = {
            "attempt": self.attempt,
            "rank": rank,
            "epoch": epoch,
            "step": step,
        }
        given = None
        if self.story.watch:
            given = inputs(epoch, step, rank, ranks=self.story.ranks, steps=self.story.steps)
        if self.story.sync:
            return ev.StepDone(**place, losses=losses, inputs=given)
        self.worker(rank, ev.StepDone(**place, losses=None, inputs=given))
        return ev.LossResolved(**place, losses=losses)

    def report(self, epoch: int) -> bool:
        name = f"checkpoint_{self.attempt}_{epoch}" if (epoch + 1) % self.story.every == 0 else None
        name = None if self.story.files else name
        for rank in range(self.story.ranks):
            if self.story.files:
                self.save(rank, epoch)
            self.state(rank, epoch, self.story.steps, "left")
            place = {"attempt": self.attempt, "rank": rank, "epoch": epoch}
            self.worker(rank, ev.ReportBegun(**place))
            self.upload(name, place)
            for kind in (ev.UploadEnded, ev.ReportReturned):
                self.worker(rank, kind(attempt=self.attempt, rank=rank, epoch=epoch))
        if self.story.files:
            self.saved.append((self.attempt, epoch))
            self.resume_at = epoch + 1
        if not self.strike(epoch, "reported"):
            return False
        metrics = tuple(self.metrics(rank, epoch) for rank in range(self.story.ranks))
        self.register(name)
        # Ray's controller knows nothing of files: it counts from 0 in each attempt.
        number = epoch - self.began_at if self.story.files else epoch
        self.say(
            "controller-9",
            ev.Committed(attempt=self.attempt, epoch=number, checkpoint=name, metrics=metrics),
        )
        if name is not None:
            self.checkpoint, self.resume_at = name, epoch + 1
        return self.strike(epoch, "committed")

    def upload(self, name: str | None, place: dict[str, int]) -> None:
        if name is None or not self.story.watch:
            return
        rank, epoch = place["rank"], place["epoch"]
        files = {f"rank_{rank}.pt": digest("part", rank, epoch)}
        self.storage.setdefault(name, {}).update(files)
        part = ev.PartUploaded(**place, checkpoint=name, files=files)
        self.say(f"worker-{self.pid(rank)}", part, ms=0)

    def register(self, name: str | None) -> None:
        """Remove what a new checkpoint replaces, before it is recorded, as Ray does."""
        if name is None:
            return
        self.registered.append(name)
        while self.story.keep is not None and len(self.registered) > self.story.keep:
            gone = self.registered.pop(0)
            self.storage.pop(gone, None)
            self.say("controller-9", ev.CheckpointDeleted(attempt=self.attempt, checkpoint=gone))

    def look(self, op: int | None) -> None:
        if self.story.watch:
            found = tuple(
                ev.StoredCheckpoint(name=name, files=dict(files))
                for name, files in sorted(self.storage.items())
            )
            self.say("harness", ev.StorageSeen(op=op, checkpoints=found), ms=0)

    def metrics(self, rank: int, epoch: int) -> dict[str, Any]:
        metrics: dict[str, Any] = {"epoch": epoch, "accuracy": 1 - loss(rank, epoch, 99) / 3}
        if self.story.best:
            metrics["best"] = max(1 - loss(rank, e, 99) / 3 for e in range(epoch + 1))
        if self.story.wall:
            metrics["seconds"] = self.now_ns / 1e9
        return metrics

    def strike(self, epoch: int, place: int | str, rank: int | None = None) -> bool:
        for index in self.pending:
            strike = self.story.strikes[index]
            if strike.epoch != epoch or (strike.moment or strike.step) != place:
                continue
            if rank is not None and strike.rank != rank:
                continue
            self.pending.remove(index)
            return self.carry_out(index, strike)
        return True

    def carry_out(self, index: int, strike: Strike) -> bool:
        """Do it, and give whether training goes on."""
        node = f"node-{self.attempt}-{strike.rank}"
        gate = {"attempt": self.attempt, "rank": strike.rank, "pid": self.pid(strike.rank)}
        self.say(
            "chaos",
            ev.GateReached(op=index, node_id=node, **gate),
            ev.FaultInvoked(op=index, fault=strike.kind, node_id=node, **gate),
        )
        if strike.kind == "preempt_node":
            # The deadline is where the countdown ends; 100 s stands for "later".
            notice = ev.NoticeGiven(op=index, node_id=node, deadline_ns=self.now_ns + 100_000 * MS)
            release = ev.GateReleased(op=index, attempt=self.attempt, rank=strike.rank)
            self.say("chaos", notice, release)
            self.countdown, self.noticed = strike.drift, index
            return True
        done = ev.FaultEnded(op=index, status="ok", detail=f"rank {strike.rank} is gone")
        if strike.kind == "kill_node":  # a node's death is proved after Ray has seen it
            self.decide("failures")
            self.say("chaos", done, ms=400)
            self.look(index)
        else:
            self.say("chaos", done)
            self.look(index)
            self.decide("failures")
        return False

    def lose_node(self) -> bool:
        assert self.noticed is not None
        self.say("chaos", ev.FaultEnded(op=self.noticed, status="ok", detail="the node is dead"))
        self.entries = [self._due_now(entry) for entry in self.entries]
        self.decide("preemptions")
        self.countdown = None
        return False

    def _due_now(self, entry: Entry) -> Entry:
        if isinstance(entry.what, ev.NoticeGiven) and entry.what.op == self.noticed:
            due = msgspec.structs.replace(entry.what, deadline_ns=self.now_ns - MS // 2)
            return msgspec.structs.replace(entry, what=due)
        return entry

    def decide(self, charged: Literal["failures", "preemptions"]) -> None:
        decision: Literal["RETRY", "RAISE"] = (
            "RAISE" if self.attempt >= self.story.budget else "RETRY"
        )
        self.say(
            "controller-9",
            ev.FailureDecided(
                attempt=self.attempt,
                decision=decision,
                charged=charged,
                error="WorkerGroupError",
                errors={0: "RuntimeError: connection closed by peer"},
            ),
            ms=80,
        )

    def close(self, last: ev.AnyEvent) -> History:
        if self.noticed is not None and self.countdown is not None:  # over before the deadline
            self.say("driver", last)
            done = ev.FaultEnded(op=self.noticed, status="ok", detail="the node is dead")
            self.say("chaos", done, ms=200)
        else:
            self.say("driver", last)
        self.look(None)
        code = 0 if isinstance(last, ev.FitReturned) else 1
        self.say(
            "harness",
            ev.DriverExited(code=code),
            ev.LeftoversSearched(places=("processes", "actors")),
            ev.RunEnded(),
        )
        return History(self.entries)
