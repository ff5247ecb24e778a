"""For each kind of finding a run that shows it, and a right one that looks as if it did.

`kinds_shown.yaml` has a row for each kind: a run that is `wrong` and one that is `right`, in the
words of `shorthand` and of this module, beside the fault-free run `clean`; and `why` the right one
is right, though it looks as if. A row may have

    right_clean   the fault-free run of the right job, where it is another one
    clean_runs    how often the fault-free run was made, each time the same
    verdict       on the right run, where it is no pass: what was not seen is in doubt
    expect        what the scenario expects
    job           what the plan says of the job
    more          further right runs: of each what is not as in the row
    events        by name, what the word `event:NAME` says: an event as a journal has it; where
                  training is, if it does not say; of each of its `ranks`; written by its `source`

Further words, beside those of `shorthand`:

    event:NAME       an event of the row
    at:EPOCH.STEP    ranks are seen to go on there: after a file of the job's own was read
    warn:SECONDS     a notice for rank 1's node, so many seconds before it is lost
    hold             chaos holds rank 0, and lets it go no more
    slow             rank 1 is slowed down, which ends no attempt
    rival            the script is started a second time: `driver-2`, `controller-2`
    second           the next step, of the second of two optimizers, which sees no batch
    call:KEY=VALUE   fit() is called, with these settings, `;` between them
    decide:BUDGET    the controller retries, and charges this budget; `raise:BUDGET`: it gives up
    fail:ERROR       fit() raises an error, and the run ends
    exit:CODE        the script ends with this code; fit() has returned if an event says so
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import msgspec
from ruamel.yaml import YAML

from chaos.check.judge import judge
from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.faults.slow_worker import SlowWorker
from chaos.faults.start_second_driver import StartSecondDriver
from chaos.model import event as ev
from chaos.model.expect import VerdictStatus
from chaos.model.history import Baseline, History
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtStep
from chaos.model.verdict import Verdict
from tests.check.each import judge_each
from tests.check.shorthand import Telling

TABLE = Path(__file__).with_suffix(".yaml")


@dataclass(frozen=True)
class Row:
    """One kind of finding; see above."""

    why: str
    clean: str
    wrong: str
    right: str
    right_clean: str = ""
    clean_runs: int = 1
    verdict: VerdictStatus = "pass"
    expect: dict[str, Any] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    more: list[dict[str, Any]] = field(default_factory=list)

    @property
    def right_rows(self) -> list["Row"]:
        """The row for each of its right runs."""
        return [self, *(replace(self, **fields) for fields in self.more)]

    def judge(self, side: Literal["wrong", "right"]) -> tuple[Verdict, Verdict]:
        """Return the verdict on a run, and what each check says of it by itself."""
        line, clean = self.wrong, self.clean
        if side == "right":
            line, clean = self.right, self.right_clean or self.clean
        plan, history = self._tell(line)
        baseline = Baseline([self._tell(clean)[1] for _ in range(self.clean_runs)])
        return judge(plan, history, baseline), judge_each(plan, history, baseline)

    def _tell(self, line: str) -> tuple[Plan, History]:
        telling = _Telling(events=self.events)
        history = telling.tell(line)
        plan = telling.plan(**self.expect)
        job = plan.job.model_validate(plan.job.model_dump() | self.job)
        return plan.model_copy(update={"job": job}), history


@cache
def read_table() -> dict[str, Row]:
    """Return the rows by kind."""
    return {kind: Row(**row) for kind, row in YAML(typ="safe").load(TABLE).items()}


def find_kinds(verdict: Verdict) -> set[str]:
    """Return the kinds of all findings, of those without consequence as well."""
    return {
        anomaly.kind
        for result in verdict.results
        for anomaly in (*result.anomalies, *result.latent)
    }


@dataclass
class _Telling(Telling):
    events: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: the epoch that the attempt began with, if no checkpoint of Ray's names it
    began_at: int = 0

    def tell(self, line: str) -> History:
        """Return the history of a line, the lines of each journal numbered by themselves."""
        numbers: Counter[str] = Counter()
        entries = []
        for entry in super().tell(line):
            entries.append(msgspec.structs.replace(entry, seq=numbers[entry.source]))
            numbers[entry.source] += 1
        return History(entries)

    def on_group(self, of: str, number: int | None) -> None:
        self.began_at = 0
        super().on_group(of, number)

    def on_at(self, of: str, number: int | None) -> None:
        places = [tuple(map(int, place.split("."))) for place in self.per_rank(of)]
        for rank, (epoch, step) in enumerate(places):
            self.each(ev.Repositioned, [rank], epoch=epoch, step=step, evidence="state")
        self.epoch, self.step = places[0]
        self.began_at = self.epoch

    def on_commit(self, of: str, number: int | None) -> None:
        # Ray's controller knows nothing of such files, and counts from 0 in each attempt.
        self.epoch -= self.began_at
        super().on_commit(of, number)
        self.epoch += self.began_at

    def on_event(self, of: str, number: int | None) -> None:
        given = dict(self.events[of])
        place = {"attempt": self.attempt, "epoch": self.epoch, "step": self.step}
        known = getattr(ev, given["event"]).__struct_fields__
        fields = {key: value for key, value in place.items() if key in known} | given
        ranks = fields.pop("ranks", None)
        for rank in [fields.get("rank")] if ranks is None else ranks:
            own = fields if rank is None else {**fields, "rank": rank}
            source = "harness" if rank is None else f"worker-{self.pid(rank)}"
            told = {key: value for key, value in own.items() if key != "source"}
            self.say(own.get("source", source), msgspec.convert(told, ev.AnyEvent))

    def on_warn(self, of: str, number: int | None) -> None:
        self.inject("preempt_node", PreemptNode(notice_s=float(of)), 1)
        self.notice(len(self.ops) - 1, 1, ahead_ms=1000 * float(of))

    def on_hold(self, of: str, number: int | None) -> None:
        at = AtStep(epoch=self.epoch, step=max(1, self.step), rank=0)
        held: dict[str, Any] = {
            "op": len(self.ops),
            "pid": self.pid(0),
            "node_id": f"node-{self.attempt}-0",
        }
        self.ops.append(Op(index=len(self.ops), at=at, kill_worker=KillWorker()))
        self.say("chaos", ev.GateReached(attempt=self.attempt, rank=0, **held))

    def on_rival(self, of: str, number: int | None) -> None:
        index, at = len(self.ops), AtStep(epoch=self.epoch, step=max(1, self.step), rank=0)
        self.ops.append(Op(index=index, at=at, start_second_driver=StartSecondDriver()))
        self.invoke(index, "start_second_driver", 0)
        opened: dict[str, Any] = {"host": "h", "pid": 9, "wall_ns": 0}
        self.say("driver-2", ev.JournalOpened(role="driver", **opened))
        self.say("controller-2", ev.JournalOpened(role="controller", **opened))
        self.gone(index, "driver 9 has made a step")

    def on_slow(self, of: str, number: int | None) -> None:
        index, at = len(self.ops), AtStep(epoch=self.epoch, step=max(1, self.step), rank=1)
        self.ops.append(Op(index=index, at=at, slow_worker=SlowWorker(delay_s=1.0)))
        self.invoke(index, "slow_worker", 1)
        self.gone(index, "rank 1 was slow")

    def on_second(self, of: str, number: int | None) -> None:
        self.step += 1
        self.each(ev.StepDone, **self.place, losses=((),) * self.ranks, optimizer="1 (SGD)")

    def on_call(self, of: str, number: int | None) -> None:
        settings = dict(pair.split("=") for pair in of.split(";") if pair)
        called = ev.FitCalled(
            trainer="TorchTrainer",
            workers=self.ranks,
            run_name="a-test",
            storage_path="/a",
            settings={key: YAML(typ="safe").load(value) for key, value in settings.items()},
            original_settings={},
        )
        self.say("driver", called)

    def on_decide(self, of: str, number: int | None) -> None:
        self.decide(of)

    def on_raise(self, of: str, number: int | None) -> None:
        self.decide(of, decision="RAISE")

    def on_fail(self, of: str, number: int | None) -> None:
        self.say("driver", ev.FitRaised(error=of, message="it failed"))
        self.close(code=1)

    def on_exit(self, of: str, number: int | None) -> None:
        self.close(code=int(of))
