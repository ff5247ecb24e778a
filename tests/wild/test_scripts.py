"""The runner of public scripts: its table is read as it stands, and answers as audits give them."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.accepted import expect_text
from tests.wild.prepared import PREPARED
from tests.wild.run import STANDINS, Answer, Asked, cell, lines_of, newest_card, table
from tests.wild.scripts import TABLES, Script, chosen, scripts

BY_TABLE = {name: scripts(file.read_text(encoding="utf-8")) for name, file in TABLES.items()}
ROWS = BY_TABLE["ray"]
ALL = [pytest.param(row, id=f"{name}-{row.number}") for name in TABLES for row in BY_TABLE[name]]
ONE = """
[[scripts]]
number = 1
script = "train.py"
repository = "owner/name"
commit = "0"
path = "train.py"
truth = "never loads"
answers = ["finding"]
"""
CARD: dict[str, Any] = {
    "verdict": {"sentence": "does not survive 2 of 3 places: one cause"},
    "findings": [
        {
            "defect": {"check": "state", "gist": "not restored"},
            "runs": [1, 2],
            "smallest": {"headline": "the momentum is not restored"},
        }
    ],
    "notes": [{"kind": "warning", "text": "`max_failures` is 0"}],
}


def a_script(**changed: Any) -> Script:
    fields = {"repository": "owner/name", "commit": "0", "path": "train.py"}
    judged = {"truth": "never loads", "answers": ("finding",)}
    return Script(**{"number": 1, "script": "train.py", **fields, **judged, **changed})


@pytest.mark.parametrize("name", TABLES)
def test_a_table_has_its_scripts_in_order_each_under_a_name_of_its_own(name: str) -> None:
    rows = BY_TABLE[name]

    assert [row.number for row in rows] == list(range(1, len(rows) + 1))
    assert len({row.script for row in rows}) == len(rows)


@pytest.mark.parametrize("row", ALL)
def test_every_script_has_its_source_its_truth_and_answers_of_a_known_kind(row: Script) -> None:
    assert re.fullmatch(r"[0-9a-f]{40}", row.commit)
    assert re.fullmatch(r"[\w-]+/[\w.-]+", row.repository)
    assert row.truth
    assert row.answers
    assert all(re.match("finding|inconclusive|refused|pass", answer) for answer in row.answers)


@pytest.mark.parametrize("row", ALL)
def test_what_a_script_needs_is_made_here(row: Script) -> None:
    assert set(row.prepared) <= PREPARED.keys()
    assert all((STANDINS / name).is_dir() for name in row.standins)


def test_a_field_that_no_script_has_is_refused_with_the_scripts_number() -> None:
    with pytest.raises(ValueError, match="script 1: truht is no field of a script"):
        scripts(ONE + 'truht = "?"\n')


def test_a_script_without_its_truth_is_refused() -> None:
    with pytest.raises(ValueError, match=r"script 1: .*'truth'"):
        scripts(ONE.replace('truth = "never loads"\n', ""))


def test_only_the_numbers_that_are_listed_are_chosen() -> None:
    assert [row.number for row in chosen(ROWS, "19,6")] == [6, 19]
    assert chosen(ROWS, "") == ROWS


def test_a_number_that_the_table_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match="no script 24"):
        chosen(ROWS, "6,24")


def test_an_audit_has_the_default_settings_unless_options_are_given() -> None:
    script = a_script(arguments=("--epochs", "3"))
    default, other = (Asked(Path("in"), Path("out"), o, 9) for o in ((), ("--max-runs", "1")))

    assert default.command(script)[3:] == [
        *("audit", "in/train.py", "--no-confirm", "--reports", "out/01-train/reports"),
        *("--", "--epochs", "3"),
    ]
    assert other.command(a_script())[-2:] == ["--max-runs", "1"]


def test_what_starts_and_resumes_a_script_stands_in_its_row() -> None:
    script = a_script(options=("--restart-args=--resume {scripts}/last.pt",))

    command = Asked(Path("in"), Path("out"), ("--max-runs", "1"), 9).command(script)

    restart_args = "--resume in/last.pt"
    assert command[-3:] == [f"--restart-args={restart_args}", "--max-runs", "1"]


def test_the_stand_in_for_photographs_runs_the_next_stand_in_on_the_path(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('next')\n", encoding="utf-8")
    paths = os.pathsep.join([str(STANDINS / "small"), str(tmp_path)])

    done = subprocess.run(
        [sys.executable, "-c", ""],
        env={**os.environ, "PYTHONPATH": paths},
        check=True,
        capture_output=True,
        text=True,
    )

    assert done.stdout == "next\n"


def test_an_answer_is_the_verdict_then_findings_then_notes() -> None:
    expect_text("\n".join(lines_of(CARD, "")))


def test_a_severity_stands_before_the_check_that_found_it() -> None:
    finding = {**CARD["findings"][0], "severity": "wrong result"}

    lines = lines_of({**CARD, "findings": [finding]}, "")

    assert lines[1].startswith("wrong result state (2)")


def test_without_a_card_the_answer_is_the_error_that_chaos_gave() -> None:
    output = "clean runs  0/2\nchaos: train.py: needs Ray Data\n"

    assert lines_of(None, output) == (output.splitlines()[-1],)
    assert lines_of(None, "one\nTraceback\n") == ("Traceback",)
    assert lines_of(None, "") == ()


def test_the_newest_card_below_a_folder_is_read(tmp_path: Path) -> None:
    for name, text in (("x-1", '{"of": 1}'), ("x-2", '{"of": 2}')):
        folder = tmp_path / "reports/audits" / name
        folder.mkdir(parents=True)
        (folder / "audit.json").write_text(text, encoding="utf-8")

    assert newest_card(tmp_path) == {"of": 2}
    assert newest_card(tmp_path / "other") is None


def test_a_table_has_the_answer_beside_the_truth_and_judges_nothing() -> None:
    answer = Answer(exit_code=1, seconds=61.7, lines=("fails", "a|b"))

    *_, row = table([(a_script(arguments=("-n", "2")), answer)]).splitlines()

    told = r"| 1 | `train.py -n 2` | 1, 62 s | fails<br>a\|b | never loads | finding |"
    assert row == told


def test_where_a_gpu_is_named_its_stand_in_takes_the_cpu() -> None:
    seen = (
        "import torch; print(torch.device('cuda:1'), torch.zeros(1, device='cuda').device,"
        "torch.zeros(1).to(1).device, torch.nn.Linear(1, 1).to('cuda').weight.device,"
        "torch.cuda.is_available(), isinstance(torch.device('cpu'), torch.device))"
    )
    environment = {**os.environ, "PYTHONPATH": str(STANDINS / "gpu")}

    done = subprocess.run(
        [sys.executable, "-c", seen], env=environment, check=True, capture_output=True, text=True
    )

    assert done.stdout.split() == ["cpu"] * 4 + ["False", "True"]


def test_an_audit_that_had_to_be_ended_says_so() -> None:
    assert "ended by the limit, 9 s" in table([(a_script(), Answer(None, 9, ()))])


def test_a_cell_holds_no_line_break_and_no_bare_bar() -> None:
    assert cell(["one\ntwo", "", "a|b"]) == r"one two<br>a\|b"
