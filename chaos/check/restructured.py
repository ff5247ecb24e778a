"""The structure of a model that is another after a resume, by the names of its parameters."""

from collections.abc import Sequence

from chaos.check.analysis import RunAnalysis
from chaos.check.state_at_resume import Row
from chaos.model.event import ParametersNamed
from chaos.model.history import History
from chaos.words import plural

_TIED = " = "
_SHOWN = 3


def structure_words(analysis: RunAnalysis, row: Row) -> str:
    """Return in words which parameters a model has after a resume, and which it had."""
    ours = _names(analysis.history, row.attempt, row.rank)
    due = _names(analysis.counterpart, 0, row.rank)
    gone, new = sorted(due - ours), sorted(ours - due)
    for tied in gone:
        names = tied.split(_TIED)
        if len(names) > 1 and set(names) <= set(new):
            return (
                f"{' and '.join(f'`{name}`' for name in names)} were one parameter, and are "
                f"{len(names)} now: tie them again after the checkpoint is loaded"
            )
    if gone or new:
        changed = [f"without {_few(gone)}"] if gone else []
        changed += [f"with {_few(new)}"] if new else []
        return f"it trains {plural(len(ours), 'parameter')}, {' and '.join(changed)}"
    count = (0 if part is None else part.count for part in (row.ours, row.due))
    here, there = (plural(each, "parameter") for each in count)
    return f"it trains {here} (in the baseline {there}), of other shapes or types"


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(f"`{name}`" for name in names[:_SHOWN]) + more


def _names(history: History | None, attempt: int, rank: int) -> frozenset[str]:
    records = () if history is None else history.of(ParametersNamed)
    found = (e.names for _, e in records if (e.attempt, e.rank) == (attempt, rank))
    return frozenset(next(found, ()))
