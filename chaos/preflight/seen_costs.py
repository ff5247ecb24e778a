"""The costs of a job from what is left of a run: its log, or the folder of its trainer.

What is not in it has a range that is assumed, and the answer says so: it is asked for at both ends.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

from chaos.errors import UsageError
from chaos.model.launcher import Launcher
from chaos.preflight.question import Question, changed
from chaos.preflight.run_logs import LoggedCosts, Span, logged_costs
from chaos.scenario_file.yaml_lines import read_text
from chaos.words import plural

SAVE_S = (2.0, 120.0)  # assumed: from a small model on a disk to a large one on a share
RESTART_S = (60.0, 900.0)  # assumed: from a process that starts anew to a machine that does
LOG_BYTES = 256 << 20
STATE = "trainer_state.json"  # of transformers' Trainer, and of what is built on it


@dataclass(frozen=True)
class SeenCosts:
    """Values of a question, a range being a list, by their places, and where they are from."""

    source: str
    values: dict[str, Any]
    notes: tuple[str, ...]
    #: by whose words a restart is in a log
    launcher: Launcher | None = None

    def of(self, question: Question) -> Question:
        """Return a question with these costs; a price that it has stays."""
        own = question.costs
        costs = {} if own is None else own.model_dump(include={"price_per_node_hour", "currency"})
        places = [f"costs.{name}" for name in ("step_s", "save_s", "restart_s")]
        costs |= {place[6:]: self.values[place] for place in places}
        rest = {place: value for place, value in self.values.items() if place not in places}
        return changed(question, {"costs": costs | {"source": self.source}, **rest})


def seen_costs(path: Path) -> SeenCosts | None:
    """Return the costs in a log, or in a trainer's folder or state; None for another path.

    Raises `UsageError` where the time of a step is not in it.
    """
    if path.is_dir():
        return _of_folder(path) if any(_saves(path)) else None
    if path.name == STATE:
        return _of_folder(path.parent)
    if not path.is_file() or path.suffix not in (".log", ".out", ".err", ".txt"):
        return None
    return _of_log(path, logged_costs(read_text(path, "log", most=LOG_BYTES)))


# -- logs --------------------------------------------------------------------------------------


def _of_log(path: Path, seen: LoggedCosts) -> SeenCosts:
    if seen.step_s is None:
        raise UsageError(
            "no two steps with a time are in this log, so that a step cannot be timed",
            "Read are lines such as `2026-11-28 02:01:32 step 120/1000`, Megatron's, the bars of "
            "tqdm and `Epoch: [1][ 10/782]  Time 1.6 ( 1.8)`.",
            place=str(path),
        )
    values: dict[str, Any] = {"costs.step_s": _value(seen.step_s)}
    notes = [_told(path, "a step", seen.step_s)]
    for name, what, span, assumed in (
        ("save_s", "a save", seen.save_s, SAVE_S),
        ("restart_s", "a restart", seen.restart_s, RESTART_S),
    ):
        values[f"costs.{name}"] = list(assumed) if span is None else _value(span)
        notes.append(_assumed(what, assumed) if span is None else _told(path, what, span))
    if seen.save_s is not None:
        notes[1] += ", with what is beside it, such as an evaluation"
    if seen.restarts:
        notes[2] += ", with the wait for a node, if there was one"
    if seen.steps:
        notes.append(f"the training has {seen.steps} steps, as its lines say (--set job.steps=N)")
    values |= dict(_length(seen.steps, seen.every))
    return SeenCosts(f"read in {path}", values, tuple(notes), seen.launcher)


SAME = 1.05  # ends that are nearer are one value, the dearer


def _value(span: Span) -> float | list[float]:
    return span.high if span.high <= SAME * span.low else [span.low, span.high]


def _told(path: Path, what: str, span: Span) -> str:
    value = _value(span)
    one = not isinstance(value, list)
    seconds = f"{span.high:.3g} s" if one else f"{span.low:.3g} to {span.high:.3g} s"
    return f"{path}:{span.line}: {what} takes {seconds}"


def _assumed(what: str, ends: tuple[float, float]) -> str:
    return f"what {what} takes is not in it: {ends[0]:g} to {ends[1]:g} s are assumed"


def _length(steps: int | None, every: int | None) -> Iterator[tuple[str, int]]:
    if steps:
        yield "job.steps", steps
    if every:
        yield "job.checkpoint_every_steps", every


# -- folders of trainers ------------------------------------------------------------------------

# transformers and Accelerate (`checkpoint-500`, `step_500`), Lightning (`epoch=1-step=500.ckpt`),
# DeepSpeed (`global_step500`), Megatron (`iter_0000500`).
_AT_STEP = re.compile(
    r"(?:(?:global_)?step[-_=]?|iter[-_]?)0*(\d+)(?:\.\w+)?$|^checkpoint-0*(\d+)$"
)
TOGETHER_S = 2.0  # files that are all as old were copied, and their times say nothing


def _saves(folder: Path) -> Iterator[tuple[int, Path]]:
    for path in folder.iterdir():
        found = _AT_STEP.search(path.name)
        # `checkpoint-4.pth` is the fourth epoch's, a folder `checkpoint-500` is of a step.
        if found is not None and (found[1] or path.is_dir()):
            yield int(found[1] or found[2]), path


def _of_folder(folder: Path) -> SeenCosts:
    saves = sorted(_saves(folder)) or sorted(_saves(folder.parent))
    state = _state(folder, saves)
    values: dict[str, Any] = {}
    notes: list[str] = []
    values["costs.step_s"], words = _step_of(folder, saves, state)
    notes.append(words)
    written = [_written_s(path) for _, path in saves]
    within = [last - first for first, last in written if last > first]
    if within:
        # Of a save only the writing of its files is seen, and none of what is before the first.
        least = median(within)
        values["costs.save_s"] = [least, max(SAVE_S[1], 2 * least)]
        notes.append(
            f"the files of a save are written within {least:.3g} s; up to "
            f"{values['costs.save_s'][1]:.3g} s are assumed for all of it"
        )
    else:
        values["costs.save_s"] = list(SAVE_S)
        notes.append(_assumed("a save", SAVE_S))
    values["costs.restart_s"] = list(RESTART_S)
    notes.append(_assumed("a restart", RESTART_S))
    apart = [later - former for (former, _), (later, _) in pairwise(saves)]
    # Where an epoch's end is saved, `save_steps` is the default of a setting that is not used.
    every = round(median(apart)) if apart else _whole(state.get("save_steps"))
    values |= dict(_length(_whole(state.get("max_steps")), every))
    return SeenCosts(f"read in {folder}", values, tuple(notes))


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _state(folder: Path, saves: list[tuple[int, Path]]) -> dict[str, Any]:
    """Return the state of transformers' trainer in a folder, or in its newest save; or nothing."""
    for place in (folder, *(path for _, path in reversed(saves) if path.is_dir())):
        if (place / STATE).is_file():
            try:
                found = json.loads(read_text(place / STATE, "trainer's state", most=LOG_BYTES))
            except ValueError:
                text = "this is no JSON"
                raise UsageError(text, "Was it cut off?", place=str(place / STATE)) from None
            return found if isinstance(found, dict) else {}
    return {}


