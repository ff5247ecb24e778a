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
from chaos.model.expect import Expect
from chaos.model.history import History, JournalEntry
from chaos.model.plan import Op, Plan, Shape
from chaos.model.scenario import FailureBudget, Job, Limits
from chaos.model.trigger import AtMoment, AtRecovery, AtStep
from tests.check.scribe import MS, Scribe
from tests.check.watching import components, digest, inputs

LATER_MS = 100_000  # a deadline that does not pass; where a countdown ends it is put right


@dataclass(frozen=True)
class Strike:
    """What is done, and where. `drift`: steps from a notice to the loss of the node.

    `recovering`: before the first step of the attempt after the one that the
    strike before it ended.
    """

    epoch: int
    step: int = 0
    rank: int = 0
    kind: Literal["kill_worker", "kill_node", "preempt_node"] = "kill_worker"
    moment: Literal["reported", "committed", "recovering"] | None = None
    drift: int = 2

    def op(self, index: int) -> Op:
        at: AtStep | AtMoment | AtRecovery
        if self.moment == "recovering":
            at = AtRecovery(recovering_from=index - 1, rank=self.rank)
        elif self.moment is None:
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


@dataclass(frozen=True)
class Story:
    """A job, how it is shaped, and what is done to it."""

    strikes: tuple[Strike, ...] = ()
    ranks: int = 2
    epochs: int = 4
    steps: int = 6
    #: A checkpoint comes with every so many reports.
    every: int = 1
    #: Steps too many in the first epoch after a restart.
    surplus: int = 0
    #: Epochs too many after a restart.
    extra: int = 0
    #: How many retries Ray allows.
    budget: int = 9
    #: A metric that never repeats.
    wall: bool = False
    #: A step's losses are known at its end, and not later.
    sync: bool = True
    #: State, inputs and storage are recorded.
    watch: bool = True
    #: The job keeps files of its own, one per rank and epoch, and gives Ray no checkpoint.
    files: bool = False
    #: How many checkpoints Ray keeps.
    keep: int | None = None
    #: The best accuracy is reported.
    best: bool = False
    #: With how few ranks the job goes on, if it is elastic.
    least: int | None = None
    #: The trials of the experiment beside this one.
    others: int = 0

    def history(self) -> History:
        return _Run(story=self, ranks=self.ranks).tell()

    def baseline(self) -> History:
        quiet = replace(self, strikes=(), surplus=0, extra=0)
        return _Run(story=quiet, ranks=self.ranks, now_ns=7_700_000_000).tell()

    def plan(self, **expect: Any) -> Plan:
        metric = expect.pop("epoch_metric", None)
        return Plan(
            scenario="a test",
            slug="a-test",
            file="/a/test.chaos.yaml",
            seed=1,
            cwd="/a",
            job=Job(
                script="job.py",
                workers=self.ranks,
                min_workers=self.least,
                failure=FailureBudget(
                    max_failures=self.budget, max_preemption_failures=self.budget
                ),
                epoch_metric=metric,
                trial=0 if self.others else None,
            ),
            shape=Shape(nodes=self.ranks + 1, cpus_per_node=1),
            ops=tuple(strike.op(index) for index, strike in enumerate(self.strikes)),
            expect=Expect(**expect),
            limits=Limits(),
        )


def loss(rank: int, epoch: int, step: int) -> float:
    return 2.3 / (1 + epoch + step / 16) + math.sin(rank * 3 + epoch * 7 + step) / 50


