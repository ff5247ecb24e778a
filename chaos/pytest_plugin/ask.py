"""The function `chaos_run`: a scenario that a test runs itself."""

import os
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import UsageError
from chaos.extensions import refuse_unusable
from chaos.harness import refuse_unknown_check
from chaos.model.plan import Plan
from chaos.model.scenario import Scenario
from chaos.pytest_plugin.failure import could_not_run, require_expected
from chaos.pytest_plugin.function import plan_for, scenario_for
from chaos.pytest_plugin.result import Result
from chaos.pytest_plugin.runs import runs_of
from chaos.run.shown import shown
from chaos.scenario_file.from_python import train_loop_name
from chaos.scenario_file.load import load_scenario


class RunScenario:
    """The runner of scenarios for one test."""

    def __init__(self, item: pytest.Item, seed: int) -> None:
        self._item = item
        self._seed = seed

    def __call__(
        self,
        what: str | os.PathLike[str] | Scenario | Plan | None = None,
        *,
        seed: int | None = None,
        **given: Any,
    ) -> Result:
        """Run a scenario file, a `Scenario`, a `Plan`, or a scenario of keywords.

        The keywords are those of `@chaos.scenario`. Fails the test unless the
        verdict is the one that the scenario expects.
        """
        __tracebackhide__ = True
        if (what is None) == (not given):
            raise TypeError("chaos_run takes a scenario, or the keywords that describe one")
        try:
            plan = self._plan(what, self._seed if seed is None else seed, given)
        except UsageError as error:
            raise could_not_run(error) from None
        result = runs_of(self._item.config).execute(self._item, plan)
        require_expected(result)
        return result

    def _plan(
        self,
        what: str | os.PathLike[str] | Scenario | Plan | None,
        seed: int,
        given: dict[str, Any],
    ) -> Plan:
        refuse_unusable()
        if isinstance(what, Plan):
            return what
        if isinstance(what, Scenario):
            return plan_for(self._item, what, seed=seed)
        if what is None:
            if given.get("train_loop") is not None:
                given["train_loop"] = train_loop_name(given["train_loop"])
            return plan_for(self._item, scenario_for(self._item, given), seed=seed)
        file = self._item.path.parent / what
        scenario = load_scenario(Path(shown(file)))
        refuse_unknown_check(file, scenario)
        return runs_of(self._item.config).plan(scenario, file=file, seed=seed)
