"""The forecast held against a simulator that shares no formula with it.

One node, one step of the job, one upload at a time, by the rules of Ray 2.60. It is slow, and
simple enough to be read against Ray's source.
`python -m tests.extensions.preflight.reference` prints the table of docs/forecast.md.
"""

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from chaos.extensions.preflight.forecast import default_horizon_s, goodput, simulate
from chaos.extensions.preflight.market import Exponential, Weibull, find_preset
from chaos.extensions.preflight.question import Question, change_question
from tests.extensions.preflight.questions import memoryless

NEVER = math.inf


@dataclass
class Reference:
    """One run. Whatever happens next happens: to a node, to the job, to an upload."""

    asked: Question
    draw: random.Random
    now: float = 0.0
    phase: str = "gone"  # waits, asks, starts, restores, trains, saves, ends
    until: float = 0.0  # when the phase ends by itself
    up: set[int] = field(default_factory=set)
    used: set[int] = field(default_factory=set)
    committed: float = 0.0  # seconds of training with all nodes
    trained: float = 0.0  # of this attempt
    stepped: float = 0.0  # since the last save
    uploads: list[tuple[float, float]] = field(default_factory=list)  # ready at, holds
    uploading: tuple[float, float] | None = None  # done at, holds
    news: list[tuple[float, str, frozenset[int]]] = field(default_factory=list)
    told: bool = False
    save_at: float = NEVER
    begun: float = 0.0
    came: int = 0
    looks_at: float = NEVER
    is_planned: bool = True
    asks: bool = True  # for all nodes, before a group of fewer is started
    lost_steps: float = 0.0
    failures: int = 0
    attempts: int = 1

    def __post_init__(self) -> None:
        job, market = self.asked.job, self.asked.market
        self.job, self.settings, self.market = job, self.asked.ray, market
        assert self.asked.costs is not None
        self.costs = self.asked.costs
        for _ in range(job.pool):
            self.arrive()
        if market.shock is not None:
            self.next_shock()
        self.place()

    # -- nodes -------------------------------------------------------------------------------------

    def arrive(self) -> None:
        life, node = self.market.lifetime, self.came
        self.came += 1
        self.up.add(node)
        if isinstance(life, Weibull):
            hours = self.draw.weibullvariate(life.scale_h, life.shape)
        else:
            assert isinstance(life, Exponential)
            hours = self.draw.expovariate(1 / life.mtbf_h)
        at = self.now + hours * 3600
        if self.is_told():
            warned = max(self.now, at - self.market.notice.seconds)
            self.tell(warned, "notice", node)
            self.tell(at, "told", node)
        else:
            self.tell(at, "untold", node)

    def is_told(self) -> bool:
        notice = self.market.notice
        heard = self.settings.preemption_watcher and self.draw.random() < notice.reliability
        return heard and notice.seconds > 0

    def tell(self, at: float, what: str, *nodes: int) -> None:
        heapq.heappush(self.news, (at, what, frozenset(nodes)))

    def next_shock(self) -> None:
        assert self.market.shock is not None
        self.tell(self.now + self.draw.expovariate(1 / self.market.shock.every_h) * 3600, "shock")

    def shock(self) -> None:
        """Choose whom a shock takes: at once, or after a notice."""
        shock = self.market.shock
        assert shock is not None
        nodes = frozenset(n for n in self.up if self.draw.random() < shock.share)
        self.next_shock()
        if self.is_told():
            self.heard(nodes)
            self.tell(self.now + self.market.notice.seconds, "told", *nodes)
        else:
            self.lose(nodes, told=False)

    def lose(self, nodes: frozenset[int], *, told: bool) -> None:
        gone = nodes & self.up
        self.up -= gone
        for _ in gone:
            away_h = self.market.away_h
            if away_h:
                self.tell(self.now + self.draw.expovariate(1 / away_h) * 3600, "back")
            else:
                self.arrive()
        if gone & self.used and self.phase != "waits":
            self.struck(gone, told=told)

    # -- the job -----------------------------------------------------------------------------------

    def struck(self, gone: frozenset[int], *, told: bool) -> None:
        """End the attempt: Ray finds out, tears down, and asks for places."""
        costs = self.costs
        unseen = not told or self.phase in ("asks", "starts")  # Ray heeds notices to running groups
        found = self.now + (costs.detect_s if unseen else 0.0)
        if self.phase == "gone" and found <= self.until:
            self.used -= gone  # known before the new group is begun
            return
        is_running = self.phase in ("restores", "trains", "saves", "ends")
        if is_running and not told:
            self.failures += 1
        self.attempts += 1
        self.stop()
        self.asks = True
        if self.phase == "gone":
            self.until = max(self.until, found)
            return
        if is_running and told and self.settings.torch_backend == "nccl":
            found += self.settings.preemption_grace_s
        self.phase, self.until = "gone", found + costs.teardown_s

    def stop(self) -> None:
        done = self.trained / self.costs.step_s / self.speed if self.used else 0.0
        kept = self.committed - self.begun
        self.lost_steps += max(0.0, math.floor(done + 1e-6) - kept / self.speed / self.costs.step_s)
        self.trained = self.stepped = 0.0
        self.uploads, self.uploading, self.save_at = [], None, NEVER

    @property
    def speed(self) -> float:
        return max(1, len(self.used)) / self.job.nodes

    def place(self) -> None:
        """Take the nodes that are there, wait for more, or after a loss ask for all first."""
        job, asks, self.asks = self.job, self.asks, True
        if len(self.up) < (job.min_nodes or job.nodes):
            self.phase, self.until, self.used = "waits", NEVER, set()
            return
        self.used = set(self.draw.sample(sorted(self.up), min(job.nodes, len(self.up))))
        if asks and job.min_nodes is not None and len(self.used) < job.nodes:
            self.phase, self.until = "asks", self.now + self.settings.group_start_timeout_s
        else:
            self.start()

    def start(self) -> None:
        self.phase, self.until = "starts", self.now + self.costs.schedule_s + self.costs.start_s

    def look(self) -> float:
        """Return when Ray looks for more nodes the next time, where more are there."""
        wants = self.job.min_nodes is not None and len(self.used) < self.job.nodes
        if self.phase not in ("restores", "trains", "saves", "ends") or not wants:
            return NEVER
        if len(self.up) <= len(self.used):
            return NEVER
        return self.looks_at

    def step_on(self) -> None:
        """Do one step, or save where one is due."""
        left = self.asked.work_s - self.begun - self.trained
        whole = self.stepped >= self.asked.interval_s - 1e-6
        if whole or left <= 1e-6 or self.now >= self.save_at:
            stands = self.costs.save_s
            if self.settings.checkpoint_upload_mode == "sync":
                stands += self.costs.upload_s
            self.phase, self.until = "saves", self.now + stands
            self.is_planned = whole or left <= 1e-6
        else:
            self.phase = "trains"
            self.until = self.now + min(self.costs.step_s, left / self.speed)

    def next_phase(self) -> None:
        match self.phase:
            case "gone":
                self.place()
            case "asks":
                self.start()
            case "starts":
                self.phase, self.until = "restores", self.now + self.costs.restore_s
                self.looks_at = self.now + self.settings.elastic_resize_monitor_interval_s
            case "restores":
                self.begun = self.committed
                self.step_on()
            case "trains":
                left = self.asked.work_s - self.begun - self.trained
                step = min(self.costs.step_s * self.speed, left)
                self.trained += step
                self.stepped += step / self.speed
                self.step_on()
            case _:
                self.saved()

    def saved(self) -> None:
        if self.is_planned:
            self.stepped = 0.0
        else:
            self.save_at = NEVER
        holds = self.begun + self.trained
        if self.settings.checkpoint_upload_mode == "sync":
            self.committed = holds
        else:
            self.uploads.append((self.now, holds))
            self.next_upload()
        if self.begun + self.trained >= self.asked.work_s - 1e-6:
            self.phase, self.until = "ends", NEVER
        else:
            self.step_on()

    def next_upload(self) -> None:
        if self.uploading is None and self.uploads:
            _, holds = self.uploads.pop(0)
            self.uploading = (self.now + self.costs.upload_s, holds)

    def heard(self, nodes: frozenset[int]) -> None:
        """Save at the end of the step in which the watcher's next poll falls."""
        is_training = self.phase in ("trains", "saves")
        if self.job.saves_on_notice and is_training and nodes & self.used & self.up:
            poll = self.draw.random() * self.settings.preemption_poll_s
            self.save_at = min(self.save_at, self.now + poll)

    def run(self, horizon: float) -> tuple[float, float, float, float, float]:
        """Return attempts, steps lost, goodput, hours, and whether it finished."""
        while self.committed < self.asked.work_s - 1e-6 and not self.is_spent:
            upload = NEVER if self.uploading is None else self.uploading[0]
            self.now = min(self.news[0][0], self.until, upload, self.look())
            if self.now >= horizon:
                self.now = horizon
                break
            if self.now == upload and self.uploading is not None:
                self.committed, self.uploading = self.uploading[1], None
                self.next_upload()
            elif self.now == self.look():
                self.stop()
                self.phase, self.until = "gone", self.now + self.costs.teardown_s
                self.asks = False
            elif self.now == self.until:
                self.next_phase()
            else:
                self.meet(*heapq.heappop(self.news)[1:])
            while self.phase in ("restores", "trains", "saves") and self.looks_at <= self.now:
                self.looks_at += max(1.0, self.settings.elastic_resize_monitor_interval_s)
        done = self.committed >= self.asked.work_s - 1e-6
        share = self.committed / self.asked.work_s
        attempts = self.attempts - self.is_spent
        return (
            attempts,
            self.lost_steps,
            share * self.asked.work_s / self.now,
            self.now / 3600,
            done,
        )

    @property
    def is_spent(self) -> bool:
        return 0 <= self.settings.max_failures < self.failures

    def meet(self, what: str, nodes: frozenset[int]) -> None:
        match what:
            case "notice":
                self.heard(nodes)
            case "back":
                self.arrive()
                wants = len(self.up) >= (self.job.min_nodes or self.job.nodes)
                if (self.phase == "waits" and wants) or self.phase == "asks":
                    self.place()
            case "shock":
                self.shock()
            case _:
                self.lose(nodes, told=what == "told")


