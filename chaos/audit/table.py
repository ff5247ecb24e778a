"""The tables of a card: by kind of fault, by group and epoch, by group, and by check."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from chaos.audit.card import Card
from chaos.audit.run_row import RunRow
from chaos.audit.site_category import (
    SITE_CATEGORIES,
    FaultKind,
    SiteCategory,
    find_kind,
    list_kinds,
)
from chaos.check.judge import CHECKS
from chaos.model.diagnosis import Standing

# More epochs than that share columns, in ranges of equal length.
COLUMNS_MAX = 16
WRONG_MAX = 200  # runs that a page tells of one by one
Fate: TypeAlias = Literal[
    "right", "from scratch", "some wrong", "all wrong", "inconclusive", "not tried"
]


@dataclass(frozen=True)
class RunTally:
    """The results of some runs: each run is counted once."""

    right: int = 0
    from_scratch: int = 0
    wrong: int = 0
    inconclusive: int = 0

    @property
    def total(self) -> int:
        return self.right + self.from_scratch + self.wrong + self.inconclusive

    @property
    def fate(self) -> Fate:
        if self.wrong:
            return "all wrong" if self.wrong == self.total else "some wrong"
        if self.inconclusive:
            return "inconclusive"
        if self.right:
            return "right"
        return "from scratch" if self.from_scratch else "not tried"


@dataclass(frozen=True)
class CoverageCell:
    """The places of one group in one epoch, or in a few epochs if there are many."""

    group: SiteCategory
    column: int
    places: int
    tally: RunTally
    #: the first of its runs that came out wrong
    wrong: RunRow | None = None


@dataclass(frozen=True)
class GroupRow:
    """The results of one group, and its recomputed steps; None: no step was seen."""

    group: SiteCategory
    tally: RunTally
    resumed: int
    resumed_right: int
    tried: int
    chosen: int
    places: int
    lost_max: int | None
    lost_mean: float | None
    why_none: str | None


@dataclass(frozen=True)
class KindRow:
    """The results of one kind of fault."""

    kind: FaultKind
    tally: RunTally
    tried: int
    places: int


@dataclass(frozen=True)
class CheckTally:
    """The verdicts of one check by number."""

    check: str
    #: the runs in which it had evidence
    with_evidence: int
    without_evidence: int
    broken: int
    inconclusive: int


@dataclass(frozen=True)
class PartTally:
    """The number of times that a part of the state was restored, over all runs with a resume."""

    component: str
    restored: int
    lost: int
    #: the runs in which it was not restored, and no consequence was seen
    idle: int
    not_compared: int
    standing: Standing

    @property
    def resumes(self) -> int:
        """The number of runs in which it could have been restored."""
        return self.restored + self.lost + self.idle + self.not_compared


def part_rows(card: Card) -> tuple[PartTally, ...]:
    """Return one row per part of the state, as the diagnosis orders them."""
    standings: dict[str, list[tuple[Standing, bool]]] = {}
    for run in card.runs:
        for component, standing in run.parts.items():
            standings.setdefault(component, []).append((standing, component in run.idle))
    return tuple(
        _build_part_row(component, part_standings)
        for component, part_standings in standings.items()
    )


def _build_part_row(component: str, part_standings: Sequence[tuple[Standing, bool]]) -> PartTally:
    unrestored = [row for row in part_standings if row[0] not in ("restored", "not compared")]
    lost_standings = [standing for standing, is_idle in unrestored if not is_idle]
    counted_standings = lost_standings or [standing for standing, _ in unrestored]
    restored_count = sum(standing == "restored" for standing, _ in part_standings)
    default_standing: Standing = "restored" if restored_count else "not compared"
    return PartTally(
        component=component,
        restored=restored_count,
        lost=len(lost_standings),
        not_compared=len(part_standings) - restored_count - len(unrestored),
        standing=Counter(counted_standings).most_common(1)[0][0]
        if counted_standings
        else default_standing,
        idle=len(unrestored) - len(lost_standings),
    )


def label_columns(epochs: int) -> tuple[str, ...]:
    """Return the columns of a table by epoch: each epoch, or ranges of as many as fit."""
    width = _choose_width(epochs)
    labels = []
    for first in range(0, epochs, width):
        last = min(first + width, epochs) - 1
        labels.append(str(first) if first == last else f"{first}-{last}")
    return tuple(labels)


def count_places_by_column(by_epoch: Mapping[int, int], epochs: int) -> tuple[int, ...]:
    """Count places by column."""
    counts, width = [0] * len(label_columns(epochs)), _choose_width(epochs)
    for epoch, places in by_epoch.items():
        counts[epoch // width] += places
    return tuple(counts)


def build_cells(card: Card) -> tuple[CoverageCell, ...]:
    """Return the cells of the table by epoch in which the job has places."""
    width = _find_column_width(card)
    runs_by_cell: dict[tuple[SiteCategory, int], list[RunRow]] = {}
    for run in card.runs:
        runs_by_cell.setdefault((run.group, run.place.epoch // width), []).append(run)
    return tuple(
        CoverageCell(
            group=row.group,
            column=column,
            places=places,
            tally=count_results(runs),
            wrong=next((run for run in runs if run.is_wrong), None),
        )
        for row in card.covered
        for column, places in enumerate(row.by_column)
        if (runs := runs_by_cell.get((row.group, column), [])) or places
    )


def wrong_rows(card: Card) -> tuple[RunRow, ...]:
    """Return the runs that came out wrong, in the order of groups and places.

    Of very many, the first of each group and range of epochs.
    """
    wrong_runs = card.wrong
    if len(wrong_runs) > WRONG_MAX:
        wrong_runs = tuple(cell.wrong for cell in build_cells(card) if cell.wrong is not None)
    return tuple(
        sorted(wrong_runs, key=lambda run: (SITE_CATEGORIES.index(run.group), run.place.order))
    )


def count_results(runs: Sequence[RunRow]) -> RunTally:
    """Count runs by the job's result."""
    return RunTally(
        right=sum(run.is_right and not run.is_from_scratch for run in runs),
        from_scratch=sum(run.is_from_scratch for run in runs),
        wrong=sum(run.is_wrong for run in runs),
        inconclusive=sum(run.status == "inconclusive" for run in runs),
    )


