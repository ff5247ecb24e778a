"""Fault-tolerance and spot-preemption testing for Ray Train and PyTorch.

Input is a scenario file. chaos injects faults into a real training job at exact places in training.
The result is a verdict with its evidence.

The names for tests (`chaos.scenario`, `chaos.kill_worker` and the other faults, `chaos.plans`,
`chaos.Result`) are imported at their first use: a training script that calls `chaos.declare` pays
for none of it.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from chaos.declared import declare

if TYPE_CHECKING:
    from chaos.pytest_plugin.decorator import scenario as scenario
    from chaos.pytest_plugin.result import Result as Result
    from chaos.scenario_file.faults import *  # noqa: F403 - whatever faults there are
    from chaos.search.plans import plans as plans

__version__ = "0.1.0"

__all__ = ["__version__", "declare"]

_ELSEWHERE = {
    "scenario": "chaos.pytest_plugin.decorator",
    "Result": "chaos.pytest_plugin.result",
    "plans": "chaos.search.plans",
}


def __getattr__(name: str) -> object:
    if name in _ELSEWHERE:
        return getattr(import_module(_ELSEWHERE[name]), name)
    private = name.startswith("_")
    faults = {} if private else import_module("chaos.scenario_file.from_python").BY_NAME
    if name not in faults:
        raise AttributeError(f"module 'chaos' has no attribute {name!r}")
    return faults[name]
