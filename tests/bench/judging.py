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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chaos.check.judge import judge
from chaos.faults.kill_worker import KillWorker
from chaos.model import event as ev
from chaos.model.expect import Expect
from chaos.model.history import History
from chaos.model.plan import Op, Plan, Shape
from chaos.model.scenario import Job, Limits
from chaos.model.trigger import AtStep
from chaos.run.journal import load_history, write_history
from tests.check.scribe import Scribe

EPOCHS = 8
MIB = 1 << 20
# Events beside steps: two states, three of a report, per rank and epoch.
BESIDE = 5
EVENT_MS = 0.05


@dataclass(kw_only=True)
class Recording(Scribe):
    """A job of `ranks` ranks and `steps` steps an epoch, as chaos would have recorded it."""

    steps: int

    def run(self, *, struck: bool) -> History:
        self.say("harness", ev.RunStarted(scenario="bench", seed=1, backend="fork"))
        self.say("driver", _called(self.ranks))
        half = EPOCHS // 2
        if struck:
            self.train(since=0, until=half, checkpoint=None)
            self.strike(half)
        self.train(
            since=half if struck else 0,
            until=EPOCHS,
            checkpoint=f"checkpoint_0_{half - 1}" if struck else None,
        )
        self.say("driver", ev.FitReturned(metrics={}, checkpoint=None))
        return self.close()

    def train(self, *, since: int, until: int, checkpoint: str | None) -> None:
        for place in self.open():
            self.start(place, checkpoint, since)
        for epoch in range(since, until):
            self.train_epoch(epoch)

    def train_epoch(self, epoch: int) -> None:
        self.states(epoch, 0, "entered")
        self.do_steps(epoch, self.steps)
        self.states(epoch, self.steps, "left")
        name = f"checkpoint_{self.attempt}_{epoch}"
        for rank in range(self.ranks):
            place: dict[str, Any] = {"attempt": self.attempt, "rank": rank, "epoch": epoch}
            part = ev.PartUploaded(**place, checkpoint=name, files={f"{rank}.pt": f"{epoch:016x}"})
            reported = ev.ReportBegun(**place), part, ev.ReportReturned(**place, error=None)
            self.worker(rank, *reported, ms=EVENT_MS)
        metrics = tuple({"epoch": epoch, "loss": 1 / (1 + epoch)} for _ in range(self.ranks))
        of: dict[str, Any] = {"attempt": self.attempt, "epoch": epoch}
        self.say("controller-9", ev.Committed(**of, checkpoint=name, metrics=metrics))

    def do_steps(self, epoch: int, count: int) -> None:
        for step in range(1, count + 1):
            for rank in range(self.ranks):
                self.worker(rank, _step(self.attempt, rank, epoch, step), ms=EVENT_MS)

    def states(self, epoch: int, step: int, moment: Any) -> None:
        done = epoch * self.steps + step
        for rank in range(self.ranks):
            parts = (
                ev.Component(name="model", digest=f"{done:016x}", size=1.0, count=9),
                ev.Component(name="optimizer.exp_avg", digest=f"{done + 1:016x}", size=0.1),
                ev.Component(name="optimizer.lr", digest="aa", size=0.1),
                ev.Component(name="rng.torch", digest=f"{done:08x}{rank:08x}"),
            )
            place = {"attempt": self.attempt, "rank": rank, "epoch": epoch, "step": step}
            seen = ev.StateSeen(**place, moment=moment, components=parts)
            self.worker(rank, seen, ms=EVENT_MS)

    def strike(self, epoch: int) -> None:
        self.do_steps(epoch, 2)
        self.invoke(0, "kill_worker", 1)
        self.gone(0, "rank 1 is gone")
        self.decide("failures")


def _called(ranks: int) -> ev.FitCalled:
    return ev.FitCalled(
        trainer="TorchTrainer",
        workers=ranks,
        run_name="bench",
        storage_path="/bench",
        settings={"max_failures": 1},
        original_settings={},
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
    baseline = Recording(ranks=ranks, steps=steps).run(struck=False)
    history = Recording(ranks=ranks, steps=steps).run(struck=True)
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