COLUMNS = ("attempts", "steps lost", "goodput", "finish, h", "finished")


def referred(asked: Question, runs: int, seed: int) -> np.ndarray:
    """Return what becomes of so many runs, a row each."""
    horizon = default_horizon_s(asked)
    rows = [Reference(asked, random.Random(seed + n)).run(horizon) for n in range(runs)]
    return np.array(rows, dtype=float)


def foretold(asked: Question, runs: int) -> np.ndarray:
    """Return the same of the model's runs."""
    seen = simulate(asked, runs=runs, seed=0, jobs=1)
    columns = (seen.restarts + 1, seen.lost_steps, goodput(seen), seen.end_s / 3600, seen.finished)
    return np.stack(columns, axis=1)


def questions() -> Iterator[tuple[str, Question]]:
    """Yield what is asked of both, in which something else decides each time."""
    restart = {"detect_s": 8, "teardown_s": 5, "schedule_s": 12, "start_s": 20, "restore_s": 10}
    costs = {"step_s": 2.0, "save_s": 6.0, "upload_s": 24.0, **restart}

    def on(market: str, **values: object) -> Question:
        places = {name.replace("__", "."): value for name, value in values.items()}
        base = {
            "market": find_preset(market).model_dump(mode="json"),
            "costs": costs,
            "job.steps": 12_000,
            "job.checkpoint_every_steps": 150,
        }
        return change_question(memoryless(loss_every_s=1e4, nodes=12), {**base, **places})

    beside = {"settings__checkpoint_upload_mode": "async"}
    yield "calm-500h", on("calm-500h")
    yield "busy-16h", on("busy-16h")
    yield "busy-16h, uploads beside training", on("busy-16h", **beside)
    yield (
        "busy-16h, uploads of 400 s behind one another",
        on("busy-16h", costs__upload_s=400.0, **beside),
    )
    yield "busy-16h, saved on notice", on("busy-16h", job__saves_on_notice=True, **beside)
    yield "hot-4h, elastic from 6", on("hot-4h", job__min_nodes=6, **beside)
    yield (
        "hot-4h, 4 spares, saved on notice",
        on("hot-4h", job__spare_nodes=4, job__saves_on_notice=True, **beside),
    )
    yield "unannounced-16h, 20 failures", on("unannounced-16h", settings__max_failures=20)
    long = {"costs": {**costs, "detect_s": 120.0, "schedule_s": 200.0}}
    yield (
        "unannounced-16h, slow starts, 16 failures",
        on("unannounced-16h", settings__max_failures=16, job__spare_nodes=2, **long),
    )
    yield "busy-16h, a grace of 300 s with NCCL", on("busy-16h", settings__preemption_grace_s=300.0)
    young = {"lifetime": {"kind": "weibull", "scale_h": 10.0, "shape": 0.6}, "away_h": 0.2}
    yield "Weibull lives of shape 0.6", change_question(on("calm-500h"), {"market": young})


def table(runs: int = 150, model_runs: int = 2_000) -> Iterator[str]:
    """Yield the table's lines: model / reference, and how many standard errors lie between."""
    yield "| question | " + " | ".join(COLUMNS) + " | widest |"
    yield "|" + " --- |" * (len(COLUMNS) + 2)
    for name, asked in questions():
        ours, theirs = foretold(asked, model_runs), referred(asked, runs, seed=1)
        error = np.sqrt(ours.var(axis=0) / len(ours) + theirs.var(axis=0) / len(theirs))
        apart = np.abs(ours.mean(axis=0) - theirs.mean(axis=0)) / np.maximum(error, 1e-12)
        pairs = zip(ours.mean(axis=0), theirs.mean(axis=0), strict=True)
        cells = [f"{one:.4g}/{other:.4g}" for one, other in pairs]
        yield f"| {name} | " + " | ".join(cells) + f" | {apart[error > 0].max():.1f} |"


if __name__ == "__main__":
    print("\n".join(table()))  # noqa: T201