def _step_of(
    folder: Path, saves: list[tuple[int, Path]], state: dict[str, Any]
) -> tuple[float, str]:
    """Return the seconds of a step, and how they are known."""
    by_saves = _by_saves(saves)
    for runtime, steps in _runtimes(state):
        rate = runtime / steps
        # Of a run that was resumed it is the time since then alone, over all its steps.
        if by_saves is None or 0.5 < rate / by_saves < 2:  # noqa: PLR2004
            sure = "" if by_saves else ", if it was never resumed"
            words = f"train_runtime over all its steps, saves and evaluations in it{sure}"
            return rate, f"a step takes {rate:.3g} s: {words}"
    if by_saves is None:
        raise UsageError(
            "neither train_runtime nor two saves with times of their own are in it, so that a step "
            "cannot be timed",
            "Were the files copied? Give a log of the run instead, or say costs.step_s in a "
            "question.",
            place=str(folder),
        )
    words = f"by the times of {plural(len(saves), 'save')}, with what is between"
    return by_saves, f"a step takes {by_saves:.3g} s: {words}"


def _runtimes(state: dict[str, Any]) -> Iterator[tuple[float, int]]:
    history = state.get("log_history")
    for entry in history if isinstance(history, list) else ():
        if isinstance(entry, dict):
            runtime, steps = entry.get("train_runtime"), _whole(entry.get("step"))
            if isinstance(runtime, int | float) and steps and runtime > 0:
                yield float(runtime), steps


def _by_saves(saves: list[tuple[int, Path]]) -> float | None:
    """Return the seconds of a step by the times of saves; None where copying has made these."""
    written = [(step, *_written_s(path)) for step, path in saves]
    rates = [(b[2] - a[2]) / (b[0] - a[0]) for a, b in pairwise(written) if b[0] > a[0]]
    good = [rate for rate in rates if rate > 0]
    if not good:
        return None
    writing_s = sum(last - first for _, first, last in written)
    ends = [last for *_, last in written]
    is_copied = max(ends) - min(ends) < max(TOGETHER_S * len(saves), 2 * writing_s)
    return None if is_copied else median(good)


def _written_s(path: Path) -> tuple[float, float]:
    """Return when the first and the last file of a save were written."""
    files = [one for one in path.rglob("*") if one.is_file()] if path.is_dir() else [path]
    times = [one.stat().st_mtime for one in files] or [path.stat().st_mtime]
    return min(times), max(times)
