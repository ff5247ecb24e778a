"""The extensions of chaos by other packages in this process, found at their first use.

Only the edge uses this module (the command line, the pytest plugin, the harness); the core gets the
result as an argument.
"""

from functools import cache

from chaos.check.judge import CHECKS
from chaos.check.others import Others
from chaos.errors import UsageError
from chaos.model.fault_entry import REGISTERED
from chaos.plugins import Registry, registered_checks


@cache
def _checks() -> Registry:
    return registered_checks(taken=[check.NAME for check in CHECKS])


def other_checks() -> Others:
    """Return the checks of other packages."""
    return Others(_checks().usable)


def check_names() -> list[str]:
    """Return the names of all checks, chaos's own first."""
    return [*(check.NAME for check in CHECKS), *_checks().packages]


def refuse_unusable() -> None:
    """Raise `UsageError` where a package registers an extension that cannot be used."""
    unusable = [*REGISTERED.unusable, *_checks().unusable]
    if unusable:
        hint = "Mend the package or uninstall it; nothing is run or judged beside it."
        raise UsageError("\n".join(map(str, unusable)), hint)
