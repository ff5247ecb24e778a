"""A backend that trains nothing: it tells what a restarting job would have done."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import msgspec

from chaos.audit.audit import Audit
from chaos.audit.folder import AuditFolder
from chaos.audit.plans import build_base_plan
from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtMoment, AtRecovery, AtStep
from chaos.run.directory import RunDirectory
from chaos.run.ports import ShowEntries
from tests.check.story import Story, Strike
from tests.check.tamper import changed

SLOWER = 10
Defect = Callable[[Story, History], History]
ENV = {"versions": {"ray": "2.60.0", "torch": "2.8.0", "python": "3.11.9"}}


@dataclass
class Ticking:
    """A clock on which every look takes a millisecond, or as long as it is told."""

    now: int = 0
    tick_ns: int = 1_000_000

    def now_ns(self) -> int:
        self.now += self.tick_ns
        return self.now

    def wall_ns(self) -> int:
        return 1_763_700_000_000_000_000 + self.now

    def sleep(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)


@dataclass
class FakeBackend:
    """Tells the story of a plan; `defect` retells it, `breaks_at` interrupts the n-th run.

    `tries`: after so many failures that Ray gives up at, the script calls `fit()` again.
    """

    epochs: int = 4
    steps: int = 6
    workers: int = 2
    defect: Defect | None = None
    settings: dict[str, Any] = field(default_factory=lambda: {"max_failures": 3})
    breaks_at: int | None = None
    every: int = 1
    tries: int = 0
    loads: tuple[int, ...] = ()
    plans: list[Plan] = field(default_factory=list)
    starts: int = 1
    lanes: int = 1

    def execute(self, plan: Plan, directory: RunDirectory, show: ShowEntries) -> None:
        assert directory.journals.is_dir()
        self.plans.append(plan)
        if len(self.plans) == self.breaks_at:
            write(directory, self.history(plan)[:20])
            raise KeyboardInterrupt
        entries = self.history(plan)[:]
        write(directory, entries)
        (directory.storage / "checkpoint").mkdir(parents=True)
        (directory.logs / "driver.log").write_text("said something")
        show(entries)

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def open_parallel(self, view: object = None) -> "FakeBackend":
        del view
        self.lanes += 1
        return self

    def open_fresh(self, *, reseeded_plan: Plan | None = None) -> "FakeBackend":
        del reseeded_plan
        self.starts += 1
        return self

    def history(self, plan: Plan) -> History:
        own = plan.job.failure.max_failures if plan.job.failure else 1
        budget = own or self.tries
        story = Story(
            strikes=tuple(strike_of(op) for op in plan.ops),
            ranks=plan.job.workers,
            epochs=self.epochs,
            steps=self.steps,
            every=self.every,
            budget=10_000 if budget < 0 else budget,
        )
        history = slower(story.history())
        history = changed(history, ev.RunStarted, scenario=plan.scenario, seed=plan.seed)
        history = self.with_loads(history)
        if own == 0:
            history = self.called_again(plan, history)
        if self.defect is not None and plan.ops:
            history = self.defect(story, history)
        entries = list(history)
        entries.insert(
            1, JournalEntry(time_ns=entries[0].time_ns, source="d", seq=0, event=self.fit(plan))
        )
        return History(entries)

    def called_again(self, plan: Plan, history: History) -> History:
        """Return that Ray gave up at each failure, and the script called `fit()` again."""
        entries: list[JournalEntry] = []
        for entry in history:
            decided = entry.event
            if not isinstance(decided, ev.FailureDecided) or (
                decided.charged != "failures" or decided.decision != "RETRY"
            ):
                entries.append(entry)
                continue
            gave_up = msgspec.structs.replace(decided, decision="RAISE")
            raised = ev.FitRaised(error="WorkerGroupError", message="a worker died")
            again = (gave_up, raised, self.fit(plan))
            entries += (msgspec.structs.replace(entry, event=what) for what in again)
        return History(entries)

    def with_loads(self, history: History) -> History:
        """Return that some ranks load what the attempt before has saved, wherever one is handed."""
        entries: list[JournalEntry] = []
        for entry in history:
            entries.append(entry)
            read = entry.event
            if isinstance(read, ev.CheckpointRead) and read.checkpoint and read.rank in self.loads:
                load = loaded(read.attempt, read.rank)
                entries.append(msgspec.structs.replace(entry, event=load))
        return History(entries)

    def fit(self, plan: Plan) -> ev.FitCalled:
        replaced: dict[str, Any] = {"name": "digits"}
        if plan.job.workers != self.workers:
            replaced["num_workers"] = self.workers
        budgets = {} if plan.job.failure is None else plan.job.failure.model_dump()
        return ev.FitCalled(
            trainer="TorchTrainer",
            workers=plan.job.workers,
            run_name="ours",
            storage_path="/s",
            settings={"num_workers": plan.job.workers, **self.settings, **budgets},
            original_settings=replaced,
        )


def slower(history: History) -> History:
    """Tell it as of a job that takes ten times as long: long enough for a notice to run out."""
    entries = (msgspec.structs.replace(e, time_ns=SLOWER * e.time_ns) for e in history)
    return History(
        [
            msgspec.structs.replace(
                e, event=msgspec.structs.replace(e.event, deadline_ns=SLOWER * e.event.deadline_ns)
            )
            if isinstance(e.event, ev.NoticeGiven)
            else e
            for e in entries
        ]
    )


def write(directory: RunDirectory, entries: tuple[JournalEntry, ...]) -> None:
    encoder = msgspec.json.Encoder()
    text = b"".join(encoder.encode(entry) + b"\n" for entry in entries)
    (directory.journals / "all.jsonl").write_bytes(text)


def loaded(attempt: int, rank: int) -> ev.FileLoaded:
    return ev.FileLoaded(
        attempt=attempt,
        rank=rank,
        epoch=1,
        step=0,
        path="/s/model.pt",
        digest="d",
        saved_attempt=attempt - 1,
        saved_rank=0,
        saved_epoch=0,
        saved_step=6,
    )


def strike_of(op: Op) -> Strike:
    rank, at = op.at.rank or 0, op.at
    kind: Any = op.kind
    if isinstance(at, AtStep):
        return Strike(epoch=at.epoch, step=at.step, rank=rank, kind=kind, drift=1)
    if isinstance(at, AtRecovery):
        return Strike(epoch=0, rank=rank, kind=kind, moment="recovering")
    assert isinstance(at, AtMoment)
    # For all that the model knows, a report that is cut off anywhere is never committed.
    moment: Any = "committed" if at.moment == "committed" else "reported"
    return Strike(epoch=at.epoch, rank=rank, kind=kind, moment=moment)


# -- defects -------------------------------------------------------------------------------


def loses_momentum(_: Story, history: History) -> History:
    """Shift the losses of whatever was trained from a checkpoint."""
    resumed = {
        e.attempt for _, e in history.select_events(ev.WorkerStarted) if e.checkpoint is not None
    }
    return changed(
        history,
        ev.StepDone,
        lambda e: e.attempt in resumed,
        losses=lambda e: tuple(float(loss) + 0.01 for loss in e.losses),
    )


def misses_the_strike(_: Story, history: History) -> History:
    """Leave in doubt whether node losses landed."""
    of_nodes = {e.op for _, e in history.select_events(ev.FaultInvoked) if e.fault == "kill_node"}
    return changed(history, ev.FaultEnded, lambda e: e.op in of_nodes, status="info")


# -- audits --------------------------------------------------------------------------------


def audit_of(folder: Path, backend: FakeBackend, *words: str, **fields: Any) -> Audit:
    """Return an audit of a script in `folder`, whose reports go there as well."""
    script = folder / "train.py"
    script.write_text("import ray.train\n")
    plan = build_base_plan(script, words, cwd=folder, seed=0)
    made = AuditFolder.create(folder / "reports", "train-start", plan, ENV)
    return Audit(plan, backend, made, Ticking(), **fields)
