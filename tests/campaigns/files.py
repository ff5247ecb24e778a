"""Mutated scenarios, questions, traces and `--set` values, read in this process.

    python -m tests.campaigns.files --tries 10000 --seed 1

Each is accepted, or refused with FILE:LINE, within a bounded time. A value of `--set` has no
line: its refusal must be one of chaos's own.
"""

import json
import os
import random
import re
import resource
import tempfile
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from chaos.errors import ChaosError, UsageError
from chaos.extensions.preflight.command import parse_assignments
from chaos.extensions.preflight.load import MarketChoice, choose_market, load_question
from chaos.extensions.preflight.observed_costs import find_observed_costs
from chaos.extensions.preflight.platform_files import load_platform_file
from chaos.extensions.preflight.question import Question, change_question
from chaos.extensions.preflight.trace_files import load_trace
from chaos.scenario_file.load import load_scenario
from tests.campaigns.frame import (
    ROOT,
    TRACEBACKS,
    Asked,
    Tally,
    TooSlowError,
    bounded,
    main,
    quiet_terminal,
    say,
)
from tests.campaigns.mutations import ODD, mutated

LINELESS, SLOW, LOUD = "refusals without FILE:LINE", "slower than 30 s", "warnings of libraries"
BOUND_S = 30.0
QUESTION = """\
preflight: a model on 64 nodes
job: {nodes: 64, steps: 200000, checkpoint_every_steps: 400}
settings: {max_failures: 10, storage_path: "s3://bucket/runs", run_name: big}
costs: {step_s: 1.0, save_s: 10, upload_s: 20, detect_s: 10, teardown_s: 30, schedule_s: 60,
  start_s: 50, restore_s: 30}
"""
QUESTIONS = (
    QUESTION + "market: busy-16h\ngoal: {deadline_h: 96}\n",
    QUESTION + "market:\n  lifetime: {kind: weibull, scale_h: 12, shape: 0.7}\n  away_h: 0.2\n"
    "  notice: {seconds: 120, reliability: 0.95}\n  price_ratio: 0.35\n",
    QUESTION + "market:\n  lifetime: {kind: exponential, mtbf_h: 4}\n"
    "  shock: {every_h: 9, share: 0.3}\ngoal: {budget: 0.5, goodput: 0.8}\n",
)
PARCAE = """\
[0, "add", {"nodes": ["a", "b", "c"], "duration": 60000}]
[60000, "remove", {"nodes": ["b"], "duration": 60000}]
[120000, "no-op", {"nodes": [], "duration": 60000}]
"""
TRACES = (
    "0,add,a\n0,add,b\n0,add,c\n60000,remove,b\n120000,add,d\n180000,remove,a\n180000,remove,c\n",
    PARCAE,
    "2021-12-11, 11:11:30, 5\n2021-12-11, 11:12:30, 3\n2021-12-11, 11:13:30, 5\n",
    json.dumps({"metadata": {"gap_seconds": 300}, "data": [4, 4, 2, 4, 3, 3, 4]}),
)  # fmt: skip
PLACES = (
    "job.nodes", "job.steps", "job.checkpoint_every_steps", "settings.max_failures",
    "settings.storage_path", "costs.step_s", "costs.save_s", "market", "market.away_h",
    "market.lifetime", "market.notice.seconds", "goal.deadline_h", "preflight", "job", "x", "job.",
)  # fmt: skip


@dataclass(frozen=True)
class Drawn:
    """One thing to read: how, what it is called in a message, and what was done to it."""

    kind: str
    read: Callable[[], object]
    file: Path | None
    what: str


