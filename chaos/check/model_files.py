"""The files of a job in which its model is, known by the norms of the numbers in them."""

import math
import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter
from pathlib import PurePath

from chaos.check.analysis import RunTables
from chaos.check.files import series_of
from chaos.model.event import FileSaved, StateSeen
from chaos.model.places import AttemptRank

ROUNDING = 5e-7  # of a norm in 32 bits: some units in its last place


def files_with_model(tables: RunTables) -> Iterator[tuple[str, bool]]:
    """Yield the names of files in which the model is, and whether it is all that is in it."""
    models = _Models(tables)
    names = {save.number: save.name for save in tables.files.saves}
    for number, saved in tables.history.of(FileSaved):
        groups = _numbers_of(saved)
        if number in names and any(models.are_in(of, number, saved) for of in groups.values()):
            is_alone = models.are_in(groups[""], number, saved)
            yield series_of(PurePath(names[number]).name), is_alone


class _Models:
    """The norms of a job's models, as they were seen at places between its steps."""

    def __init__(self, tables: RunTables) -> None:
        self._norms = set[str]()
        self._seen = defaultdict[AttemptRank, list[tuple[int, list[float]]]](list)
        for number, seen in tables.history.of(StateSeen):
            models = (p for p in seen.components if p.name.startswith("model"))
            sizes = [float(part.size) for part in models if part.size]
            self._norms |= set(map(_rounded, sizes))
            self._seen[AttemptRank(seen.attempt, seen.rank)].append((number, sizes))

    def are_in(self, sizes: list[float], number: int, saved: FileSaved) -> bool:
        """Return whether numbers of a file, by the norms of their parts, are a model's."""
        norm = math.hypot(*sizes)
        if _rounded(norm) in self._norms:
            return True
        # That of several parts is rounded elsewhere than the model's own. So near, only the states
        # just before and after the save are compared: a run has many.
        seen = self._seen[AttemptRank(saved.attempt, saved.rank)]
        at = bisect(seen, number, key=itemgetter(0))
        near = (size for _, of in seen[max(0, at - 1) : at + 1] for size in of)
        return len(sizes) > 1 and any(math.isclose(norm, size, rel_tol=ROUNDING) for size in near)


def _numbers_of(saved: FileSaved) -> dict[str, list[float]]:
    """Return the norms of a file's parts: each, those whose names begin alike, and all, as ``."""
    # A file of arrays alone has the model's and the optimizer's side by side, as `net/0.weight`.
    groups = defaultdict[str, list[float]](list)
    for part in saved.parts:
        if part.kind == "numbers" and part.size is not None:
            for name in {"", re.split(r"[./]", part.name)[0] + "/", part.name}:
                groups[name].append(float(part.size))
    return groups


def _rounded(norm: float) -> str:
    return f"{norm:.9g}"
