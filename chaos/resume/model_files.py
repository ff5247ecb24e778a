"""The files of a job in which its model is, known by the norms of the numbers in them."""

import math
import re
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator
from operator import itemgetter
from pathlib import PurePath

from chaos.model.event import FileSaved, StateSeen
from chaos.model.places import AttemptRank
from chaos.resume.files import RunFiles, mask_path_numbers

ROUNDING = 5e-7  # of a norm in 32 bits: some units in its last place


def find_model_files(files: RunFiles) -> Iterator[tuple[str, bool]]:
    """Yield the names of files in which the model is, and whether it is all that is in it."""
    models = _ModelNorms(files)
    names = {save.event_number: save.final_path for save in files.saves}
    for number, saved_file in files.history.select_events(FileSaved):
        groups = _group_norms(saved_file)
        if number in names and any(
            models.is_model(norms, number, saved_file) for norms in groups.values()
        ):
            is_alone = models.is_model(groups[""], number, saved_file)
            yield mask_path_numbers(PurePath(names[number]).name), is_alone


class _ModelNorms:
    """The norms of a job's models, as they were seen at places between its steps."""

    def __init__(self, files: RunFiles) -> None:
        self._norms = set[str]()
        self._norms_by_rank = defaultdict[AttemptRank, list[tuple[int, list[float]]]](list)
        for number, state in files.history.select_events(StateSeen):
            model_parts = (p for p in state.components if p.name.startswith("model"))
            sizes = [float(part.size) for part in model_parts if part.size]
            self._norms |= set(map(_round_norm, sizes))
            self._norms_by_rank[AttemptRank(state.attempt, state.rank)].append((number, sizes))

    def is_model(self, sizes: list[float], number: int, saved_file: FileSaved) -> bool:
        """Return whether numbers of a file, by the norms of their parts, are a model's."""
        norm = math.hypot(*sizes)
        if _round_norm(norm) in self._norms:
            return True
        # That of several parts is rounded elsewhere than the model's own. So near, only the states
        # just before and after the save are compared: a run has many.
        snapshots = self._norms_by_rank[AttemptRank(saved_file.attempt, saved_file.rank)]
        index = bisect(snapshots, number, key=itemgetter(0))
        nearby_norms = (
            size
            for _, model_norms in snapshots[max(0, index - 1) : index + 1]
            for size in model_norms
        )
        return len(sizes) > 1 and any(
            math.isclose(norm, size, rel_tol=ROUNDING) for size in nearby_norms
        )


def _group_norms(saved: FileSaved) -> dict[str, list[float]]:
    """Return the norms of a file's parts: each, those whose names begin alike, and all, as ``."""
    # A file of arrays alone has the model's and the optimizer's side by side, as `net/0.weight`.
    groups = defaultdict[str, list[float]](list)
    for part in saved.parts:
        if part.kind == "numbers" and part.size is not None:
            for name in {"", re.split(r"[./]", part.name)[0] + "/", part.name}:
                groups[name].append(float(part.size))
    return groups


def _round_norm(norm: float) -> str:
    return f"{norm:.9g}"