def campaign(asked: Asked) -> Tally:
    """Read so many."""
    tally = Tally("mutated files", asked.seed, (LINELESS, SLOW, LOUD))
    draw = random.Random(asked.seed)
    with tempfile.TemporaryDirectory(prefix="cc-") as name:
        sources = _sources(Path(name))
        for number in range(asked.tries):
            kind = draw.choices((*NAMES, "--set"), (5, 2, 2, 1, 1, 1, 1))[0]
            drawn = _drawn(kind, sources, Path(name), draw)
            _take(drawn, tally, f"try {number}, {kind}, {drawn.what}")
            if number % 1000 == 999:
                say(f"{number + 1} read, {len(tally.violations)} violations so far")
    tally.figures["MiB at most"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    return tally


def _sources(folder: Path) -> Mapping[str, Sequence[bytes]]:
    """Return what is mutated, by its kind; the folder gets the jobs that scenarios name."""
    (folder / "jobs").symlink_to(ROOT / "scenarios" / "jobs")
    (folder / "x").mkdir()
    files = sorted((ROOT / "scenarios").rglob("*.chaos.yaml"))
    return {
        "scenario": [file.read_bytes() for file in files],
        "question": [text.encode() for text in QUESTIONS],
        "trace": [text.encode() for text in TRACES],
        **{kind: [file.read_bytes() for file in _samples(kind)] for kind in SAMPLED},
    }


SAMPLED = ("log", "platform", "output")


def _samples(kind: str) -> list[Path]:
    return sorted(Path(__file__).with_name("samples").joinpath(kind).iterdir())


def _drawn(
    kind: str, sources: Mapping[str, Sequence[bytes]], folder: Path, draw: random.Random
) -> Drawn:
    if kind == "--set":
        word, what = _assignment(draw)
        return Drawn(kind, partial(_set, _asked_of(folder), word), None, what)
    data, what = mutated(draw.choice(sources[kind]), draw)
    file = folder / "x" / NAMES[kind]
    file.write_bytes(data)
    return Drawn(kind, partial(READERS[kind], file), file, what)


def _assignment(draw: random.Random) -> tuple[str, str]:
    value = draw.choice((*ODD, '"x"', "64", "0.5", "[" * 100_000, '{"kind": "x"}', "[1, [2]]"))
    data, what = mutated(f"{draw.choice(PLACES)}={value}".encode(), draw)
    word = data.decode(errors="surrogateescape")  # as Python has what is no text on a command line
    return word, f"{what}: {ascii(word)[:80]}"


def _asked_of(folder: Path) -> Question:
    file = folder / "x" / "right.preflight.yaml"
    if not file.exists():
        file.write_text(QUESTIONS[0], encoding="utf-8")
    return load_question(file)


def _set(question: Question, word: str) -> object:
    return change_question(question, parse_assignments([word]))


def _trace(file: Path) -> object:
    """Read a trace as `--trace` does; what is read, but has nothing to learn from, has no line."""
    load_trace(file, unit="s")
    try:
        return choose_market(MarketChoice(trace=file))
    except UsageError:
        return None


def _log(file: Path) -> object:
    """Read a log of lost nodes; one of which the losses or the unit are not known has no line."""
    try:
        return choose_market(MarketChoice(trace=file, trace_held=(4, 4)))
    except UsageError:
        return None


def _output(file: Path) -> object:
    """Read a run's log; one without steps has no line."""
    try:
        return find_observed_costs(file)
    except UsageError:
        return None


def _platform(file: Path) -> object:
    """Read a platform's file; one that is named for what it is has no line."""
    try:
        return load_platform_file(file)
    except UsageError as error:
        if "of which chaos reads nothing" in str(error):
            return None
        raise


NAMES = {
    "scenario": "m.chaos.yaml",
    "question": "m.preflight.yaml",
    "trace": "m.csv",
    "log": "m.json",
    "platform": "m.yaml",
    "output": "m.log",
}
READERS: Mapping[str, Callable[[Path], object]] = {
    "scenario": load_scenario,
    "question": load_question,
    "trace": _trace,
    "log": _log,
    "platform": _platform,
    "output": _output,
}


def _take(drawn: Drawn, tally: Tally, what: str) -> None:
    """Read one, and note what came of it."""
    tally.tries += 1
    with warnings.catch_warnings(record=True) as warned, quiet_terminal() as terminal:
        warnings.simplefilter("always")
        error = _error_of(drawn)
    match error:
        case None:
            tally.figures["accepted"] += 1
        case ChaosError():
            _refused(drawn, error, tally, what)
        case _:
            _keep(drawn, tally, what)
            kind = SLOW if isinstance(error, TooSlowError) else TRACEBACKS
            tally.violated(kind, f"{what}: {repr(error)[:200]}")
    if warned or terminal.getvalue():
        tally.violated(LOUD, f"{what}: {[str(w.message)[:80] for w in warned[:1]]}")


def _error_of(drawn: Drawn) -> BaseException | None:
    try:
        bounded(drawn.read, seconds=BOUND_S)
    except (Exception, TooSlowError) as error:  # noqa: BLE001 - any but ours is a traceback
        return error
    return None


def _refused(drawn: Drawn, error: ChaosError, tally: Tally, what: str) -> None:
    tally.figures["refused"] += 1
    where = "" if drawn.file is None else rf"{re.escape(str(drawn.file))}:\d+: "
    if not isinstance(error, UsageError) or not re.match(where, str(error)):
        tally.violated(LINELESS, f"{what}: {str(error)[:200]}")


def _keep(drawn: Drawn, tally: Tally, what: str) -> None:
    """Keep what has failed, where a folder is named for that."""
    folder = os.environ.get("CHAOS_CAMPAIGN_KEEP")
    if folder and drawn.file is not None:
        number = len(tally.violations)
        Path(folder, f"{number}-{drawn.file.name}").write_bytes(drawn.file.read_bytes())
        say(f"  kept as {number}-{drawn.file.name}: {what}")


if __name__ == "__main__":
    main(campaign, tries=10_000)
