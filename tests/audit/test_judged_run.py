"""Runs that are judged on the node of their lane: the card and the files are the same."""

import pickle
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chaos.audit.audit import SiteChoice
from chaos.audit.baseline_runs import ExtendableBaseline
from chaos.audit.budget import Budget
from chaos.audit.card import Card
from chaos.errors import JobError
from chaos.model import event as ev
from chaos.model.history import HISTORY, Baseline, History, JournalEntry
from chaos.model.plan import Plan
from chaos.run.directory import VERDICT, RunDirectory, create_run
from chaos.run.ports import Backend, Judge, R, ShowEntries, W
from tests.audit.backend import Defect, FakeBackend, audit_of, loses_momentum
from tests.check.story import Story

FILES = {HISTORY, VERDICT, "plan.json"}


@dataclass
class Node:
    """A lane on a host of its own: what goes there and comes back is copied."""

    backend: FakeBackend
    folder: Path
    judged_runs: int = 0

    def execute(self, plan: Plan, directory: RunDirectory, show: ShowEntries) -> None:
        self.backend.execute(plan, directory, show)

    def close(self) -> None:
        pass

    def execute_and_judge(
        self, directory: RunDirectory, judge: Judge[W, R], baseline: Baseline, words: W
    ) -> R:
        self.judged_runs += 1
        there = create_run(self.folder, "run", directory.load_plan(), {})
        shutil.copy(directory.path / "plan.json", there.path)
        self.backend.execute(there.load_plan(), there, lambda _: None)
        found: R = copied(judge(there, 1.0, copied(baseline), copied(words)))
        for name in (HISTORY, VERDICT):
            shutil.copy(there.path / name, directory.path)
        shutil.copytree(there.logs, directory.logs, dirs_exist_ok=True)
        return found


def copied(what: Any) -> Any:
    return pickle.loads(pickle.dumps(what))


def audited(folder: Path, defect: Defect | None, **fields: Any) -> Card:
    folder.mkdir()
    means = FakeBackend(defect=defect, epochs=2, steps=3)
    return audit_of(
        folder, means, choice=SiteChoice(one_by_one=True), budget=Budget(runs=6), **fields
    ).run()


def spread_over(node: Node) -> Any:
    @contextmanager
    def spread(
        workers: int, places: int, check: Callable[[Backend], None]
    ) -> Iterator[list[Backend]]:
        del workers, places
        check(node)
        yield [node]

    return spread


def facts(card: Card) -> Any:
    """Return what a card says of each run and in all, but for times."""
    rows = [row.model_copy(update={"seconds": 0.0}) for row in card.runs]
    return card.word, card.sentence, rows, [finding.name for finding in card.findings]


def files(folder: Path) -> dict[str, set[str]]:
    return {run.name: {file.name for file in run.iterdir()} for run in folder.rglob("runs/*")}


@pytest.mark.parametrize("defect", [None, loses_momentum])
def test_the_card_and_the_files_are_those_of_an_audit_here(
    defect: Defect | None, tmp_path: Path
) -> None:
    here = audited(tmp_path / "here", defect)
    node = Node(FakeBackend(defect=defect, epochs=2, steps=3), tmp_path / "node")

    there = audited(tmp_path / "there", defect, open_lanes=spread_over(node))

    assert facts(there) == facts(here)
    assert node.judged_runs == len(here.runs)
    assert files(tmp_path / "there") == files(tmp_path / "here")
    assert all(names >= FILES for names in files(tmp_path / "there").values())


def test_a_run_from_there_is_judged_anew_here_once_the_baseline_was_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = audited(tmp_path / "here", loses_momentum)
    node = Node(FakeBackend(defect=loses_momentum, epochs=2, steps=3), tmp_path / "node")
    monkeypatch.setattr("chaos.audit.judged_run.needs_extended_baseline", lambda _: True)
    monkeypatch.setattr(ExtendableBaseline, "extend_baseline", lambda *_: True)

    there = audited(tmp_path / "there", loses_momentum, open_lanes=spread_over(node))

    assert facts(there) == facts(here)


def test_a_job_that_was_kept_from_harm_there_ends_the_audit(tmp_path: Path) -> None:
    node = Node(FakeBackend(defect=harms, epochs=2, steps=3), tmp_path / "node")

    with pytest.raises(JobError, match="/data/mine"):
        audited(tmp_path / "there", None, open_lanes=spread_over(node))
    assert [*(tmp_path / "there").glob("**/runs/*/history.jsonl")]


def harms(_: Story, history: History) -> History:
    last = history[-1]
    what = ev.WroteOutside(path="/data/mine", operation="refused", removed=False, after_fit=False)
    return History([*history, JournalEntry(time_ns=last.time_ns, source="d", seq=1, event=what)])


def test_a_history_travels_without_what_was_computed_of_it() -> None:
    entry = JournalEntry(
        time_ns=1, source="d", seq=0, event=ev.FitReturned(metrics={}, checkpoint=None)
    )
    baseline = Baseline([History([entry], torn=["a"]), History([entry])])
    baseline.compute_once("table", lambda: lambda: None)
    assert baseline.count(ev.FitReturned) == 1

    copy = copied(baseline)

    assert (copy.entries, copy.torn) == (baseline.entries, baseline.torn)
    assert [*copy.repeats[0]] == [entry]
    assert copy.count(ev.FitReturned) == 1
    assert copy.compute_once("table", lambda: 2) == 2
