"""CI reads the code alone: a mistake of ours or of the caller must not look like a verdict."""

import sys
from pathlib import Path
from typing import Any

import pytest

from chaos import cli


def code_of(monkeypatch: pytest.MonkeyPatch, *words: str) -> Any:
    monkeypatch.setattr(sys, "argv", ["chaos", *words])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    return ended.value.code


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--version"], 0),
        (["schema"], 0),
        (["run", "--nope"], 3),
        (["run"], 3),
        (["nope"], 3),
        (["run", "there/is/no/such/folder"], 3),
        (["check", "there/is/no/such/run"], 3),
        (["replay", "there/is/no/such/run"], 3),
        (["selftest", "--only", "Z99"], 3),
    ],
)
def test_the_code_says_whose_move_it_is(
    monkeypatch: pytest.MonkeyPatch, words: list[str], code: int
) -> None:
    assert code_of(monkeypatch, *words) == code


def test_a_defect_of_ours_is_not_a_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(cli, "json_schema", broken)

    assert code_of(monkeypatch, "schema") == 4
    assert "chaos itself failed" in capsys.readouterr().err


def test_an_unknown_key_is_answered_with_its_line_and_the_nearest_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "x.chaos.yaml"
    file.write_text(
        "scenario: s\njob: {script: x.py, workers: 1}\n"
        "faults:\n  - at: {epoch: 0, step: 1}\n    kill_wroker: {}\n"
    )
    (tmp_path / "x.py").write_text("")

    assert code_of(monkeypatch, "run", str(file)) == 3
    said = capsys.readouterr().err
    assert "x.chaos.yaml:5: unknown key 'kill_wroker'" in said
    assert "Did you mean kill_worker?" in said


def test_a_check_that_does_not_exist_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = tmp_path / "x.chaos.yaml"
    file.write_text(
        "scenario: s\njob: {script: x.py, workers: 1}\n"
        "expect:\n  verdict: invalid\n  check: trajektory\n"
    )
    (tmp_path / "x.py").write_text("")

    assert code_of(monkeypatch, "run", str(file)) == 3
    assert "x.chaos.yaml:5: there is no check 'trajektory'" in capsys.readouterr().err
