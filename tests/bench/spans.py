"""What a run spent between two of its events, and what the embedded backend's processes hold."""

from contextlib import suppress

import psutil

from chaos.model.event import (
    ControllerState,
    FaultEnded,
    FaultInvoked,
    FitCalled,
    RunEnded,
    StepDone,
    WorkerStarted,
)
from chaos.model.history import History

ROOT_MODULE = "chaos.launch.forked.root"


def restart_s(history: History) -> float:
    """Return the seconds from the fault's proof to the next attempt's first step."""
    ended = next(history.time_ns(number) for number, _ in history.select_events(FaultEnded))
    return (first_step_ns(history, attempt=1) - ended) / 1e9


def parts_s(history: History) -> dict[str, float]:
    """Return the seconds of each part of a run with one kill, in order."""
    started = {a: _first_ns(history, WorkerStarted, attempt=a) for a in (0, 1)}
    stepped = {a: first_step_ns(history, attempt=a) for a in (0, 1)}
    invoked, ended = (
        next(history.time_ns(number) for number, _ in history.select_events(kind))
        for kind in (FaultInvoked, FaultEnded)
    )
    times = {
        "fork of the driver, to fit()": next(
            history.time_ns(n) for n, _ in history.select_events(FitCalled)
        ),
        "controller, forks of the workers": started[0],
        "process group, model, first step": stepped[0],
        "training before the fault": invoked,
        "the fault, until it was seen to act": ended,
        "detection, end of the others, new forks": started[1],
        "process group, model, load, first step": stepped[1],
        "training after it": max(history.time_ns(n) for n, _ in history.select_events(StepDone)),
        "last commit, end of the processes": next(
            history.time_ns(number) for number, _ in history.select_events(RunEnded)
        ),
    }
    before = [history.time_ns(0), *times.values()]
    ends = zip(times.items(), before, strict=False)
    return {name: (end - begin) / 1e9 for (name, end), begin in ends}


def _first_ns(history: History, kind: type[WorkerStarted], *, attempt: int) -> int:
    return min(
        history.time_ns(n) for n, event in history.select_events(kind) if event.attempt == attempt
    )


def training_s(history: History) -> float:
    """Return the seconds from `fit()` to the end of the run."""
    (called, _), (ended, _) = (
        next(history.select_events(FitCalled)),
        next(history.select_events(RunEnded)),
    )
    return (history.time_ns(ended) - history.time_ns(called)) / 1e9


def attempt_starts_s(history: History) -> list[float]:
    """Return for each attempt the seconds from being scheduled, or from `fit()`, to its first step.

    Processes, their imports, the process group, and the step itself are in it.
    """
    scheduled = [
        n for n, event in history.select_events(ControllerState) if event.state == "SCHEDULING"
    ]
    numbers = [*(n for n, _ in history.select_events(FitCalled)), *scheduled]
    begins = [history.time_ns(number) for number in numbers]
    attempts = sorted({event.attempt for _, event in history.select_events(StepDone)})
    firsts = [first_step_ns(history, attempt=attempt) for attempt in attempts]
    return [(first - max(ns for ns in begins if ns < first)) / 1e9 for first in firsts]


def first_step_ns(history: History, *, attempt: int) -> int:
    """Return when an attempt's first step was done."""
    return min(
        history.time_ns(n) for n, e in history.select_events(StepDone) if e.attempt == attempt
    )


def embedded_bytes() -> int:
    """Return the memory of root, zygote and lanes, what they share counted once."""
    roots = [p for p in psutil.Process().children() if ROOT_MODULE in p.cmdline()]
    assert roots, "no root process runs"
    tree = [process for root in roots for process in (root, *root.children(recursive=True))]
    found = 0
    for process in tree:
        with suppress(psutil.NoSuchProcess):  # a run's last processes end about now
            found += process.memory_full_info().pss
    return found
