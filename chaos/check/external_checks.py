"""Checks of other packages: entry points of the group `chaos.checks`."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from chaos.model.verdict import CheckResult, Verdict
from chaos.registry import RegisteredExtension


@dataclass(frozen=True)
class ExternalChecks:
    """The checks of other packages that judge here."""

    installed: tuple[RegisteredExtension, ...] = ()
    #: those that judged the run before and are not installed, with their packages
    missing: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind_meanings(self) -> dict[str, str]:
        """The meaning of each kind of their findings, as its module says it."""
        return {
            kind: f"{meaning} ({check.package})"
            for check in self.installed
            for kind, meaning in getattr(check.extension, "KINDS", {}).items()
        }

    def add_missing(self, earlier: Verdict | None) -> "ExternalChecks":
        """Return them for a run that was judged before, with the checks that are missing now."""
        installed_names = {check.name for check in self.installed}
        earlier_results = () if earlier is None else earlier.results
        missing = {
            result.check: result.package
            for result in earlier_results
            if result.package and result.check not in installed_names
        }
        return ExternalChecks(self.installed, missing)

    def report_missing(self) -> tuple[CheckResult, ...]:
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
