"""What two clean runs say about a job in passing, before anything is done to it."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal

from chaos.audit.extent import Extent
from chaos.check.result import plural
from chaos.record import Record

# 2026-11-21, 20261121, 1763690000 (seconds since 1970), or the head of a UUID
_STAMP = re.compile(r"20\d\d[-_.]?[01]\d[-_.]?[0-3]\d|\b1[5-9]\d{8}\b|[0-9a-f]{8}-[0-9a-f]{4}-")


class Note(Record):
    """One thing worth knowing; a `warning` will cost somebody work or money."""

    kind: Literal["warning", "note"]
    text: str


def notes(
    extent: Extent,
    *,
    names: Sequence[str],
    paths: Sequence[str] = (),
    habits: Iterable[str] = (),
) -> tuple[Note, ...]:
    """Give what the extent and the settings show.

    `names` and `paths` are the clean runs' own run names and storage paths; `habits` what
    they do with their data.
    """
    warnings = (Note(kind="warning", text=text) for text in _warnings(extent))
    remarks = (*_remarks(extent, names, paths), *habits)
    return (*warnings, *(Note(kind="note", text=text) for text in remarks))


def _warnings(extent: Extent) -> Iterator[str]:
    if not extent.has_checkpoints and not extent.saves:
        yield (
            "the job saves no checkpoint that could be seen, for Ray or with `torch.save`: every "
            "fault costs all the training before it, and long training on machines that disappear "
            "may never end"
        )
    if extent.has_checkpoints and not extent.asks:
        yield (
            "the job saves checkpoints and asks for none: no rank called "
            "`ray.train.get_checkpoint()`; unless it finds its files by itself, every restart "
            "begins anew"
        )
    if not extent.sees:
        yield (
            "no loss, no state and no metric but a counter was seen: a restart that goes wrong "
            "would not be noticed; report a metric of the model, such as its loss"
        )
    if extent.own("max_failures") == 0:
        yield (
            "`max_failures` is 0, Ray Train's default: as it is written, the first worker that "
            "dies ends the job; set FailureConfig(max_failures=...)"
        )
    if extent.own("max_preemption_failures") == 0:
        yield (
            "`max_preemption_failures` is 0: as it is written, the first machine that is taken "
            "back after a notice ends the job; left out it is -1, without limit"
        )


def _remarks(extent: Extent, names: Sequence[str], paths: Sequence[str]) -> Iterator[str]:
    if extent.saves and not extent.has_checkpoints:
        yield (
            "the job reports no checkpoint to Ray, and keeps files of its own: what a fault costs "
            "depends on what it reads back from them"
        )
    if extent.uploaders == (0,) and len(extent.ranks) > 1:
        others = plural(len(extent.ranks) - 1, "other rank")
        yield (
            f"only rank 0 uploads: what the {others} drew, such as random numbers, is in the "
            "checkpoint only if rank 0 gathers it from them"
        )
    score, kept = extent.own("checkpoint_score_attribute"), extent.own("num_to_keep")
    if score is not None and kept is not None:
        # Ray 2.60: the newest checkpoint is never deleted, so its own restarts find it.
        yield (
            f"the best by `{score}` of all checkpoints are kept ({kept}), and the newest until "
            "the next is there: whoever goes on from the best one goes further back than Ray does"
        )
    unsaved = len(extent.epochs) - len(extent.saved)
    if extent.has_checkpoints and unsaved:
        yield f"{unsaved} of {plural(len(extent.epochs), 'report')} carried no checkpoint"
    if paths and (len(set(paths)) > 1 or _STAMP.search(paths[0])):
        yield (
            f"the storage path changes at every start (`{paths[0]}`): a script that is started "
            "again does not find the checkpoints of its earlier run"
        )
    if names and (len(set(names)) > 1 or _STAMP.search(names[0])):
        yield (
            f"the run name changes at every start (`{names[0]}`): a script that is started again "
            "does not find the checkpoints of its earlier run"
        )
