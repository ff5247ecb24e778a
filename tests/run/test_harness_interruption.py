"""What is broken off is judged and written down as far as it came."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import chaos.harness
from chaos.harness import Harness
from chaos.model.expect import Expect
from chaos.model.plan import Plan, Shape
from chaos.model.scenario import Job, Limits
from chaos.report.html import render_run
from chaos.report.outcome import FinishedRun
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory, create_run
from chaos.run.ports import ShowEntries


class Idle:
    """A backend that does nothing, or is broken off."""

    def __init__(self, *, breaks: bool = False) -> None:
        self.breaks = breaks

    def execute(self, plan: Plan, directory: RunDirectory, show: ShowEntries) -> None:
        if self.breaks:
            raise KeyboardInterrupt

    def close(self) -> None:
        return


def executed(folder: Path, backend: Idle) -> tuple[RunDirectory, list[FinishedRun]]:
    plan = Plan(
        scenario="s",
        slug="s",
        file=str(folder / "s.chaos.yaml"),
        seed=0,
        cwd=str(folder),
        job=Job(script="x.py", workers=1),
        shape=Shape(nodes=1, cpus_per_node=1),
        ops=(),
        expect=Expect(),
        limits=Limits(),
    )
    told: list[FinishedRun] = []
    quiet = Console(quiet=True)
    harness = Harness(folder, quiet, folder, backend, SystemClock(), run_listener=told.append)
    directory = create_run(folder, "run", plan, {})
    with pytest.raises(KeyboardInterrupt):
        harness._execute(plan, directory, None)
    return directory, told


def test_a_run_that_is_broken_off_is_told_and_has_its_report(tmp_path: Path) -> None:
    directory, told = executed(tmp_path, Idle(breaks=True))

    assert [run.verdict.status for run in told] == ["inconclusive"]
    assert (directory.path / "report.html").is_file()


def test_an_interruption_while_a_run_is_judged_costs_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = iter([KeyboardInterrupt])

    def broken_off_once(run: FinishedRun) -> Any:
        for kind in _taken(first):
            raise kind
        return render_run(run)

    monkeypatch.setattr(chaos.harness, "render_run", broken_off_once)

    directory, told = executed(tmp_path, Idle())

    assert len(told) == 1
    assert (directory.path / "report.html").is_file()


def _taken(kinds: Iterator[type[BaseException]]) -> list[type[BaseException]]:
    return list(kinds)
