"""How fast a history is decoded, how fast all checks together judge it, and what they hold.

Synthetic histories of right runs, struck once: 8, 64 and 512 ranks, 10
thousand to a million events. Decoding reads the written lines of the struck
run, checksums and all, as a judgement of a folder does. The rate of judging
counts the events of the struck run; its baseline, nearly as long, is read
besides. Memory is measured in a second, untimed judgement: the peak of what it
allocates, beside the two histories.

    python -m tests.bench.judging [--events 100000] [--ranks 8]
"""

import argparse
import gc
import math
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos.check.judge import judge
from chaos.faults.kill_worker import KillWorker
from chaos.model import event as ev
from chaos.model.history import Entry, History
from chaos.model.plan import Op, Plan, Shape
from chaos.model.scenario import Expect, Job, Limits
from chaos.model.trigger import AtStep
from chaos.run.journal import load_history, write_history

EPOCHS = 8
MIB = 1 << 20
# Events beside steps: two states, three of a report, per rank and epoch.
BESIDE = 5


@dataclass
class Recording:
    """A job of `ranks` ranks and `steps` steps an epoch, as chaos would have recorded it."""

    ranks: int
    steps: int
    entries: list[Entry] = field(default_factory=list)
    now_ns: int = 0

    def add(self, source: str, what: ev.AnyEvent) -> None:
        self.now_ns += 50_000
        entry = Entry(time_ns=self.now_ns, source=source, seq=len(self.entries), what=what)
        self.entries.append(entry)

    def run(self, *, struck: bool) -> History:
        self.add("harness", ev.RunStarted(scenario="bench", seed=1, backend="fork"))
        self.add("driver", _called(self.ranks))
        if struck:
            self.attempt(0, since=0, until=EPOCHS // 2, checkpoint=None)
            self.strike()
            before = f"checkpoint_0_{EPOCHS // 2 - 1}"
            self.attempt(1, since=EPOCHS // 2, until=EPOCHS, checkpoint=before)
        else:
            self.attempt(0, since=0, until=EPOCHS, checkpoint=None)
        self.add("driver", ev.FitReturned(metrics={}, checkpoint=None))
        self.add("harness", ev.DriverExited(code=0))
        self.add("harness", ev.LeftoversSearched(places=("processes",)))
        self.add("harness", ev.RunEnded())
        return History(self.entries)

    def attempt(self, index: int, *, since: int, until: int, checkpoint: str | None) -> None:
        places = tuple(
            ev.WorkerPlace(rank=r, pid=index * 1000 + r, node_id=f"n{index}{r}", node_ip="::1")
            for r in range(self.ranks)
        )
        self.add("controller", ev.WorkerGroupStarted(attempt=index, workers=places))
        for place in places:
            started = ev.WorkerStarted(
                attempt=index,
                rank=place.rank,
                world_size=self.ranks,
                pid=place.pid,
                node_id=place.node_id,
                checkpoint=checkpoint,
                epoch=since,
            )
            self.add(f"worker-{place.pid}", started)
        for epoch in range(since, until):
            self.epoch(index, epoch)

    def epoch(self, attempt: int, epoch: int) -> None:
        self.states(attempt, epoch, 0, "entered")
        for step in range(1, self.steps + 1):
            for rank in range(self.ranks):
                self.add(f"worker-{attempt * 1000 + rank}", _step(attempt, rank, epoch, step))
        self.states(attempt, epoch, self.steps, "left")
        for rank in range(self.ranks):
            place: dict[str, Any] = {"attempt": attempt, "rank": rank, "epoch": epoch}
            self.add(f"worker-{attempt * 1000 + rank}", ev.ReportBegun(**place))
            name = f"checkpoint_{attempt}_{epoch}"
            part = ev.PartUploaded(**place, checkpoint=name, files={f"{rank}.pt": f"{epoch:016x}"})
            self.add(f"worker-{attempt * 1000 + rank}", part)
            self.add(f"worker-{attempt * 1000 + rank}", ev.ReportReturned(**place, error=None))
        metrics = tuple({"epoch": epoch, "loss": 1 / (1 + epoch)} for _ in range(self.ranks))
        self.add(
            "controller",
            ev.Committed(
                attempt=attempt,
                epoch=epoch,
                checkpoint=f"checkpoint_{attempt}_{epoch}",
                metrics=metrics,
            ),
        )

    def states(self, attempt: int, epoch: int, step: int, moment: str) -> None:
        done = epoch * self.steps + step
        for rank in range(self.ranks):
            parts = (
                ev.Component(name="model", digest=f"{done:016x}", size=1.0, count=9),
                ev.Component(name="optimizer.exp_avg", digest=f"{done + 1:016x}", size=0.1),
                ev.Component(name="optimizer.lr", digest="aa", size=0.1),
                ev.Component(name="rng.torch", digest=f"{done:08x}{rank:08x}"),
            )
            seen = ev.StateSeen(
                attempt=attempt,
                rank=rank,
                epoch=epoch,
                step=step,
                moment=moment,  # type: ignore[arg-type]
                components=parts,
            )
            self.add(f"worker-{attempt * 1000 + rank}", seen)

    def strike(self) -> None:
        place: dict[str, Any] = {"op": 0, "attempt": 0, "rank": 1, "pid": 1, "node_id": "n01"}
        for step in (1, 2):
            for rank in range(self.ranks):
                self.add(f"worker-{rank}", _step(0, rank, EPOCHS // 2, step))
        self.add("chaos", ev.GateReached(**place))
        self.add("chaos", ev.FaultInvoked(**place, fault="kill_worker"))
        self.add("chaos", ev.FaultEnded(op=0, status="ok", detail="rank 1 is gone"))
        errors = {1: "gone"}
        decided = ev.FailureDecided(
            attempt=0, decision="RETRY", charged="failures", error="E", errors=errors
        )
        self.add("controller", decided)


def _called(ranks: int) -> ev.FitCalled:
    return ev.FitCalled(
        trainer="TorchTrainer",
        workers=ranks,
        run_name="bench",
        storage_path="/bench",
        settings={"max_failures": 1},
        replaced={},
    )


def _step(attempt: int, rank: int, epoch: int, step: int) -> ev.StepDone:
    at = rank * 7 + epoch * 31 + step
    given = ev.Inputs(count=4, digest=f"{at:016x}", samples=f"{at:08x}" * 4)
    return ev.StepDone(
        attempt=attempt,
        rank=rank,
        epoch=epoch,
        step=step,
        losses=(2.3 / (1 + at) + math.sin(at),),
        inputs=given,
    )


def plan(ranks: int) -> Plan:
    op = Op(index=0, at=AtStep(epoch=EPOCHS // 2, step=2, rank=1), kill_worker=KillWorker())
    return Plan(
        scenario="bench",
        slug="bench",
        file="/bench.chaos.yaml",
        seed=1,
        cwd="/",
        job=Job(script="bench.py", workers=ranks),
        shape=Shape(nodes=ranks, cpus_per_node=1),
        ops=(op,),
        expect=Expect(),
        limits=Limits(),
    )


def measure(events: int, ranks: int) -> str:
    """Decode and judge one synthetic run, and say how fast and in how much memory."""
    steps = max(3, events // (ranks * EPOCHS) - BESIDE)
    tracemalloc.start()
    baseline = Recording(ranks, steps).run(struck=False)
    history = Recording(ranks, steps).run(struck=True)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    decode_s, judge_s = decoding_s(history), judging_s(plan(ranks), history, baseline)
    tracemalloc.start()
    judge(plan(ranks), History(history.entries), History(baseline.entries))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    decoded, judged, both = (len(history) / s for s in (decode_s, judge_s, decode_s + judge_s))
    return (
        f"{len(history):>9,} events, {ranks:>3} ranks: {decoded:>9,.0f} events/s decoded, "
        f"{judged:>9,.0f} judged, {both:>9,.0f} both; "
        f"the two histories hold {held / MIB:,.0f} MiB, judging {peak / MIB:,.0f} MiB more"
    )


def decoding_s(history: History) -> float:
    """Return the seconds that it takes to read a written history."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "history.jsonl"
        write_history(file, history)
        gc.collect()
        start = time.process_time()
        read = load_history(file)
        took_s = time.process_time() - start
    assert len(read) == len(history)
    return took_s


def judging_s(of: Plan, history: History, baseline: History) -> float:
    """Return the seconds that all checks take, with every table made anew."""
    gc.collect()
    start = time.process_time()
    verdict = judge(of, history, baseline)
    took_s = time.process_time() - start
    assert verdict.status == "pass", verdict.headline
    return took_s


def sizes(chosen: argparse.Namespace) -> Iterator[tuple[int, int]]:
    for events in chosen.events or (10_000, 100_000, 1_000_000):
        for ranks in chosen.ranks or (8, 64, 512):
            yield events, ranks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, action="append")
    parser.add_argument("--ranks", type=int, action="append")
    for events, ranks in sizes(parser.parse_args()):
        print(measure(events, ranks), flush=True)


if __name__ == "__main__":
    main()
