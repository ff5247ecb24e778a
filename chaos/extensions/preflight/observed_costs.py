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
from chaos.extensions.preflight.question import Question, change_question
from chaos.extensions.run_logs import LOG_BYTES, LoggedCosts, LogSpan, parse_costs
from chaos.model.launcher import Launcher
from chaos.scenario_file.yaml_lines import load_text
from chaos.wording import plural

SAVE_S = (2.0, 120.0)  # assumed: from a small model on a disk to a large one on a share
RESTART_S = (60.0, 900.0)  # assumed: from a process that starts anew to a machine that does
STATE = "trainer_state.json"  # of transformers' Trainer, and of what is built on it


@dataclass(frozen=True)
class ObservedCosts:
    """Values of a question, a range being a list, by their places, and where they are from."""

    source: str
    values: dict[str, Any]
    notes: tuple[str, ...]
    #: by whose words a restart is in a log
    launcher: Launcher | None = None

    def apply_costs(self, question: Question) -> Question:
        """Return a question with these costs; a price that it has stays."""
        original_costs = question.costs
        costs = (
            {}
            if original_costs is None
            else original_costs.model_dump(include={"price_per_node_hour", "currency"})
        )
        cost_keys = [f"costs.{name}" for name in ("step_s", "save_s", "restart_s")]
        costs |= {key[6:]: self.values[key] for key in cost_keys}
        other_values = {key: value for key, value in self.values.items() if key not in cost_keys}
        return change_question(question, {"costs": costs | {"source": self.source}, **other_values})


def find_observed_costs(path: Path) -> ObservedCosts | None:
    """Return the costs in a log, or in a trainer's folder or state; None for another path.

    Raises `UsageError` where the time of a step is not in it.
    """
    if path.is_dir():
        return _parse_folder(path) if any(_list_saves(path)) else None
    if path.name == STATE:
        return _parse_folder(path.parent)
    if not path.is_file() or path.suffix not in (".log", ".out", ".err", ".txt"):
        return None
    return _parse_log(path, parse_costs(load_text(path, "log", max_bytes=LOG_BYTES)))


# -- logs --------------------------------------------------------------------------------------


def _parse_log(path: Path, log_costs: LoggedCosts) -> ObservedCosts:
    if log_costs.step_s is None:
        raise UsageError(
            "no two steps with a time are in this log, so that a step cannot be timed",
            "Read are lines such as `2026-11-28 02:01:32 step 120/1000`, Megatron's, the bars of "
            "tqdm and `Epoch: [1][ 10/782]  Time 1.6 ( 1.8)`.",
            location=str(path),
        )
    values: dict[str, Any] = {"costs.step_s": _value(log_costs.step_s)}
    notes = [_describe_cost(path, "a step", log_costs.step_s)]
    for name, noun, span, assumed in (
        ("save_s", "a save", log_costs.save_s, SAVE_S),
        ("restart_s", "a restart", log_costs.restart_s, RESTART_S),
    ):
        values[f"costs.{name}"] = list(assumed) if span is None else _value(span)
        notes.append(
            _describe_assumption(noun, assumed)
            if span is None
            else _describe_cost(path, noun, span)
        )
    if log_costs.save_s is not None:
        notes[1] += ", with what is beside it, such as an evaluation"
    if log_costs.restarts:
        notes[2] += ", with the wait for a node, if there was one"
    if log_costs.steps:
        notes.append(
            f"the training has {log_costs.steps} steps, as its lines say (--set job.steps=N)"
        )
    values |= dict(_find_length(log_costs.steps, log_costs.save_interval))
    return ObservedCosts(f"read in {path}", values, tuple(notes), log_costs.launcher)


SAME = 1.05  # ends that are nearer are one value, the dearer


def _value(span: LogSpan) -> float | list[float]:
    return span.high if span.high <= SAME * span.low else [span.low, span.high]


def _describe_cost(path: Path, noun: str, span: LogSpan) -> str:
    value = _value(span)
    is_single = not isinstance(value, list)
    seconds = f"{span.high:.3g} s" if is_single else f"{span.low:.3g} to {span.high:.3g} s"
    return f"{path}:{span.line}: {noun} takes {seconds}"


def _describe_assumption(noun: str, ends: tuple[float, float]) -> str:
    return f"what {noun} takes is not in it: {ends[0]:g} to {ends[1]:g} s are assumed"


def _find_length(steps: int | None, save_interval: int | None) -> Iterator[tuple[str, int]]:
    if steps:
        yield "job.steps", steps
    if save_interval:
        yield "job.checkpoint_every_steps", save_interval


# -- folders of trainers ------------------------------------------------------------------------

# transformers and Accelerate (`checkpoint-500`, `step_500`), Lightning (`epoch=1-step=500.ckpt`),
# DeepSpeed (`global_step500`), Megatron (`iter_0000500`).
_AT_STEP = re.compile(
    r"(?:(?:global_)?step[-_=]?|iter[-_]?)0*(\d+)(?:\.\w+)?$|^checkpoint-0*(\d+)$"
)
TOGETHER_S = 2.0  # files that are all as old were copied, and their times say nothing


