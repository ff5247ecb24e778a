"""A self-test from its cases to its rows, on a backend that only tells stories."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.audit.folder import AuditFolder
from chaos.errors import HarnessError
from chaos.extensions.lab.selftest.catalogue import EXHIBITS, Variant
from chaos.extensions.lab.selftest.runs import JudgedTrial, SelftestRunner, TrialCase
from chaos.faults.kill_worker import KillWorker
from chaos.harness import rejudge_run
from chaos.model.history import History
from chaos.model.plan import Op, Plan
from chaos.model.trigger import AtStep
from tests.audit.backend import ENV, Defect, FakeBackend, Ticking, loses_momentum

VARIANT = Variant(epochs=4, steps_per_epoch=5, cadence=2, seed=0, batch_size=8, optimizer="sgd")


class Teller(FakeBackend):
    """Tells of the job that the plan's arguments describe; of a control never the defect."""

    def history(self, plan: Plan) -> History:
        args = plan.job.args
        assert isinstance(args, dict)
        defect: Defect | None = None if plan.scenario.startswith("N") else self.defect
        told = replace(
            FakeBackend(defect=defect), epochs=args["epochs"], steps=args["steps_per_epoch"]
        )
        return told.history(plan)


def case(name: str, *epochs: int) -> TrialCase:
    strikes = tuple(
        (Op(index=0, at=AtStep(epoch=e, step=2, rank=1), kill_worker=KillWorker()),) for e in epochs
    )
    return TrialCase(next(e for e in EXHIBITS if e.id == name), VARIANT, strikes)


def trials(folder: Path, told: list[tuple[int, JudgedTrial]] | None = None) -> SelftestRunner:
    shown: list[tuple[int, JudgedTrial]] = [] if told is None else told
    return SelftestRunner(
        AuditFolder(folder / "selftest", ENV),
        folder,
        Ticking(),
        "fork",
        lambda done, row: shown.append((done, row)),
    )


def words(rows: Sequence[JudgedTrial]) -> list[tuple[str, int]]:
    return [(row.exhibit, row.ops[0].at.epoch) for row in rows]


def test_rows_come_in_the_order_of_the_cases_whichever_lane_ran_them(tmp_path: Path) -> None:
    told: list[tuple[int, JudgedTrial]] = []
    lanes = [Teller(defect=loses_momentum), Teller(defect=loses_momentum)]

    rows = trials(tmp_path, told).run([case("Z07", 1, 2), case("N01", 2), case("Z11", 3)], lanes)

    assert words(rows) == [("Z07", 1), ("Z07", 2), ("N01", 2), ("Z11", 3)]
    assert [row.number for row in rows] == [0, 1, 2, 3]
    assert [done for done, _ in told] == [1, 2, 3, 4]
    assert [row.status for row in rows] == ["fail", "fail", "pass", "fail"]


def test_a_case_is_run_clean_once_and_then_struck(tmp_path: Path) -> None:
    backend = Teller()

    trials(tmp_path).run([case("N01", 1, 2, 3)], [backend])

    assert [len(plan.ops) for plan in backend.plans] == [0, 1, 1, 1]


def test_of_a_run_that_is_as_it_should_be_nothing_stays(tmp_path: Path) -> None:
    (row,) = trials(tmp_path).run([case("N01", 2)], [Teller()])

    assert row.folder is None
    assert not list((tmp_path / "selftest" / "runs").iterdir())


def test_a_missed_bug_stays_and_can_be_judged_and_replayed_by_its_folder(tmp_path: Path) -> None:
    silent = Teller()  # nothing is wrong with what it tells, so the bug is not found

    (row,) = trials(tmp_path).run([case("Z07", 2)], [silent])

    assert row.is_miss
    assert row.folder is not None
    again = rejudge_run(Path(row.folder))
    assert again.plan.model_copy(update={"token": None, "digest": None}) == silent.plans[-1]
    assert again.baseline is not None
    assert again.verdict.status == "pass"


def test_a_job_that_is_not_laid_out_as_the_catalogue_says_is_our_mistake(tmp_path: Path) -> None:
    longer = replace(case("N04", 1), variant=VARIANT.model_copy(update={"epochs": 8}))

    with pytest.raises(HarnessError, match="N04 reports after"):
        trials(tmp_path).run([longer], [Teller()])
