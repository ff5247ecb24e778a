"""A scenario file as a test file: one test for each seed."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import ChaosError, ScenarioError
from chaos.extensions.pytest_plugin.options import Option
from chaos.extensions.pytest_plugin.result import require_expected
from chaos.extensions.pytest_plugin.runs import find_runs, tag_item
from chaos.harness import check_expected_names
from chaos.model.plan import Plan
from chaos.model.scenario import Scenario
from chaos.other_packages import require_usable_extensions
from chaos.report.result import Result
from chaos.scenario_file.load import load_scenario


class ScenarioFile(pytest.File):
    """A `*.chaos.yaml`; one with a mistake is an error of collection, with its lines."""

    def collect(self) -> "Iterator[ScenarioItem]":
        path = Path(os.path.relpath(self.path))
        require_usable_extensions()
        scenario = load_scenario(path)
        check_expected_names(path, scenario)
        for seed in self.config.getoption(Option.SEEDS.dest):
            plan = find_runs(self.config).build_plan(scenario, file=self.path, seed=seed)
            item = ScenarioItem.from_parent(self, name=f"seed-{seed}", plan=plan)
            tag_item(item, plan)
            self._add_marks(item, scenario, path)
            yield item

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the mistakes in the file, with their lines."""
        del style  # the only way of a collector to show it
        if isinstance(excinfo.value, ChaosError):
            return str(excinfo.value)
        return super().repr_failure(excinfo)

    def _add_marks(self, item: "ScenarioItem", scenario: Scenario, path: Path) -> None:
        for mark in scenario.marks:
            try:
                item.add_marker(mark)
            except pytest.fail.Exception:  # with --strict-markers
                lines = self.path.read_text(encoding="utf-8").splitlines()
                line = next(
                    (number for number, text in enumerate(lines, 1) if text.startswith("marks")), 1
                )
                hint = "Add it to `markers` in pytest's configuration."
                raise ScenarioError(path, line, f"pytest knows no mark {mark!r}", hint) from None


class ScenarioItem(pytest.Item):
    """One scenario with one seed. The run is its setup, so an inconclusive one is an error."""

    def __init__(self, *, plan: Plan, **rest: Any) -> None:
        super().__init__(**rest)
        self.plan = plan
        self._result: Result | None = None

    def setup(self) -> None:
        if not self.config.getoption("setupplan", default=False):
            self._result = find_runs(self.config).execute(self, self.plan)

    def runtest(self) -> None:
        """Raise unless the verdict is the one that the scenario expects."""
        assert self._result is not None
        require_expected(self._result)

    def teardown(self) -> None:
        """Drop the result, whose history takes memory."""
        self._result = None

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the file, line and name above a failure."""
        return self.path, 0, f"{self.plan.scenario} (seed {self.plan.seed})"
