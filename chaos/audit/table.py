"""The tables of a card: by group and epoch, by group, and by check."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from chaos.audit.card import Card
from chaos.audit.group import GROUPS, Group
from chaos.audit.struck import StruckRun
from chaos.check.judge import CHECKS
from chaos.model.diagnosis import Standing

COLUMNS_MAX = 16
Fate: TypeAlias = Literal["survived", "some lost", "all lost", "cannot be told"]


@dataclass(frozen=True)
class Cell:
    """The strikes of one group in one epoch, or in a few epochs where there are many."""

    group: Group
    epochs: str
    column: int
    survived: int
    unknown: int
    total: int
    lost_max: int | None

    @property
    def fate(self) -> Fate:
        """What became of the job there."""
        broken = self.total - self.survived - self.unknown
        if broken:
            return "all lost" if broken == self.total else "some lost"
        return "cannot be told" if self.unknown else "survived"


@dataclass(frozen=True)
class GroupRow:
    """What one group came to, and what its faults cost in finished steps; None: not seen."""

    group: Group
    survived: int
    broken: int
    unknown: int
    struck: int
    chosen: int
    places: int
    lost_max: int | None
    lost_mean: float | None
    why_none: str | None


@dataclass(frozen=True)
class CheckRow:
    """How often a check could tell, and what it said; `with_evidence` had something to judge."""

    check: str
    with_evidence: int
    nothing_due: int
    broken: int
    unknown: int


@dataclass(frozen=True)
class PartRow:
    """How often a part of the job's state came back, over all runs with a resume.

    `idle`: it did not, and nothing that was seen depends on it.
    """

    component: str
    restored: int
    lost: int
    idle: int
    not_compared: int
    standing: Standing

    @property
    def resumes(self) -> int:
        """The runs in which it could have come back."""
        return self.restored + self.lost + self.idle + self.not_compared


def part_rows(card: Card) -> tuple[PartRow, ...]:
    """Give one row per part of the state, as the diagnosis orders them."""
    standings: dict[str, list[Standing]] = {}
    idle: Counter[str] = Counter()
    for run in card.runs:
        idle.update(run.idle)
        for component, standing in run.parts.items():
            standings.setdefault(component, []).append(standing)
    return tuple(_part_row(name, found, idle[name]) for name, found in standings.items())


def _part_row(component: str, found: Sequence[Standing], idle: int) -> PartRow:
    lost = [standing for standing in found if standing not in ("restored", "not compared")]
    restored = found.count("restored")
    usual: Standing = "restored" if restored else "not compared"
    return PartRow(
        component=component,
        restored=restored,
        lost=len(lost) - idle,
        idle=idle,
        not_compared=found.count("not compared"),
        standing=Counter(lost).most_common(1)[0][0] if lost else usual,
    )


def columns(card: Card) -> tuple[str, ...]:
    """Give the heat map's columns: each epoch, or ranges of as many as fit."""
    epochs = 1 + max((run.strike.epoch for run in card.runs), default=0)
    width = _width(card)
    labels = []
    for first in range(0, epochs, width):
        last = min(first + width, epochs) - 1
        labels.append(str(first) if first == last else f"{first}-{last}")
    return tuple(labels)


def cells(card: Card) -> tuple[Cell, ...]:
    """Give the cells of the heat map in which something was struck."""
    labels, width = columns(card), _width(card)
    found: dict[tuple[Group, int], list[StruckRun]] = {}
    for run in card.runs:
        found.setdefault((run.group, run.strike.epoch // width), []).append(run)
    return tuple(
        Cell(
            group=group,
            epochs=labels[column],
            column=column,
            survived=sum(run.validity == "valid" for run in runs),
            unknown=sum(run.validity == "unknown" for run in runs),
            total=len(runs),
            lost_max=max(lost_steps(runs), default=None),
        )
        for (group, column), runs in sorted(
            found.items(), key=lambda item: (GROUPS.index(item[0][0]), item[0][1])
        )
    )


def group_rows(card: Card) -> tuple[GroupRow, ...]:
    """Give one row per group, those without a place in this job included."""
    rows = []
    for covered in card.covered:
        runs = [run for run in card.runs if run.group == covered.group]
        lost = lost_steps(runs)
        rows.append(
            GroupRow(
                group=covered.group,
                survived=_count(runs, "valid"),
                broken=_count(runs, "invalid"),
                unknown=_count(runs, "unknown"),
                struck=covered.struck,
                chosen=covered.chosen,
                places=covered.places,
                lost_max=max(lost, default=None),
                lost_mean=sum(lost) / len(lost) if lost else None,
                why_none=covered.why_none,
            )
        )
    return tuple(rows)


def lost_steps(runs: Sequence[StruckRun]) -> list[int]:
    """Give what each run lost, of those in which steps are seen."""
    return [run.lost_steps for run in runs if run.lost_steps is not None]


def check_rows(card: Card) -> tuple[CheckRow, ...]:
    """Give one row per check, in the order in which they judge."""
    rows = []
    for name in _checks(card):
        told = sum(name in run.evidence for run in card.runs)
        unknown = sum(name in run.undecided for run in card.runs)
        broken = sum(any(d.check == name for d in run.defects) for run in card.runs)
        rows.append(CheckRow(name, told, len(card.runs) - told - unknown, broken, unknown))
    return tuple(rows)


def _checks(card: Card) -> dict[str, None]:
    """Give the names of the checks that judged, other packages' after chaos's own."""
    told = (name for run in card.runs for name in (*run.evidence, *run.undecided))
    broken = (defect.check for run in card.runs for defect in run.defects)
    return dict.fromkeys([*(check.NAME for check in CHECKS), *sorted({*told, *broken})])


def _width(card: Card) -> int:
    epochs = 1 + max((run.strike.epoch for run in card.runs), default=0)
    return -(-epochs // COLUMNS_MAX)


def _count(runs: Sequence[StruckRun], validity: str) -> int:
    return sum(run.validity == validity for run in runs)
