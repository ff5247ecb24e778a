"""What the runs come to: counts, exit code, and how it is told."""

import io
import json

from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from chaos.extensions.lab.selftest.catalogue import EXHIBITS, CatalogueJob
from chaos.extensions.lab.selftest.runs import JudgedTrial, is_bug_named
from chaos.extensions.lab.selftest.score import Score, format_progress, render_score
from chaos.faults.kill_worker import KillWorker
from chaos.model.expect import VerdictStatus
from chaos.model.plan import Op
from chaos.model.trigger import AtStep
from chaos.model.verdict import Anomaly, CheckResult
from tests.accepted import expect_text

OP = Op(index=0, at=AtStep(epoch=1, step=2, rank=1), kill_worker=KillWorker())


def exhibit(name: str) -> CatalogueJob:
    return next(e for e in EXHIBITS if e.id == name)


def row(
    name: str,
    status: VerdictStatus,
    *,
    number: int = 0,
    landed: bool = True,
    revealing: bool | None = None,
    first: str | None = None,
    named: bool = False,
) -> JudgedTrial:
    control = exhibit(name).is_control
    return JudgedTrial(
        number=number,
        exhibit=name,
        is_control=control,
        ops=(OP,),
        landed=landed,
        revealing=landed and not control if revealing is None else revealing,
        status=status,
        first=first,
        named=named,
        headline="Rank 1 was killed; and so on.",
        seconds=0.5,
        folder="reports/selftests/0-20261121T000000/runs/0",
    )


CAUGHT = row("Z07", "fail", first="state", named=True)
SILENT = row("N01", "pass")


def score(*rows: JudgedTrial) -> Score:
    names = {row.exhibit for row in rows}
    return Score(0, "fork", tuple(e for e in EXHIBITS if e.id in names), rows, 1.0)


def shown(of: Score) -> str:
    console = Console(file=io.StringIO(), width=80)
    console.print(render_score(of))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def broken(check: str, message: str = "") -> CheckResult:
    return CheckResult(
        check=check,
        status="fail",
        summary="",
        evidence=1,
        anomalies=(Anomaly(message=message),),
    )


def test_a_bug_caught_and_a_silent_control_are_good() -> None:
    good = score(CAUGHT, SILENT)

    assert good.exit_code == 0
    assert "✓ 1 of 1 bugs caught wherever they show" in shown(good)


def test_a_bug_missed_is_bad_and_listed_with_its_replay() -> None:
    bad = score(CAUGHT, row("Z07", "pass", number=1), SILENT)

    assert bad.exit_code == 1
    assert bad.total_bug_score.detection_rate.count == 1
    assert bad.total_bug_score.revealing_count == 2
    text = shown(bad)
    assert "Z07, kill_worker (SIGKILL) at" in text
    assert "at epoch 1, step 2, rank 1" in text
    assert "replay reports/selftests/" in shown(bad)


def test_a_bug_that_cannot_be_told_was_missed() -> None:
    assert score(row("Z07", "inconclusive")).exit_code == 1


def test_a_strike_that_cannot_show_the_bug_counts_neither_way() -> None:
    masked = row("Z07", "pass", revealing=False)

    assert score(CAUGHT, masked).exit_code == 0
    assert score(CAUGHT, masked).total_bug_score.revealing_count == 1


def test_a_bug_that_no_strike_showed_was_not_tried() -> None:
    assert score(row("Z07", "pass", revealing=False), SILENT).exit_code == 2


def test_a_right_job_blamed_is_bad() -> None:
    bad = score(CAUGHT, row("N01", "fail", first="leftovers"))

    assert bad.exit_code == 1
    assert bad.false_alarm_rate.count == 1
    assert "false alarm: N01" in shown(bad)


def test_a_right_job_not_shown_to_be_right_is_not_good() -> None:
    open_ = score(CAUGHT, SILENT, row("N01", "inconclusive", landed=False))

    assert open_.exit_code == 2
    assert open_.false_alarm_rate.total == 1
    assert "undecided: N01" in shown(open_)


def test_a_wrong_name_is_told_and_does_not_fail_the_test() -> None:
    misnamed = score(row("Z07", "fail", first="trajectory"), SILENT)

    assert misnamed.exit_code == 0
    assert "misnamed trajectory: Z07" in shown(misnamed)
    assert "misnamed: Z07" in shown(misnamed)
    assert misnamed.total_bug_score.naming_rate.count == 0


def test_a_name_is_right_where_check_and_part_are() -> None:
    bug = exhibit("Z07")

    for message, is_right in (
        ("rank 0: optimizer.exp_avg is reset", True),
        ("`optimizer.momentum_buffer`: reset", True),
        ("rank 0: optimizer.exp_avg_sq is reset", False),
    ):
        assert is_bug_named(bug, broken("state", message)) is is_right
    assert not is_bug_named(bug, broken("state", "rank 0: rng.torch is reset"))
    assert not is_bug_named(bug, broken("trajectory", "optimizer.exp_avg"))
    assert is_bug_named(exhibit("Z15"), broken("sample-order"))
    message = "rank 0: declared.ema is not what it was"
    assert is_bug_named(exhibit("Z13"), broken("state", message))


def test_what_machines_are_told_is_what_people_are_told() -> None:
    told = json.loads(score(CAUGHT, SILENT, row("Z07", "pass")).to_json())

    assert told["exit_code"] == 1
    assert told["bugs"]["Z07"]["detected"]["count"] == 1
    assert told["bugs"]["Z07"]["detected"]["of"] == 2
    assert told["false_alarms"]["count"] == 0
    assert [run["status"] for run in told["runs"]] == ["fail", "pass", "pass"]


rows = st.builds(
    row,
    st.sampled_from([e.id for e in EXHIBITS]),
    st.sampled_from(["pass", "fail", "inconclusive"]),
    landed=st.booleans(),
    first=st.sampled_from([None, "trajectory", "sample-order"]),
    named=st.booleans(),
)


@given(st.lists(rows, min_size=1))
def test_every_score_fits_80_columns_and_green_means_nothing_wrong(of: list[JudgedTrial]) -> None:
    one = score(*of)

    assert all(len(text) <= 80 for text in shown(one).splitlines())
    wrong = any(r.is_miss or r.is_false_alarm for r in of)
    assert (one.exit_code == 1) == wrong
    assert (f"{one.false_alarm_rate.count} of") in shown(one) or not one.controls


def test_progress_says_what_came_of_the_last_run() -> None:
    text = format_progress(3, 9, row("Z07", "pass")).plain

    expect_text(text)
    assert text.endswith("(missed)")
