"""Scenarios of test functions: those of decorated ones, and those that `chaos_run` is given."""

import os
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import ChaosError, UsageError
from chaos.extensions.pytest_plugin.options import JOB_MARK, SCENARIO, SCENARIO_MARK
from chaos.extensions.pytest_plugin.result import build_run_error, require_expected
from chaos.extensions.pytest_plugin.runs import find_runs, tag_item
from chaos.harness import check_expected_names
from chaos.model.plan import Plan
from chaos.model.scenario import Scenario
from chaos.other_packages import require_usable_extensions
from chaos.plan.make import build_slug
from chaos.report.result import Result
from chaos.run.display_path import format_path
from chaos.scenario_file.from_python import build_scenario, train_loop_name
from chaos.scenario_file.load import load_scenario


def attach_scenarios(collector: pytest.Collector, items: Sequence[pytest.Function]) -> None:
    """Read the scenario of a decorated function's tests; a mistake is an error of collection."""
    for item in items:
        mark = item.get_closest_marker(SCENARIO_MARK)
        assert mark is not None
        try:
            scenario = build_test_scenario(item, mark.kwargs)
        except ChaosError as error:
            raise collector.CollectError(str(error)) from None
        item.stash[SCENARIO] = scenario
        tag_item(item, build_test_plan(item, scenario, seed=0))


def build_test_scenario(item: pytest.Item, keywords: Mapping[str, Any]) -> Scenario:
    """Return the scenario of a test; keys that it leaves out are taken from `chaos_job` marks."""
    require_usable_extensions()
    value: dict[str, Any] = {}
    for mark in reversed([*item.iter_markers(JOB_MARK)]):  # the closest mark overrides the others
        value |= mark.kwargs
    value |= {
        key: option_value for key, option_value in keywords.items() if option_value is not None
    }
    line = (item.location[1] or 0) + 1
    path = Path(format_path(item.path))
    if callable(value.get("faults")):
        value["faults"] = _build_faults(value["faults"], item, location=f"{path}:{line}")
    name = value.pop("name", None) or _find_docstring_line(item) or item.name
    scenario = build_scenario(value, name=name, path=path, line=line)
    check_expected_names(path, scenario, line=line)
    return scenario


def _build_faults(build: Callable[..., Any], item: pytest.Item, *, location: str) -> Any:
    """Return the faults that a function makes of the parameters of a test.

    Raises `UsageError` where the function needs a parameter that the test does not have.
    """
    callspec = getattr(item, "callspec", None)
    test_parameters = {} if callspec is None else callspec.params
    parameters = signature(build).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        values = test_parameters
    else:
        names = [parameter.name for parameter in parameters]
        values = {name: test_parameters[name] for name in names if name in test_parameters}
    missing_names = [
        parameter.name
        for parameter in parameters
        if parameter.name not in values
        and parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    ]
    if missing_names:
        problem = f"the function in faults needs {', '.join(missing_names)}"
        hint = f"The parameters of the test are: {', '.join(test_parameters) or 'none'}."
        raise UsageError(problem, hint, location=location)
    return build(**values)


def build_test_plan(item: pytest.Item, scenario: Scenario, *, seed: int) -> Plan:
    """Return the plan of a test's scenario; its folder is named after the test."""
    plan = find_runs(item.config).build_plan(scenario, file=item.path, seed=seed)
    name = build_slug(Path(f"{item.path.stem}-{item.name.partition('[')[0]}"))
    return plan.replace(slug=name)


def run_decorated(item: pytest.Item, seed: int) -> Result:
    """Run the scenario of a decorated test."""
    if SCENARIO not in item.stash:
        raise pytest.UsageError("chaos_result is for functions decorated with @chaos.scenario")
    return find_runs(item.config).execute(
        item, build_test_plan(item, item.stash[SCENARIO], seed=seed)
    )


def _find_docstring_line(item: pytest.Item) -> str:
    words = (getattr(getattr(item, "obj", None), "__doc__", None) or "").strip()
    return words.partition("\n")[0].rstrip(".")


class RunScenario:
    """The runner of scenarios for one test."""

    def __init__(self, item: pytest.Item, seed: int) -> None:
        self._item = item
        self._seed = seed

    def __call__(
        self,
        source: str | os.PathLike[str] | Scenario | Plan | None = None,
        *,
        seed: int | None = None,
        check: bool = True,
        **keywords: Any,
    ) -> Result:
        """Run a scenario file, a `Scenario`, a `Plan`, or a scenario of keywords.

        The keywords are those of `@chaos.scenario`. Fails the test unless the
        verdict is the one that the scenario expects; with `check=False` it returns the result
        whatever it is (`result.failed`).
        """
        __tracebackhide__ = True
        if (source is None) == (not keywords):
            raise TypeError("chaos_run takes a scenario, or the keywords that describe one")
        try:
            plan = self._build_plan(source, self._seed if seed is None else seed, keywords)
        except UsageError as error:
            raise build_run_error(error) from None
        result = find_runs(self._item.config).execute(self._item, plan)
        if check:
            require_expected(result)
        return result

    def _build_plan(
        self,
        source: str | os.PathLike[str] | Scenario | Plan | None,
        seed: int,
        keywords: dict[str, Any],
    ) -> Plan:
        require_usable_extensions()
        if isinstance(source, Plan):
            return source
        if isinstance(source, Scenario):
            return build_test_plan(self._item, source, seed=seed)
        if source is None:
            if keywords.get("train_loop") is not None:
                keywords["train_loop"] = train_loop_name(keywords["train_loop"])
            return build_test_plan(self._item, build_test_scenario(self._item, keywords), seed=seed)
        file = self._item.path.parent / source
        scenario = load_scenario(Path(format_path(file)))
        check_expected_names(file, scenario)
        return find_runs(self._item.config).build_plan(scenario, file=file, seed=seed)
