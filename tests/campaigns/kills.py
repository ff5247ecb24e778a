"""Kills at seeded times over the whole life of `chaos run`, `audit` and `preflight`.

    python -m tests.campaigns.kills --tries 200 --seed 1
    python -m tests.campaigns.kills --tries 12 --seed 1 --backend ray

The harness gets SIGKILL, SIGTERM, SIGHUP, SIGINT once and twice, or its whole session gets
SIGKILL; or somebody from outside kills one of chaos's own processes or the job's. After each,
nothing may be left, the exit code must be the promised one, and what lies in the run's folder
is judged again: a right job must not fail, and a wrong one not pass.
"""

import contextlib
import os
import random
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from chaos.check.judge import judge
from chaos.errors import ChaosError
from chaos.extensions.preflight.verdict import EXIT
from chaos.harness import load_recorded_history
from chaos.run.directory import RunDirectory
from tests.campaigns.commands import (
    POLL_S,
    RIGHT,
    WRONG,
    Harness,
    Place,
    end,
    job,
    look_for_leftovers,
    place,
    run_to_its_end,
    scenario,
    signal_session,
    start,
)
from tests.campaigns.frame import BLAMED, CODES, FILES, GREENER, TRACEBACKS, Asked, Tally, main, say

LATE = "ends that took too long"
# Under this age a signal may come before Python code of chaos's own could ask for it.
UNARMED_S = 0.3
# After a blow a command must end within this, or twice its life where the machine is slow.
ENDS_IN_S = 60.0
LIMIT_S = {"fork": 240.0, "ray": 600.0}
NEXT_RUN_EVERY = 10
# How often a blow is tried that found nobody: the command had ended, or that process of its.
AGAIN = 3
# Which of its words preflight says hangs on what it measures.
ANY_WORD = frozenset(EXIT.values())


@dataclass(frozen=True)
class Command:
    """A command line, what its exit code is when it is left alone, and the job's truth."""

    name: str
    words: Callable[[Place], Sequence[str | Path]]
    result: str  # what it has written when it has an answer, as a glob below the reports
    undisturbed: frozenset[int]
    is_right: bool

    @property
    def story(self) -> str:
        """The command and the job's truth, in words."""
        return f"{self.name} of a {'right' if self.is_right else 'wrong'} job"

    @property
    def blames(self) -> int | None:
        """The exit code that blames a right job; preflight blames nobody."""
        return 1 if self.is_right and self.name != "preflight" else None

    @property
    def clears(self) -> int | None:
        """The exit code that calls a wrong job right."""
        return None if self.is_right else 0


def _run(name: str, backend: str) -> Callable[[Place], Sequence[str | Path]]:
    return lambda here: [
        "run", scenario(here.folder, name), "--backend", backend, "--reports", here.reports
    ]  # fmt: skip


def _on_script(words: Sequence[str], name: str) -> Callable[[Place], Sequence[str | Path]]:
    first, *options = words
    return lambda here: [
        first, job(name), *options, "--reports", here.reports, "--", "--epochs", "4"
    ]  # fmt: skip


def commands(backend: str) -> list[tuple[Command, int]]:
    """Return the commands that are killed, each with its weight."""
    suite, wrong = "suites/*/suite.json", WRONG[0]
    runs = [
        (Command("run", _run(RIGHT, backend), suite, frozenset({0}), is_right=True), 3),
        (Command("run", _run(wrong, backend), suite, frozenset({1}), is_right=False), 3),
    ]
    if backend == "ray":
        return runs
    audit = ("audit", "--no-confirm", "--max-runs", "6")
    preflight = ("preflight", "--calibrate", "--simulations", "500")
    card, answer = "audits/*/audit.json", "preflight/*/preflight.json"
    found, right, wrong_too = frozenset({1, 2}), frozenset({0, 2}), _on_script(audit, wrong)
    return [
        *runs,
        (Command("audit", _on_script(audit, RIGHT), card, right, is_right=True), 2),
        (Command("audit", wrong_too, card, found, is_right=False), 2),
        (
            Command("preflight", _on_script(preflight, RIGHT), answer, ANY_WORD, is_right=True),
            2,
        ),
    ]


@dataclass(frozen=True)
class Blow:
    """What is done, to whom, and which exit code follows; None: that of the command or 2 or 4."""

    name: str
    strike: Callable[[Harness], bool]
    code: int | None = None


def _to_harness(number: signal.Signals) -> Callable[[Harness], bool]:
    def strike(harness: Harness) -> bool:
        harness.process.send_signal(number)
        return True

    return strike


def _to_group(number: signal.Signals) -> Callable[[Harness], bool]:
    def strike(harness: Harness) -> bool:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(harness.process.pid, number)
        return True

    return strike


def _twice(harness: Harness) -> bool:
    _to_group(signal.SIGINT)(harness)
    harness.wait(0.7)
    return _to_group(signal.SIGINT)(harness)


def _to_session(harness: Harness) -> bool:
    signal_session(harness, signal.SIGKILL)
    return True


