"""The severity of a broken promise, which decides what a person does about it."""

from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

# wrong result: model, data or steps.
# work lost: a resume threw away saved work, and all is the baseline's in the end.
# not reproducible: only random streams differ, so the result is statistically the same.
# cosmetic: only what is shown or logged differs.
# latent: a promise is broken, and every result is the baseline's; it never fails a run.
Severity: TypeAlias = Literal["wrong result", "work lost", "not reproducible", "cosmetic", "latent"]

SEVERITIES: tuple[Severity, ...] = get_args(Severity)


def find_worst_severity(severities: Iterable[Severity]) -> Severity | None:
    """Return the gravest of some severities, None of none."""
    return min(severities, key=SEVERITIES.index, default=None)