def _list_saves(folder: Path) -> Iterator[tuple[int, Path]]:
    for path in folder.iterdir():
        match = _AT_STEP.search(path.name)
        # `checkpoint-4.pth` is the fourth epoch's, a folder `checkpoint-500` is of a step.
        if match is not None and (match[1] or path.is_dir()):
            yield int(match[1] or match[2]), path


def _parse_folder(folder: Path) -> ObservedCosts:
    saves = sorted(_list_saves(folder)) or sorted(_list_saves(folder.parent))
    state = _load_state(folder, saves)
    values: dict[str, Any] = {}
    notes: list[str] = []
    values["costs.step_s"], words = _find_step_time(folder, saves, state)
    notes.append(words)
    written = [_find_write_times(path) for _, path in saves]
    write_times_s = [last - first for first, last in written if last > first]
    if write_times_s:
        # Of a save only the writing of its files is seen, and none of what is before the first.
        min_save_s = median(write_times_s)
        values["costs.save_s"] = [min_save_s, max(SAVE_S[1], 2 * min_save_s)]
        notes.append(
            f"the files of a save are written within {min_save_s:.3g} s; up to "
            f"{values['costs.save_s'][1]:.3g} s are assumed for all of it"
        )
    else:
        values["costs.save_s"] = list(SAVE_S)
        notes.append(_describe_assumption("a save", SAVE_S))
    values["costs.restart_s"] = list(RESTART_S)
    notes.append(_describe_assumption("a restart", RESTART_S))
    step_gaps = [later - former for (former, _), (later, _) in pairwise(saves)]
    # Where an epoch's end is saved, `save_steps` is the default of a setting that is not used.
    save_interval = round(median(step_gaps)) if step_gaps else _parse_count(state.get("save_steps"))
    values |= dict(_find_length(_parse_count(state.get("max_steps")), save_interval))
    return ObservedCosts(f"read in {folder}", values, tuple(notes))


def _parse_count(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _load_state(folder: Path, saves: list[tuple[int, Path]]) -> dict[str, Any]:
    """Return the state of transformers' trainer in a folder, or in its newest save; or nothing."""
    for state_folder in (folder, *(path for _, path in reversed(saves) if path.is_dir())):
        if (state_folder / STATE).is_file():
            try:
                state = json.loads(
                    load_text(state_folder / STATE, "trainer's state", max_bytes=LOG_BYTES)
                )
            except ValueError:
                text = "this is no JSON"
                raise UsageError(
                    text, "Was it cut off?", location=str(state_folder / STATE)
                ) from None
            return state if isinstance(state, dict) else {}
    return {}


def _find_step_time(
    folder: Path, saves: list[tuple[int, Path]], state: dict[str, Any]
) -> tuple[float, str]:
    """Return the seconds of a step, and how they are known."""
    save_rate = _time_saves(saves)
    for runtime, steps in _runtimes(state):
        rate = runtime / steps
        # Of a run that was resumed it is the time since then alone, over all its steps.
        if save_rate is None or 0.5 < rate / save_rate < 2:  # noqa: PLR2004
            condition = "" if save_rate else ", if it was never resumed"
            words = f"train_runtime over all its steps, saves and evaluations in it{condition}"
            return rate, f"a step takes {rate:.3g} s: {words}"
    if save_rate is None:
        raise UsageError(
            "neither train_runtime nor two saves with times of their own are in it, so that a step "
            "cannot be timed",
            "Were the files copied? Give a log of the run instead, or say costs.step_s in a "
            "question.",
            location=str(folder),
        )
    words = f"by the times of {plural(len(saves), 'save')}, with what is between"
    return save_rate, f"a step takes {save_rate:.3g} s: {words}"


def _runtimes(state: dict[str, Any]) -> Iterator[tuple[float, int]]:
    history = state.get("log_history")
    for entry in history if isinstance(history, list) else ():
        if isinstance(entry, dict):
            runtime, steps = entry.get("train_runtime"), _parse_count(entry.get("step"))
            if isinstance(runtime, int | float) and steps and runtime > 0:
                yield float(runtime), steps


def _time_saves(saves: list[tuple[int, Path]]) -> float | None:
    """Return the seconds of a step by the times of saves; None where copying has made these."""
    written = [(step, *_find_write_times(path)) for step, path in saves]
    rates = [(b[2] - a[2]) / (b[0] - a[0]) for a, b in pairwise(written) if b[0] > a[0]]
    positive_rates = [rate for rate in rates if rate > 0]
    if not positive_rates:
        return None
    writing_s = sum(last - first for _, first, last in written)
    ends = [last for *_, last in written]
    is_copied = max(ends) - min(ends) < max(TOGETHER_S * len(saves), 2 * writing_s)
    return None if is_copied else median(positive_rates)


def _find_write_times(path: Path) -> tuple[float, float]:
    """Return when the first and the last file of a save were written."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    times = [file.stat().st_mtime for file in files] or [path.stat().st_mtime]
    return min(times), max(times)
