"""Tells what chaos would record of a script, event by event, in the order of training."""

from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from chaos.model import event as ev
from chaos.model.history import Entry, History
from tests.check.ledger import Ledger
from tests.check.script import MS, Strike, loss
from tests.check.watching import components, inputs


@dataclass
class Teller(Ledger):
    """`pending`: the strikes to come; `countdown`: the steps until a noticed node is lost."""

    pending: list[int] = field(default_factory=list)
    checkpoint: str | None = None
    began_at: int = 0
    countdown: int | None = None
    noticed: int | None = None

    def tell(self) -> History:
        self.pending = list(range(len(self.script.strikes)))
        self.say("harness", ev.RunStarted(scenario="a test", seed=1, backend="ray"))
        if self.script.keep is not None:
            self.say("driver", self.fit_called())
        ended = False
        while not ended:
            self.open()
            ended = self.train()
            if not ended and self.attempt >= self.script.budget:
                return self.close(ev.FitRaised(error="WorkerGroupError", message="no retry left"))
            self.attempt += 1
        return self.close(ev.FitReturned(metrics={}, checkpoint=self.checkpoint))

    def fit_called(self) -> ev.FitCalled:
        return ev.FitCalled(
            trainer="TorchTrainer",
            workers=self.script.ranks,
            run_name="a-test",
            storage_path="/a",
            settings={"num_to_keep": self.script.keep, "checkpoint_score_attribute": None},
            replaced={},
        )

    def open(self) -> None:
        places = tuple(
            ev.WorkerPlace(
                rank=r, pid=self.pid(r), node_id=f"node-{self.attempt}-{r}", node_ip="::1"
            )
            for r in range(self.script.ranks)
        )
        group = ev.WorkerGroupStarted(attempt=self.attempt, workers=places)
        self.say("controller-9", group, ms=900)
        for place in places:
            self.worker(
                place.rank,
                ev.WorkerStarted(
                    attempt=self.attempt,
                    rank=place.rank,
                    world_size=self.script.ranks,
                    pid=place.pid,
                    node_id=place.node_id,
                    checkpoint=self.checkpoint,
                    epoch=0 if self.script.files else self.resume_at,
                ),
                ev.CheckpointRead(
                    attempt=self.attempt, rank=place.rank, checkpoint=self.checkpoint
                ),
            )

        if self.script.files and self.saved:
            for rank in range(self.script.ranks):
                self.load(rank)

    def train(self) -> bool:
        """Return whether the attempt came to its end."""
        extra = self.script.extra if self.attempt else 0
        self.began_at = self.resume_at
        if not self.recover():
            return False
        if not all(self.epoch(e) for e in range(self.resume_at, self.script.epochs + extra)):
            return False
        if self.script.watch:
            over = self.script.epochs + extra
            for rank in range(self.script.ranks):
                ended = ev.TrainFnEnded(attempt=self.attempt, rank=rank, epoch=over, step=0)
                self.worker(rank, ended)
        return True

    def state(self, rank: int, epoch: int, step: int, moment: Any) -> None:
        if self.script.watch:
            done = epoch * self.script.steps + step
            parts = components(rank, done, epoch, drawn=moment == "entered")
            place = {"attempt": self.attempt, "rank": rank, "epoch": epoch, "step": step}
            seen = ev.StateSeen(**place, moment=moment, components=parts)
            self.say(f"worker-{self.pid(rank)}", seen, ms=0)

    def epoch(self, epoch: int) -> bool:
        is_first = self.attempt > 0 and epoch == self.began_at
        steps = self.script.steps + (self.script.surplus if is_first else 0)
        for step in range(1, steps + 1):
            for rank in range(self.script.ranks):
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
        if self.script.watch:
            given = inputs(epoch, step, rank, ranks=self.script.ranks, steps=self.script.steps)
        if self.script.sync:
            return ev.StepDone(**place, losses=losses, inputs=given)
        self.worker(rank, ev.StepDone(**place, losses=None, inputs=given))
        return ev.LossResolved(**place, losses=losses)

    def report(self, epoch: int) -> bool:
        name = (
            f"checkpoint_{self.attempt}_{epoch}" if (epoch + 1) % self.script.every == 0 else None
        )
        name = None if self.script.files else name
        for rank in range(self.script.ranks):
            if self.script.files:
                self.save(rank, epoch)
            self.state(rank, epoch, self.script.steps, "left")
            place = {"attempt": self.attempt, "rank": rank, "epoch": epoch}
            self.worker(rank, ev.ReportBegun(**place))
            self.upload(name, place)
            for kind in (ev.UploadEnded, ev.ReportReturned):
                self.worker(rank, kind(attempt=self.attempt, rank=rank, epoch=epoch))
        if self.script.files:
            self.saved.append((self.attempt, epoch))
            self.resume_at = epoch + 1
        if not self.strike(epoch, "reported"):
            return False
        metrics = tuple(self.metrics(rank, epoch) for rank in range(self.script.ranks))
        self.register(name)
        # Ray's controller knows nothing of files: it counts from 0 in each attempt.
        number = epoch - self.began_at if self.script.files else epoch
        self.say(
            "controller-9",
            ev.Committed(attempt=self.attempt, epoch=number, checkpoint=name, metrics=metrics),
        )
        if name is not None:
            self.checkpoint, self.resume_at = name, epoch + 1
        return self.strike(epoch, "committed")

    def metrics(self, rank: int, epoch: int) -> dict[str, Any]:
        metrics: dict[str, Any] = {"epoch": epoch, "accuracy": 1 - loss(rank, epoch, 99) / 3}
        if self.script.best:
            metrics["best"] = max(1 - loss(rank, e, 99) / 3 for e in range(epoch + 1))
        if self.script.wall:
            metrics["seconds"] = self.now_ns / 1e9
        return metrics

    def strike(self, epoch: int, place: int | str, rank: int | None = None) -> bool:
        for index in self.pending:
            strike = self.script.strikes[index]
            if strike.epoch != epoch or (strike.moment or strike.step) != place:
                continue
            if rank is not None and strike.rank != rank:
                continue
            self.pending.remove(index)
            return self.carry_out(index, strike)
        return True

    def recover(self) -> bool:
        """Return whether training goes on after what strikes as an attempt begins."""
        for index in self.pending:
            strike = self.script.strikes[index]
            if strike.moment == "recovering" and index - 1 not in self.pending:
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
            "RAISE" if self.attempt >= self.script.budget else "RETRY"
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
        self.see_others()
        code = 0 if isinstance(last, ev.FitReturned) else 1
        self.say(
            "harness",
            ev.DriverExited(code=code),
            ev.LeftoversSearched(places=("processes", "actors")),
            ev.RunEnded(),
        )
        return History(self.entries)