def _to_part(which: Callable[[psutil.Process], list[psutil.Process]]) -> Callable[[Harness], bool]:
    def strike(harness: Harness) -> bool:
        """Kill such a process as soon as there is one; returns whether there was one."""
        while harness.process.poll() is None:
            with contextlib.suppress(psutil.Error):
                found = which(psutil.Process(harness.process.pid))
                if found:
                    found[-1].kill()
                    return True
            harness.wait(POLL_S)
        return False

    return strike


def _roots(harness: psutil.Process) -> list[psutil.Process]:
    return [p for p in harness.children() if "chaos.launch.forked.root" in p.cmdline()]


def _zygotes(harness: psutil.Process) -> list[psutil.Process]:
    return [below for root in _roots(harness) for below in root.children()]


def _lanes(harness: psutil.Process) -> list[psutil.Process]:
    return [below for zygote in _zygotes(harness) for below in zygote.children()]


def _leads_its_group(process: psutil.Process) -> bool:
    return os.getpgid(process.pid) == process.pid


def _drivers(harness: psutil.Process) -> list[psutil.Process]:
    below = [p for lane in _lanes(harness) for p in lane.children()]
    return [p for p in below if not _leads_its_group(p)]


def _workers(harness: psutil.Process) -> list[psutil.Process]:
    return [p for lane in _lanes(harness) for p in lane.children() if _leads_its_group(p)]


def _named(word: str) -> Callable[[psutil.Process], list[psutil.Process]]:
    def find(harness: psutil.Process) -> list[psutil.Process]:
        every = harness.children(recursive=True)
        return [p for p in every if word in " ".join(p.cmdline())[:200]]

    return find


_PARTS: Mapping[str, Mapping[str, Callable[[psutil.Process], list[psutil.Process]]]] = {
    "fork": {
        "root": _roots, "zygote": _zygotes, "lane": _lanes, "driver": _drivers, "worker": _workers
    },
    "ray": {"raylet": _named("raylet/raylet"), "gcs": _named("gcs_server"),
            "worker": _named("ray::")},
}  # fmt: skip


def blows(backend: str) -> list[Blow]:
    """Return what is done: to the harness, and by an outsider to what is below it."""
    return [
        Blow("SIGKILL", _to_harness(signal.SIGKILL), -signal.SIGKILL),
        Blow("SIGTERM", _to_harness(signal.SIGTERM), 128 + signal.SIGTERM),
        Blow("SIGHUP", _to_group(signal.SIGHUP), 128 + signal.SIGHUP),
        Blow("SIGINT", _to_group(signal.SIGINT), 128 + signal.SIGINT),
        Blow("SIGINT twice", _twice, 128 + signal.SIGINT),
        Blow("session", _to_session, -signal.SIGKILL),
        *(Blow(f"{name} killed", _to_part(find)) for name, find in _PARTS[backend].items()),
    ]


def campaign(asked: Asked) -> Tally:
    """Carry out so many tries, one at a time."""
    tally = Tally(f"kills ({asked.backend})", asked.seed, (LATE,))
    draw, limit_s = random.Random(asked.seed), LIMIT_S[asked.backend]
    every, weights = zip(*commands(asked.backend), strict=True)
    there = _ray_folders()
    lives: dict[str, float] = {}
    for number, blow in enumerate(_turns(blows(asked.backend), asked.tries, draw)):
        command = draw.choices(every, weights)[0]
        if command.story not in lives:
            lives[command.story] = _life_of(command, tally, limit_s)
        within_s = life_s = lives[command.story]
        for _ in range(AGAIN):
            at_s = draw.random() * within_s
            what = f"try {number}, {command.story}, {blow.name} at {at_s:.2f} s"
            with place() as here:
                one = _Try(command, blow, at_s, here, tally, what)
                hit = one.carry_out(max(ENDS_IN_S, 2 * life_s), limit_s)
                if hit.is_hit and number % NEXT_RUN_EVERY == 0:
                    _next_run(command, here, tally, what)
            say(f"{what}: {hit}, {len(tally.violations)} violations so far")
            if hit.is_hit:
                break
            within_s = hit.age_s
    if asked.backend == "ray":
        _look_for_folders_of_ray(every[0], tally, there)
    return tally


def _look_for_folders_of_ray(command: Command, tally: Tally, before: set[Path]) -> None:
    """Note what is left of killed clusters after another run, which removes what they left."""
    _life_of(command, tally, LIMIT_S["ray"])
    if left := _ray_folders() - before:
        tally.violated(FILES, f"in /tmp after the campaign: {sorted(left)}")


def _turns(every: Sequence[Blow], count: int, draw: random.Random) -> Iterator[Blow]:
    """Yield each blow as often as any other, in a drawn order."""
    for _ in range(0, count, len(every)):
        turn = draw.sample(every, len(every))
        yield from turn[: min(len(turn), count)]
        count -= len(turn)


def _ray_folders() -> set[Path]:
    return set(Path("/tmp").glob("chaos-ray-*"))


