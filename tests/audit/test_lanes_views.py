"""A pass in a lane's view counts; what did not pass there is run again without one."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chaos.audit import audit
from chaos.audit.audit import SiteChoice
from chaos.audit.baseline_runs import CleanResult
from chaos.audit.budget import Budget
from chaos.audit.card import Card
from chaos.audit.lanes import open_view_lanes
from chaos.errors import HarnessError, NoViewError
from chaos.model import event as ev
from chaos.model.history import Baseline, History, JournalEntry
from chaos.model.plan import Plan
from tests.audit.backend import Defect, FakeBackend, audit_of, loses_momentum, misses_the_strike
from tests.check.parts import KILLED
from tests.check.story import Story
from tests.check.tamper import told

FEW = SiteChoice(limit=4)
SAVED = ev.WroteOutside(path="/d/last.pt", operation="created", removed=True, after_fit=False)
Open = Callable[..., list[FakeBackend]]


@dataclass
class SharingBackend(FakeBackend):
    """The job saves by an absolute path."""

    struck: list[Plan] = field(default_factory=list)

    def history(self, plan: Plan) -> History:
        if plan.ops:
            self.struck.append(plan)
        entries = list(super().history(plan))
        saved = JournalEntry(time_ns=entries[-1].time_ns, source="h", seq=10**6, event=SAVED)
        return History([*entries, saved])


def card_of(
    folder: Path, patch: pytest.MonkeyPatch, apart: Open, *, budget: Budget, defect: Defect | None
) -> tuple[Card, SharingBackend]:
    folder.mkdir(exist_ok=True)
    patch.setattr(audit, "open_view_lanes", apart)
    backend = SharingBackend(defect=defect)
    fields: dict[str, Any] = {"choice": FEW, "budget": budget, "searches_causes": False}
    return audit_of(folder, backend, count_lanes=lambda _: 2, **fields).run(), backend


def views_of(defect: Defect | None) -> tuple[list[SharingBackend], Open]:
    lanes = [SharingBackend(defect=defect), SharingBackend(defect=defect)]
    return lanes, lambda *_: list[FakeBackend](lanes)


def no_views(*_: object) -> list[FakeBackend]:
    raise NoViewError("the kernel refuses it")


def numbers(card: Card) -> list[int]:
    return sorted({run.number for run in card.runs})


def breaks_off(_: Story, history: History) -> History:
    """Fail as a lane does whose view is gone."""
    del history
    raise HarnessError("the process that holds a lane's view is gone")


BUDGETS = [Budget(), Budget(runs=5)]


@pytest.mark.parametrize("budget", BUDGETS, ids=["all", "few"])
@pytest.mark.parametrize("defect", [loses_momentum, misses_the_strike, breaks_off])
def test_what_a_view_alone_makes_wrong_is_run_again_and_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: Budget, defect: Defect
) -> None:
    lanes, apart = views_of(defect)

    card, plain = card_of(tmp_path, monkeypatch, apart, budget=budget, defect=None)

    assert card.broken == 0
    assert {run.status for run in card.runs} == {"pass"}
    counted = len(plain.struck) + sum(len(lane.struck) for lane in lanes)
    assert 1 <= counted - len(numbers(card)) <= 3  # in each lane, and one that was taken by then
    assert numbers(card) == list(range(len(numbers(card))))


@pytest.mark.parametrize("budget", BUDGETS, ids=["all", "few"])
def test_what_passes_in_views_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: Budget
) -> None:
    lanes, apart = views_of(None)

    card, plain = card_of(tmp_path, monkeypatch, apart, budget=budget, defect=None)

    assert card.broken == 0
    assert plain.struck == []
    assert sum(len(lane.struck) for lane in lanes) == len(numbers(card))


@pytest.mark.parametrize("budget", BUDGETS, ids=["all", "few"])
def test_a_wrong_job_has_the_findings_of_one_lane(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, budget: Budget
) -> None:
    how: dict[str, Any] = {"budget": budget, "defect": loses_momentum}
    _, apart = views_of(loses_momentum)

    here, plain = card_of(tmp_path / "views", monkeypatch, apart, **how)
    alone, _ = card_of(tmp_path / "alone", monkeypatch, no_views, **how)

    assert [found.defect for found in here.findings] == [found.defect for found in alone.findings]
    assert here.broken > 0
    wrong = {run.number for run in here.runs if run.is_wrong}
    assert len(wrong) <= len(plain.struck)  # each of them was wrong without a view


def test_why_there_are_no_views_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    card, plain = card_of(tmp_path, monkeypatch, no_views, budget=Budget(runs=2), defect=None)

    said = [note.text for note in card.notes if "runs go one at a time" in note.text]
    assert [text.rpartition(": ")[2] for text in said] == ["the kernel refuses it"]
    assert plain.lanes == 1


def renamed(path: str, to: str) -> ev.FileRenamed:
    return ev.FileRenamed(attempt=0, rank=0, epoch=0, step=6, path=path, to=to)


@pytest.mark.parametrize(
    ("seen", "backend", "why"),
    [
        (SAVED, "torchrun", "started anew"),
        (
            ev.WroteOutside(path="s3://b/k", operation="created", removed=True, after_fit=False),
            "fork",
            "bucket",
        ),
        (
            ev.WroteOutside(path="/new/k", operation="created", removed=True, after_fit=False),
            "fork",
            "in /",
        ),
        (renamed("/elsewhere/half.pt", "{d}/last.pt"), "fork", "one file system"),
    ],
)
def test_a_job_whose_lanes_cannot_be_kept_apart_has_one(
    tmp_path: Path, seen: Any, backend: str, why: str
) -> None:
    inside = ev.WroteOutside(
        path=f"{tmp_path}/k", operation="created", removed=True, after_fit=False
    )
    if isinstance(seen, ev.FileRenamed):
        seen = renamed(seen.path, seen.to.format(d=tmp_path))
    baseline = Baseline([told(KILLED.baseline(), inside, seen)])
    plan = KILLED.plan().model_copy(update={"backend": backend})
    clean: Any = CleanResult.__new__(CleanResult)
    clean.__dict__.update(baseline=baseline, plan=plan)

    with ExitStack() as stack, pytest.raises(NoViewError, match=why):
        open_view_lanes(stack, FakeBackend(), clean, tmp_path / "audit", 2)
