"""Fault-tolerance and spot-preemption testing for Ray Train and PyTorch.

Input is a scenario file. chaos injects faults into a real training job at exact places in training.
The result is a verdict with its evidence.

For programs and notebooks: `chaos.audit("train.py")` and `chaos.run("x.chaos.yaml")`. For tests:
`chaos.scenario`, `chaos.kill_worker` and the other faults, `chaos.plans`. All but `chaos.declare`
is imported at its first use: a training script that calls that pays for none of it.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from chaos.declaration import declare

if TYPE_CHECKING:
    from chaos.api import audit as audit
    from chaos.api import run as run
    from chaos.audit.result import AuditResult as AuditResult
    from chaos.extensions.guard.process import guard as guard
    from chaos.extensions.lab.search.plans import plans as plans
    from chaos.extensions.pytest_plugin.decorator import scenario as scenario
    from chaos.report.result import Result as Result
    from chaos.scenario_file.faults import *  # noqa: F403 - whatever faults there are

__version__ = "0.1.0"

__all__ = ["AuditResult", "Result", "__version__", "audit", "declare", "guard", "run", "scenario"]

_LAZY_MODULES = {
    "AuditResult": "chaos.audit.result",
    "Result": "chaos.report.result",
    "plans": "chaos.extensions.lab.search.plans",
    "scenario": "chaos.extensions.pytest_plugin.decorator",
}
#: Packages that are called: `chaos.audit(…)` is a function, and `chaos.audit.card` a module.
_CALLABLE_PACKAGES = ("audit", "guard", "run")


def __getattr__(name: str) -> object:
    if name in _CALLABLE_PACKAGES:
        return _import_module(f"chaos.{name}")
    if name in _LAZY_MODULES:
        return getattr(_import_module(_LAZY_MODULES[name]), name)
    faults = {} if name.startswith("_") else _load_faults()
    if name not in faults:
        raise AttributeError(f"module 'chaos' has no attribute {name!r}")
    return faults[name]


def __dir__() -> list[str]:
    return sorted({*__all__, *_LAZY_MODULES, *_load_faults()})


def _load_faults() -> dict[str, object]:
    faults: dict[str, object] = _import_module("chaos.scenario_file.from_python").BY_NAME
    return faults