def _life_of(command: Command, tally: Tally, limit_s: float) -> float:
    """Return how long a command lives when nobody disturbs it, which must end as it should."""
    with place() as here:
        harness = start(command.words(here), here)
        code = harness.wait(limit_s)
        life_s = harness.age_s
        what = f"{command.story}, undisturbed"
        if code not in command.undisturbed:
            tally.violated(CODES, f"{what}: {code}; {here.said()[-300:]}")
        look_for_leftovers(here, tally, what)
    say(f"{what}: exit code {code} after {life_s:.1f} s")
    return life_s


def _next_run(command: Command, here: Place, tally: Tally, what: str) -> None:
    """Run the same into the same folder: what was broken off must not change the answer."""
    code = run_to_its_end(command.words(here), here)
    if code not in command.undisturbed:
        tally.violated(CODES, f"the run after {what}: {code}")
    look_for_leftovers(here, tally, f"the run after {what}")
    tally.figures["next runs"] += 1


@dataclass(frozen=True)
class Hit:
    """Whether a blow met somebody, what the command ended with, and when the blow was."""

    is_hit: bool
    code: int | None
    age_s: float

    def __str__(self) -> str:
        return f"{'hit' if self.is_hit else 'nobody'}, exit code {self.code}"


@dataclass(frozen=True)
class _Try:
    """One command that is struck once."""

    command: Command
    blow: Blow
    at_s: float
    here: Place
    tally: Tally
    what: str

    def carry_out(self, ends_in_s: float, limit_s: float) -> "Hit":
        harness = start(self.command.words(self.here), self.here)
        harness.wait(self.at_s)
        is_alive, written = harness.process.poll() is None, self.here.written()
        age_s = harness.age_s
        below = _below(harness)
        is_hit = is_alive and self.blow.strike(harness)
        self.tally.tries += is_hit
        self.tally.figures["that found nobody"] += not is_hit
        code = harness.wait(ends_in_s)
        if code is None:
            code = self._end_the_late(harness, limit_s)
        had_ended = not is_hit or self.here.written() == written
        self._judge_code(code, is_hit=is_hit, had_ended=had_ended, age_s=age_s)
        look_for_leftovers(self.here, self.tally, self.what, besides=below)
        self._judge_folders()
        return Hit(is_hit, code, age_s if is_alive else self.at_s)

    def _end_the_late(self, harness: Harness, limit_s: float) -> int | None:
        """Note that a struck command goes on for long, which on Ray it may for a while."""
        code = harness.wait(limit_s)
        if code is None or self.blow.code is not None:
            self.tally.violated(LATE, self.what)
        if code is None:
            end([psutil.Process(harness.process.pid), *self.here.processes()])
            harness.process.wait()
        return code

    def _judge_code(self, code: int | None, *, is_hit: bool, had_ended: bool, age_s: float) -> None:
        if code is None or self._is_promised(code, is_hit, had_ended, age_s):
            return
        words = self.here.said()
        story = f"{self.what}: {code}; {' '.join(words.split())[-300:]}"
        if code == self.command.blames and self._has_result():
            self.tally.violated(BLAMED, story)
        elif code == self.command.clears:
            self.tally.violated(GREENER, story)
        elif self.command.is_right and "fails without any fault" in words:
            self.tally.violated(BLAMED, story)
        else:
            self.tally.violated(CODES, story)

    def _is_promised(self, code: int, is_hit: bool, had_ended: bool, age_s: float) -> bool:
        answered = code in self.command.undisturbed and (code == 2 or self._has_result())
        if not is_hit:
            return answered
        if self.blow.code is None:
            return answered or code in {2, 4}
        too_early = age_s < UNARMED_S and code == 128 - self.blow.code
        return code == self.blow.code or (had_ended and answered) or too_early

    def _has_result(self) -> bool:
        return any(self.here.reports.glob(self.command.result))

    def _judge_folders(self) -> None:
        """Judge what lies in the folders of runs; baselines have no fault, and may pass."""
        for plan in sorted(self.here.reports.glob("[!.]*/*/plan.json")):
            if plan.parent.parent.name == "audits":
                continue
            self._judge_folder(plan.parent)

    def _judge_folder(self, folder: Path) -> None:
        try:
            directory = RunDirectory(folder)
            plan, baseline = directory.load_plan(), directory.load_baseline()
            status = judge(plan, load_recorded_history(directory), baseline).status
        except ChaosError:
            self.tally.figures["folders refused"] += 1
            return
        except Exception as error:  # noqa: BLE001 - any is a traceback for who calls `chaos rejudge`
            self.tally.violated(TRACEBACKS, f"{self.what}: check: {error!r}")
            return
        self.tally.figures[f"folders {status}"] += 1
        if self.command.is_right and status == "fail":
            self.tally.violated(BLAMED, f"{self.what}: check of {folder.name}")
        if self.command.name == "run" and not self.command.is_right and status == "pass":
            self.tally.violated(GREENER, f"{self.what}: check of {folder.name}")


def _below(harness: Harness) -> list[psutil.Process]:
    try:
        return psutil.Process(harness.process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


if __name__ == "__main__":
    main(campaign, tries=200, backends=("fork", "ray"))
