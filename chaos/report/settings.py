"""What a run rested on: the settings in force, what chaos replaced, the job and the machine."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from chaos.model.event import FitCalled, WorkersPrestarted, WorkerStarted
from chaos.model.history import History
from chaos.model.masked import masked
from chaos.report.outcome import FinishedRun


@dataclass(frozen=True)
class Setting:
    """One named value; `before` is what the script had, where chaos replaced it."""

    name: str
    value: str
    before: str | None = None


@dataclass(frozen=True)
class Settings:
    """Settings under one heading."""

    title: str
    rows: tuple[Setting, ...]

    @property
    def was_replaced(self) -> bool:
        """Whether any of them is not what the script had."""
        return any(row.before is not None for row in self.rows)


def settings(run: FinishedRun) -> tuple[Settings, ...]:
    """Give all settings of a run, by heading; a heading without any is left out."""
    plan = run.plan
    job = plan.job.model_dump(exclude_none=True, exclude_defaults=True)
    rest = {
        "seed": plan.seed,
        "backend": plan.backend,
        "cluster": plan.shape.model_dump(),
        "limits": plan.limits.model_dump(),
        "expect": plan.expect.model_dump(exclude_none=True),
        "working directory": plan.cwd,
        "scenario file": plan.file,
    }
    groups = (
        Settings("In force at trainer.fit()", tuple(_in_force(run))),
        Settings("Job", tuple(_flat(job))),
        Settings("Plan", tuple(_flat(rest))),
        Settings("Versions and machine", tuple(_flat(run.env))),
    )
    return tuple(group for group in groups if group.rows)


def _in_force(run: FinishedRun) -> Iterator[Setting]:
    for _, called in run.history.of(FitCalled):
        replaced = {row.name: row.value for row in _flat(called.replaced)}
        in_force = {
            "trainer": called.trainer,
            "name": called.run_name,
            "storage_path": called.storage_path,
            **called.settings,
        }
        for row in _flat(in_force):
            yield Setting(row.name, row.value, replaced.pop(row.name, None))
        for name, before in replaced.items():
            yield Setting(name, "set by the scenario", before)
        if devices := devices_of(run.history):
            yield Setting("devices", devices)
        if waiting := prestarted(run.history):
            yield Setting("prestarted workers", waiting)
        return  # a script that calls fit() twice is told of by its history


def devices_of(history: History) -> str:
    """Say on which device the ranks of the first attempt ran; empty where none started."""
    first = {e.rank: e.accelerators for _, e in history.of(WorkerStarted) if e.attempt == 0}
    named = {rank: ", ".join(given) or "CPU" for rank, given in sorted(first.items())}
    if len(set(named.values())) == 1:
        return named.popitem()[1]
    return "; ".join(f"rank {rank}: {device}" for rank, device in named.items())


def prestarted(history: History) -> str:
    """Say how many workers had been waiting when they were needed; empty where none were to."""
    pools = [event for _, event in history.of(WorkersPrestarted)]
    if not pools:
        return ""
    taken = ", ".join(f"{e.taken} in attempt {e.attempt}" for e in pools if e.taken)
    asked = f"asked for: {sum(sum(pool.asked.values()) for pool in pools)}"
    error = next((f"; {pool.error}" for pool in pools if pool.error is not None), "")
    if not taken:
        return f"none ({asked}{error})"
    return f"{taken} ({asked}{error}): its recovery is shorter than it would be without"


def _flat(values: Mapping[str, Any], head: str = "") -> Iterator[Setting]:
    for key, value in values.items():
        name = f"{head}{key}"
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{name}.")
        else:
            yield Setting(name, _text(masked(value, key)))


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str)
