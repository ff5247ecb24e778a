"""CI reads the code alone: a mistake of ours or of the caller must not look like a verdict."""

import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.cli import commands as cli
from chaos.cli import schema
from chaos.installation import build_install_command
from tests.needs import needs_extension


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
        (["rejudge", "there/is/no/such/run"], 3),
        (["replay", "there/is/no/such/run"], 3),
        pytest.param(["selftest", "--only", "Z99"], 3, marks=needs_extension("lab")),
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

    monkeypatch.setattr(schema, "build_json_schema", broken)

    assert code_of(monkeypatch, "schema") == 4
    assert "internal error" in capsys.readouterr().err


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
        "expect:\n  verdict: fail\n  check: trajektory\n"
    )
    (tmp_path / "x.py").write_text("")

    assert code_of(monkeypatch, "run", str(file)) == 3
    text = capsys.readouterr().err
    assert "x.chaos.yaml:5: there is no" in text
    assert "is no check 'trajektory'" in text


def scenario_in(folder: Path, cluster: str = "") -> Path:
    file = folder / "x.chaos.yaml"
    file.write_text(
        "scenario: s\njob: {script: x.py, workers: 1}\nfaults:\n"
        f"  - at: {{epoch: 1, step: 1}}\n    kill_worker: {{}}\n{cluster}"
    )
    (folder / "x.py").write_text("")
    return file


@needs_extension("cluster")
def test_nothing_happens_to_another_cluster_that_was_not_named_twice(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = scenario_in(tmp_path)

    assert code_of(monkeypatch, "run", str(file), "--address", "10.9.9.9:6379") == 3
    said = capsys.readouterr().err
    assert "chaos did not start the cluster at 10.9.9.9:6379" in said
    assert "`--allow-faults-on 10.9.9.9:6379` allows them" in said


@needs_extension("cluster")
def test_an_address_on_the_command_line_wins_over_the_files(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    file = scenario_in(tmp_path, 'cluster: {address: "10.1.1.1:6379"}\n')
    words = ["--address", "10.9.9.9:6379", "--allow-faults-on", "10.1.1.1:6379"]

    assert code_of(monkeypatch, "run", str(file), *words) == 3
    said = capsys.readouterr().err
    assert "allowed on 10.1.1.1:6379, and the scenario's cluster is 10.9.9.9:6379" in said


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--address", "auto"], "--address auto is no address"),
        (["--address", "ray://h:1"], "is no address"),
        (["--storage", "/mnt"], "--storage goes with --address"),
        (["--reclaim-by", "local"], "--reclaim-by goes with --address"),
        (["--address", "h:1", "--reclaim-by", "kubernets:jobs"], "did you mean kubernetes?"),
        (["--address", "h:1", "--backend", "fork"], "--address goes with `--backend ray`"),
    ],
)
def test_options_that_contradict_each_other_are_refused(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    words: list[str],
    problem: str,
) -> None:
    assert code_of(monkeypatch, "run", str(scenario_in(tmp_path)), *words) == 3
    assert problem in capsys.readouterr().err


@needs_extension("cluster")
def test_a_platform_without_its_client_is_named_with_the_extra_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "kubernetes", None)
    file = scenario_in(tmp_path, 'cluster: {address: "h:1", reclaim_by: "kubernetes:jobs"}\n')
    words = ["--allow-faults-on", "h:1", "--reports", str(tmp_path / "reports")]

    assert code_of(monkeypatch, "run", str(file), *words) == 3
    assert build_install_command("reclaim-kubernetes") in capsys.readouterr().err
    assert not (tmp_path / "reports").exists()


@needs_extension("cluster")
def test_a_dry_run_of_a_cluster_that_does_not_answer_is_the_callers_to_put_right(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    words = ["--address", "127.0.0.1:1", "--dry-run"]

    assert code_of(monkeypatch, "run", str(scenario_in(tmp_path)), *words) == 3
    assert "no Ray cluster answers at 127.0.0.1:1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("needs", "fault", "words"),
    [
        (
            "env: {KEY: k}, needs_env: [KEY, STORE]",
            "kill_worker",
            "needs STORE in the environment",
        ),
        (
            "needs_modules: [json, no_such_module]",
            "kill_worker",
            "needs no_such_module, and that is not installed",
        ),
        ("needs_backend: ray", "kill_controller", "on the backend `ray` alone"),
    ],
)
def test_a_job_without_what_it_needs_is_skipped_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    needs: str,
    fault: str,
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STORE", raising=False)
    file = tmp_path / "x.chaos.yaml"
    file.write_text(
        f"scenario: s\njob: {{script: x.py, workers: 1, {needs}}}\n"
        f"faults:\n  - at: {{epoch: 0, step: 1}}\n    {fault}: {{}}\n"
    )
    (tmp_path / "x.py").write_text("raise AssertionError\n")

    assert code_of(monkeypatch, "run", str(file), "--backend", "fork") == 2
    assert words in " ".join(capsys.readouterr().out.split())


def test_a_trial_is_refused_where_no_experiment_can_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x.py").write_text("raise AssertionError\n")
    file = tmp_path / "x.chaos.yaml"
    file.write_text(
        "scenario: s\njob: {script: x.py, workers: 1, trial: 0}\n"
        "faults:\n  - at: {epoch: 0, step: 1}\n    kill_worker: {}\n"
    )

    assert code_of(monkeypatch, "run", str(file), "--backend", "fork") == 3
    assert "x.chaos.yaml:2: job.trial names a trial" in " ".join(capsys.readouterr().out.split())


def test_the_mistakes_of_all_files_of_a_folder_are_said_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name, key in (("a", "wrokers"), ("b", "workers"), ("c", "scirpt")):
        text = f"scenario: s\njob:\n  script: x.py\n  {key}: 1\n"
        (tmp_path / f"{name}.chaos.yaml").write_text(text)

    assert code_of(monkeypatch, "run", str(tmp_path), "--backend", "fork", "-k", "s") == 3

    said = capsys.readouterr().err
    assert f"{tmp_path}/a.chaos.yaml:4: unknown key 'wrokers'" in said
    assert f"{tmp_path}/c.chaos.yaml:4: unknown key 'scirpt'" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--for", "spto"), "'spto' is not one of 'spot', 'crash'. Did you mean spot?"),
        (("--for", "xyz"), "'xyz' is not one of 'spot', 'crash'.\n"),
        (("--jobs", "0"), "it must be greater than or equal to 1"),
    ],
)
def test_a_wrong_value_is_answered_without_a_librarys_words(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
    said: str,
) -> None:
    assert code_of(monkeypatch, "audit", "train.py", *words) == 3
    error = capsys.readouterr().err
    assert said in error
    assert "Value error" not in error
