"""Checks of other packages: entry points of the group `chaos.checks`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.model.verdict import CheckResult, Verdict
from chaos.plugins import Registered


@dataclass(frozen=True)
class Others:
    """The checks of other packages that judge here."""

    installed: tuple[Registered, ...] = ()
    #: those that judged the run before and are not installed, with their packages
    missing: Mapping[str, str] = field(default_factory=dict)

    def after(self, earlier: Verdict | None) -> "Others":
        """Return them for a run that was judged before, with the checks that are missing now."""
        here = {check.name for check in self.installed}
        judged = () if earlier is None else earlier.results
        missing = {r.check: r.package for r in judged if r.package and r.check not in here}
        return Others(self.installed, missing)

    def not_told(self) -> tuple[CheckResult, ...]:
        """Return an inconclusive result for each that is missing."""
        return tuple(
            CheckResult(
                check=name,
                status="inconclusive",
                summary=f"{name} is of the package {package}, which is not installed here",
                evidence=0,
                package=package,
            )
            for name, package in self.missing.items()
        )
