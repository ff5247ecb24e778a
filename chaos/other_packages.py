"""The extensions of chaos by other packages in this process, found at their first use.

Only the edge uses this module (the command line, the pytest plugin, the harness); the core gets the
result as an argument.
"""

from functools import cache

from chaos.check.external_checks import ExternalChecks
from chaos.check.judge import CHECKS
from chaos.check.prose.registry import list_entries
from chaos.errors import UsageError
from chaos.model.fault_entry import REGISTERED
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.plugins import load_registered_checks
from chaos.registry import Registry


@cache
def _load_checks() -> Registry:
    return load_registered_checks(taken_names=[check.NAME for check in CHECKS])


def load_external_checks() -> ExternalChecks:
    """Return the checks of other packages."""
    return ExternalChecks(_load_checks().usable)


def list_check_names() -> list[str]:
    """Return the names of all checks, chaos's own first."""
    return [*(check.NAME for check in CHECKS), *_load_checks().packages]


def list_finding_kinds() -> list[str]:
    """Return the kinds of findings of all checks, chaos's own first."""
    return [*(entry.kind for entry in list_entries()), *load_external_checks().kind_meanings]


def require_usable_extensions() -> None:
    """Raise `UsageError` where a package registers an extension that cannot be used."""
    registries = (REGISTERED, _load_checks(), LAUNCHER_FACTS.load_foreign())
    unusable = [entry for registry in registries for entry in registry.unusable]
    if unusable:
        hint = "Mend the package or uninstall it; nothing is run or judged beside it."
        raise UsageError("\n".join(map(str, unusable)), hint)