def kind_rows(card: Card) -> tuple[KindRow, ...]:
    """Return one row per kind of fault, also of those that were not tried."""
    rows, facts = [], card.job.facts
    for kind in list_kinds(facts):
        runs = [run for run in card.runs if find_kind(run.group, facts) == kind]
        places = sum(row.places for row in card.covered if find_kind(row.group, facts) == kind)
        rows.append(KindRow(kind, count_results(runs), sum(run.is_tried for run in runs), places))
    return tuple(rows)


def group_rows(card: Card) -> tuple[GroupRow, ...]:
    """Return one row per group, also of those without a place in this job."""
    rows = []
    for covered in card.covered:
        runs = [run for run in card.runs if run.group == covered.group]
        lost_counts = collect_lost_steps(runs)
        rows.append(
            GroupRow(
                group=covered.group,
                tally=count_results(runs),
                resumed=sum(run.resumed for run in runs),
                resumed_right=sum(run.resumed for run in runs if run.is_right),
                tried=covered.tried,
                chosen=covered.chosen,
                places=covered.places,
                lost_max=max(lost_counts, default=None),
                lost_mean=sum(lost_counts) / len(lost_counts) if lost_counts else None,
                why_none=covered.why_none,
            )
        )
    return tuple(rows)


def collect_lost_steps(runs: Sequence[RunRow]) -> list[int]:
    """Return the recomputed steps of each run in which steps are seen."""
    return [run.lost_steps for run in runs if run.lost_steps is not None]


def build_check_rows(card: Card) -> tuple[CheckTally, ...]:
    """Return one row per check, in the order in which they judge; those of other packages last."""
    runs, rows = card.runs, []
    check_names = {name for run in runs for name in (*run.evidence, *run.undecided)}
    check_names |= {defect.check for run in runs for defect in run.defects}
    for name in dict.fromkeys([*(check.NAME for check in CHECKS), *sorted(check_names)]):
        with_evidence = sum(name in run.evidence for run in runs)
        inconclusive = sum(name in run.undecided for run in runs)
        broken = sum(any(defect.check == name for defect in run.defects) for run in runs)
        nothing_due = len(runs) - with_evidence - inconclusive
        rows.append(CheckTally(name, with_evidence, nothing_due, broken, inconclusive))
    return tuple(rows)


def _choose_width(epochs: int) -> int:
    return max(1, -(-epochs // COLUMNS_MAX))


def _find_column_width(card: Card) -> int:
    """Return the number of epochs of a column; only the last column may have fewer."""
    first, _, last = card.columns[0].partition("-")
    return 1 + int(last or first) - int(first)
