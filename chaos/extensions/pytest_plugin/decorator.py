"""The decorator `@chaos.scenario`: a test function with a run to make claims about."""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter, signature
from typing import Any, TypeAlias

import pytest

from chaos.extensions.pytest_plugin.options import SCENARIO_MARK
from chaos.extensions.pytest_plugin.result import require_expected
from chaos.model.draws import Lifetimes
from chaos.model.expect import Expect
from chaos.model.fault_entry import FaultEntry
from chaos.model.launcher import Launcher
from chaos.model.launcher_facts import Restart
from chaos.model.plan import BackendName
from chaos.model.scenario import ClusterShape, Dependency, FailureBudget, Limits, Retention, Tier
from chaos.model.watch import Watch
from chaos.report.result import Result
from chaos.scenario_file.from_python import train_loop_name

Test: TypeAlias = Callable[..., object]
Keys: TypeAlias = Mapping[str, Any]


def scenario(  # noqa: PLR0913 - one for each key of a scenario
    *,
    script: str | os.PathLike[str] | None = None,
    module: str | None = None,
    launcher: Launcher | None = None,
    train_loop: str | Callable[..., object] | None = None,
    args: Keys | Sequence[str | int | float] | None = None,
    workers: int | None = None,
    faults: Sequence[FaultEntry | Keys] | Callable[..., Sequence[FaultEntry | Keys]] = (),
    lifetimes: Lifetimes | Keys | None = None,
    expect: Expect | Keys | None = None,
    min_workers: int | None = None,
    failure: FailureBudget | Keys | None = None,
    restart: Restart | None = None,
    restart_args: Keys | Sequence[str | int | float] | None = None,
    checkpoint: Retention | Keys | None = None,
    env: Mapping[str, str] | None = None,
    needs_env: Sequence[str] = (),
    needs_modules: Sequence[str] = (),
    needs_backend: BackendName | None = None,
    inputs: Sequence[str | os.PathLike[str]] | None = None,
    then: Mapping[Dependency, str] | None = None,
    array_task: int | None = None,
    trial: int | None = None,
    fit: int | None = None,
    epoch_metric: str | None = None,
    epoch_steps: int | None = None,
    cluster: ClusterShape | Keys | None = None,
    storage: Mapping[str, Tier] | None = None,
    watch: Watch | Keys | None = None,
    limits: Limits | Keys | None = None,
    name: str | None = None,
) -> Callable[[Test], Test]:
    """Run a job with faults before the test, which may take the run's result as `result`.

    The keywords are the keys of a scenario file and of its `job`; paths are
    relative to the test's file. `name` is the scenario's sentence, by default the
    first line of the test's docstring. Keys that are left out here may be set by a
    `pytest.mark.chaos_job(...)` of the function, class or module.

    `faults` may be a function: it is called with those parameters of a parametrized test that it
    names, and returns the faults.

    The test fails, and is not called, if the verdict is not the one that `expect`
    names, by default `pass`. An inconclusive run is an error.

        @chaos.scenario(script="train.py", workers=2, faults=[kill_worker(epoch=2, step=5)])
        def test_survives(result):
            assert result.lost_steps <= 8
    """
    keywords = {key: value for key, value in locals().items() if value not in (None, ())}
    if train_loop is not None:
        keywords["train_loop"] = train_loop_name(train_loop)
    return functools.partial(_wrap_test, keywords=keywords)


def _wrap_test(test: Test, *, keywords: Keys) -> Test:
    """Return the test as pytest is to call it: with a run's result, if that is as expected."""
    takes_result = "result" in signature(test).parameters

    @functools.wraps(test)
    def run_test(*args: object, chaos_result: Result, **fixtures: object) -> object:
        __tracebackhide__ = True
        require_expected(chaos_result)
        return test(*args, **fixtures, **({"result": chaos_result} if takes_result else {}))

    # For pytest: the test's own parameters, with the fixture `chaos_result` in place of `result`.
    own_parameters = [
        parameter for name, parameter in signature(test).parameters.items() if name != "result"
    ]
    result_parameter = Parameter("chaos_result", Parameter.KEYWORD_ONLY)
    run_test.__signature__ = signature(test).replace(parameters=[*own_parameters, result_parameter])  # type: ignore[attr-defined]
    marked_test: Test = getattr(pytest.mark, SCENARIO_MARK)(**keywords)(run_test)
    return marked_test
