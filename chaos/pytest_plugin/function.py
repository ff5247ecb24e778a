"""Scenarios of test functions: those of decorated ones, and those that `chaos_run` is given."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import ChaosError, UsageError
from chaos.extensions import refuse_unusable
from chaos.harness import refuse_unknown_check
from chaos.model.plan import Plan
from chaos.model.scenario import Scenario
from chaos.plan.make import slug
from chaos.pytest_plugin.options import JOB_MARK, SCENARIO, SCENARIO_MARK
from chaos.pytest_plugin.result import could_not_run, require_expected
from chaos.pytest_plugin.runs import runs_of, tag
from chaos.report.result import Result
from chaos.run.shown import shown
from chaos.scenario_file.from_python import scenario_of, train_loop_name
from chaos.scenario_file.load import load_scenario


def prepare(collector: pytest.Collector, items: Sequence[pytest.Function]) -> None:
    """Read the scenario of a decorated function's tests; a mistake is an error of collection."""
    for item in items:
        mark = item.get_closest_marker(SCENARIO_MARK)
        assert mark is not None
        try:
            scenario = scenario_for(item, mark.kwargs)
        except ChaosError as error:
            raise collector.CollectError(str(error)) from None
        item.stash[SCENARIO] = scenario
        tag(item, plan_for(item, scenario, seed=0))


def scenario_for(item: pytest.Item, given: Mapping[str, Any]) -> Scenario:
    """Return the scenario of a test; keys that it leaves out are taken from `chaos_job` marks."""
    refuse_unusable()
    value: dict[str, Any] = {}
    for mark in reversed([*item.iter_markers(JOB_MARK)]):  # the closest mark overrides the others
        value |= mark.kwargs
    value |= {key: what for key, what in given.items() if what is not None}
    name = value.pop("name", None) or _first_line(item) or item.name
    line = (item.location[1] or 0) + 1
    path = Path(shown(item.path))
    scenario = scenario_of(value, name=name, path=path, line=line)
    refuse_unknown_check(path, scenario, line=line)
    return scenario


def plan_for(item: pytest.Item, scenario: Scenario, *, seed: int) -> Plan:
    """Return the plan of a test's scenario; its folder is named after the test."""
    plan = runs_of(item.config).plan(scenario, file=item.path, seed=seed)
    name = slug(Path(f"{item.path.stem}-{item.name.partition('[')[0]}"))
    return plan.model_copy(update={"slug": name})


def run_decorated(item: pytest.Item, seed: int) -> Result:
    """Run the scenario of a decorated test."""
    if SCENARIO not in item.stash:
        raise pytest.UsageError("chaos_result is for functions decorated with @chaos.scenario")
    return runs_of(item.config).execute(item, plan_for(item, item.stash[SCENARIO], seed=seed))


def _first_line(item: pytest.Item) -> str:
    words = (getattr(getattr(item, "obj", None), "__doc__", None) or "").strip()
    return words.partition("\n")[0].rstrip(".")


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
