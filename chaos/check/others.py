"""Checks of other packages: entry points of the group `chaos.checks`."""

import inspect
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from chaos.model.verdict import CheckResult, Verdict
from chaos.registered import CHECKS_GROUP, Registered, Registry, read_registry

_NAME = re.compile(r"[a-z][a-z0-9-]*")


@dataclass(frozen=True)
class Others:
    """The checks of other packages that judge here.

    `missing` are those that judged the run before and are not installed, with their packages.
    """

    installed: tuple[Registered, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)

    def after(self, earlier: Verdict | None) -> "Others":
        """Give them for a run that was judged before: whoever judged then is not forgotten."""
        here = {check.name for check in self.installed}
        judged = () if earlier is None else earlier.results
        missing = {r.check: r.package for r in judged if r.package and r.check not in here}
        return Others(self.installed, missing)

    def not_told(self) -> tuple[CheckResult, ...]:
        """Give a result for each that is missing: what it would say is unknown."""
        return tuple(
            CheckResult(
                check=name,
                validity="unknown",
                summary=f"{name} is of the package {package}, which is not installed here",
                evidence=0,
                package=package,
            )
            for name, package in self.missing.items()
        )


def registered_checks(*, taken: Collection[str]) -> Registry:
    """Give the checks that other packages have registered; `taken` are the names of chaos's own."""
    return read_registry(
        CHECKS_GROUP, shape=_NAME, taken=taken, flaw=lambda *found: next(_flaws(*found), None)
    )


def _flaws(name: str, what: Any) -> Iterator[str]:  # noqa: ANN401 - anything
    """Say what keeps something from being a check, most basic first."""
    own = getattr(what, "NAME", None)
    if own != name:
        yield f"it is to be a module whose NAME is {name!r}, and NAME is {own!r}"
    check = getattr(what, "check", None)
    if not callable(check) or len(inspect.signature(check).parameters) != 1:
        yield "it has no function check(trial)"
    if not what.__doc__ or not getattr(check, "__doc__", None):
        yield "it and its check need docstrings for `chaos explain`"