@dataclass(kw_only=True)
class _Run(Scribe):
    """The run of a story, in the order of training."""

    story: Story
    #: The epoch at which the next attempt resumes, and the one at which this one began.
    resume_at: int = 0
    began_at: int = 0
    checkpoint: str | None = None
    #: The checkpoints in storage by name, and those that Ray knows.
    storage: dict[str, dict[str, str]] = field(default_factory=dict)
    registered: list[str] = field(default_factory=list)
    #: The attempt that last saved each epoch in files of the job's own.
    saved: dict[int, int] = field(default_factory=dict)
    #: The strikes to come; the op of a notice, and the steps until its node is lost.
    pending: list[int] = field(default_factory=list)
    noticed: int | None = None
    countdown: int | None = None

    def tell(self) -> History:
        story = self.story
        self.pending = list(range(len(story.strikes)))
        self.say("harness", ev.RunStarted(scenario="a test", seed=1, backend="ray"))
        if story.keep is not None:
            self.say("driver", self.fit_called())
        while not self.train():
            if self.attempt >= story.budget:
                return self.end(ev.FitRaised(error="WorkerGroupError", message="no retry left"))
        return self.end(ev.FitReturned(metrics={}, checkpoint=self.checkpoint))

    def fit_called(self) -> ev.FitCalled:
        return ev.FitCalled(
            trainer="TorchTrainer",
            workers=self.ranks,
            run_name="a-test",
            storage_path="/a",
            settings={"num_to_keep": self.story.keep, "checkpoint_score_attribute": None},
            original_settings={},
        )

    # -- training ------------------------------------------------------------------------------

    def train(self) -> bool:
        """Return whether the next attempt comes to its end."""
        for place in self.open():
            self.start(place, self.checkpoint, 0 if self.story.files else self.resume_at)
        if self.story.files and self.saved:
            self.load()
        self.began_at = self.resume_at
        if not self.recover():
            return False
        over = self.story.epochs + (self.story.extra if self.attempt else 0)
        for epoch in range(self.resume_at, over):
            self.epoch = epoch
            if not (self.train_epoch() and self.report()):
                return False
        if self.story.watch:
            self.each(ev.TrainFnEnded, epoch=over, step=0)
        return True

    def train_epoch(self) -> bool:
        is_first = self.attempt > 0 and self.epoch == self.began_at
        steps = self.story.steps + (self.story.surplus if is_first else 0)
        for step in range(1, steps + 1):
            self.step = step
            for rank in range(self.ranks):
                if self.step == 1:
                    self.see_state(rank, 0, "entered")
                self.do_step(rank)
                if not self.strike(self.step, rank):
                    return False
            if self.countdown is not None:
                self.countdown -= 1
                if self.countdown <= 0:
                    return self.lose_node()
        return True

    def see_state(self, rank: int, step: int, moment: Any) -> None:
        if self.story.watch:
            done = self.epoch * self.story.steps + step
            place = {"attempt": self.attempt, "rank": rank, "epoch": self.epoch, "step": step}
            parts = components(rank, done, self.epoch, drawn=moment == "entered")
            self.worker(rank, ev.StateSeen(**place, moment=moment, components=parts), ms=0)

    def do_step(self, rank: int) -> None:
        losses, given = (loss(rank, self.epoch, self.step),), None
        if self.story.watch:
            given = inputs(self.epoch, self.step, rank, ranks=self.ranks, steps=self.story.steps)
        place: dict[str, Any] = {"attempt": self.attempt, "rank": rank, **self.place}
        if self.story.sync:
            self.worker(rank, ev.StepDone(**place, losses=losses, inputs=given))
        else:
            self.worker(rank, ev.StepDone(**place, losses=None, inputs=given))
            self.worker(rank, ev.LossResolved(**place, losses=losses))

    def report(self) -> bool:
        """Report an epoch, save and commit it; return whether training goes on."""
        story, epoch = self.story, self.epoch
        is_due = (epoch + 1) % story.every == 0 and not story.files
        name = f"checkpoint_{self.attempt}_{epoch}" if is_due else None
        for rank in range(self.ranks):
            if story.files:
                self.write(rank, f"/own/rank{rank}_{epoch}.pt", digest("file", rank, epoch))
            self.see_state(rank, story.steps, "left")
            self.each(ev.ReportBegun, [rank], epoch=epoch)
            self.upload(name, rank)
            self.each(ev.UploadEnded, [rank], epoch=epoch)
            self.each(ev.ReportReturned, [rank], epoch=epoch)
        if story.files:
            self.saved[epoch], self.resume_at = self.attempt, epoch + 1
        return self.strike("reported") and self.commit(name)

    def commit(self, name: str | None) -> bool:
        metrics = tuple(self.metrics(rank) for rank in range(self.ranks))
        self.register(name)
        # Ray's controller knows nothing of files: it counts from 0 in each attempt.
        number = self.epoch - self.began_at if self.story.files else self.epoch
        place: dict[str, Any] = {"attempt": self.attempt, "epoch": number}
        self.say("controller-9", ev.Committed(**place, checkpoint=name, metrics=metrics))
        if name is not None:
            self.checkpoint, self.resume_at = name, self.epoch + 1
        return self.strike("committed")

    def metrics(self, rank: int) -> dict[str, Any]:
        accuracy = [1 - loss(rank, epoch, 99) / 3 for epoch in range(self.epoch + 1)]
        metrics: dict[str, Any] = {"epoch": self.epoch, "accuracy": accuracy[-1]}
        if self.story.best:
            metrics["best"] = max(accuracy)
        if self.story.wall:
            metrics["seconds"] = self.now_ns / 1e9
        return metrics

    # -- what is kept --------------------------------------------------------------------------

    def upload(self, name: str | None, rank: int) -> None:
        if name is None or not self.story.watch:
            return
        file = f"rank_{rank}.pt"
        files = {file: digest("part", rank, self.epoch)}
        self.storage.setdefault(name, {}).update(files)
        self.write(rank, f"/tmp/{file}", files[file])
        place: dict[str, Any] = {"attempt": self.attempt, "rank": rank, "epoch": self.epoch}
        self.worker(rank, ev.PartUploaded(**place, checkpoint=name, files=files), ms=0)

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

    def write(self, rank: int, path: str, of: str) -> None:
        """Save a file at the end of an epoch, with an average in it that nobody reads."""
        where: dict[str, Any] = {"attempt": self.attempt, "rank": rank, "epoch": self.epoch}
        where |= {"step": self.story.steps, "path": path}
        of_ship, size = digest("ship", rank, self.epoch), 1.0 + self.epoch
        ship = ev.SavedPart(name="ship", kind="numbers", digest=of_ship, size=size)
        self.worker(rank, ev.FileSaveBegun(**where), ms=0)
        self.worker(rank, ev.FileSaved(**where, digest=of, bytes=100, parts=(ship,)), ms=0)

    def load(self) -> None:
        """Let each rank read its newest file, and go on after it."""
        epoch = self.resume_at - 1
        for rank in range(self.ranks):
            mine: dict[str, Any] = {"attempt": self.attempt, "rank": rank}
            mine["path"] = f"/own/rank{rank}_{epoch}.pt"
            loaded = ev.FileLoaded(
                **mine,
                epoch=0,
                step=0,
                digest=digest("file", rank, epoch),
                saved_attempt=self.saved[epoch],
                saved_rank=rank,
                saved_epoch=epoch,
                saved_step=self.story.steps,
            )
            moved = ev.Repositioned(**mine, epoch=self.resume_at, step=0, evidence="state")
            self.worker(rank, loaded, moved)

    # -- what is done to it --------------------------------------------------------------------

    def strike(self, place: int | str, rank: int | None = None) -> bool:
        """Carry out what is due at a place; return whether training goes on."""
        for index in self.pending:
            strike = self.story.strikes[index]
            is_here = strike.epoch == self.epoch and (strike.moment or strike.step) == place
            if is_here and rank in (None, strike.rank):
                return self.carry_out(index, strike)
        return True

    def recover(self) -> bool:
        """Return whether training goes on after what strikes as an attempt begins."""
        for index in self.pending:
            strike = self.story.strikes[index]
            if strike.moment == "recovering" and index - 1 not in self.pending:
                return self.carry_out(index, strike)
        return True

    def carry_out(self, index: int, strike: Strike) -> bool:
        """Do it, and return whether training goes on."""
        self.pending.remove(index)
        self.invoke(index, strike.kind, strike.rank)
        if strike.kind == "preempt_node":
            self.notice(index, strike.rank, ahead_ms=LATER_MS)
            self.countdown, self.noticed = strike.drift, index
            return True
        is_node = strike.kind == "kill_node"
        if is_node:  # a node's death is proved after Ray has seen it
            self.charge("failures")
        self.gone(index, f"rank {strike.rank} is gone", ms=400 if is_node else 1)
        self.look(index)
        if not is_node:
            self.charge("failures")
        return False

    def lose_node(self) -> bool:
        assert self.noticed is not None
        self.gone(self.noticed, "the node is dead")
        self.entries = [self._due_now(entry) for entry in self.entries]
        self.charge("preemptions")
        self.countdown = None
        return False

    def _due_now(self, entry: JournalEntry) -> JournalEntry:
        if isinstance(entry.event, ev.NoticeGiven) and entry.event.op == self.noticed:
            due = msgspec.structs.replace(entry.event, deadline_ns=self.now_ns - MS // 2)
            return msgspec.structs.replace(entry, event=due)
        return entry

    def charge(self, budget: Literal["failures", "preemptions"]) -> None:
        self.decide(budget, decision="RAISE" if self.attempt >= self.story.budget else "RETRY")

    def end(self, last: ev.AnyEvent) -> History:
        self.say("driver", last)
        if self.noticed is not None and self.countdown is not None:  # over before the deadline
            self.gone(self.noticed, "the node is dead", ms=200)
        self.look(None)
        if self.story.others:
            trials = range(1, 1 + self.story.others)
            self.say("driver", ev.ExperimentEnded(trials=1 + self.story.others), ms=0)
            for trial in trials:
                self.bystander(trial, steps=self.story.steps, losses=digest("loss", trial))
        return self.close(code=0 if isinstance(last, ev.FitReturned) else 1)
