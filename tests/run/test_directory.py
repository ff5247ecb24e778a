"""A run's folder holds what the run rests on before anything is done."""

import os
from pathlib import Path

import pytest

from chaos.errors import HistoryError, UsageError
from chaos.model.expect import Expect
from chaos.model.history import Baseline
from chaos.model.plan import Plan, Shape
from chaos.model.scenario import Job, Limits
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory, create_run, ensure_reports_folder
from chaos.run.journal import Journal, read_history


def plan_of(file: Path) -> Plan:
    return Plan(
        scenario="s",
        slug="s",
        file=str(file),
        seed=3,
        cwd="/",
        job=Job(script="/job.py", workers=2),
        shape=Shape(nodes=3, cpus_per_node=1),
        ops=(),
        expect=Expect(),
        limits=Limits(),
    )


def test_plan_environment_and_scenario_are_saved_first(tmp_path: Path) -> None:
    scenario = tmp_path / "s.chaos.yaml"
    scenario.write_text("scenario: s\n")
    plan = plan_of(scenario)

    directory = create_run(tmp_path / "reports", "3-now", plan, {"versions": {"ray": "2.60.0"}})

    kept = directory.load_plan()
    assert kept.token is not None
    assert kept.model_copy(update={"token": None, "digest": None}) == plan
    assert directory.load_env() == {"versions": {"ray": "2.60.0"}}
    assert (directory.path / "scenario.yaml").read_text() == "scenario: s\n"


def test_a_name_that_is_taken_gets_a_suffix(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "s.chaos.yaml")

    names = [create_run(tmp_path, "run", plan, {}).path.name for _ in range(3)]

    assert names == ["run", "run-2", "run-3"]


def test_reports_that_cannot_be_written_are_the_callers_to_put_right(tmp_path: Path) -> None:
    (tmp_path / "reports").write_text("a file where a folder should be")

    with pytest.raises(UsageError, match="--reports"):
        create_run(tmp_path / "reports", "run", plan_of(tmp_path / "s.chaos.yaml"), {})


def test_a_folder_of_reports_that_is_made_is_marked_and_ignored_by_git(tmp_path: Path) -> None:
    reports = tmp_path / "new" / "reports"

    assert ensure_reports_folder(reports, "suites") == reports / "suites"
    assert ensure_reports_folder(reports, "audits") == reports / "audits"

    assert {path.name for path in reports.iterdir()} == {"CHAOSDIR.TAG", ".gitignore"}
    assert (reports / ".gitignore").read_text() == "*\n"


def test_files_of_the_user_are_ignored_by_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = tmp_path / "reports" / "mine.txt"
    mine.parent.mkdir()
    mine.touch()
    here = tmp_path / "empty"
    here.mkdir()
    monkeypatch.chdir(here)

    ensure_reports_folder(mine.parent, "suites")
    ensure_reports_folder(Path(), "suites")

    assert {path.name for path in mine.parent.iterdir()} == {"CHAOSDIR.TAG", "mine.txt"}
    assert list(here.iterdir()) == []


def test_every_run_has_a_token_of_its_own(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "s.chaos.yaml")
    first = create_run(tmp_path, "run", plan, {}).load_plan()
    again = create_run(tmp_path, "run", first, {}).load_plan()  # as a replay does

    assert None not in {first.token, again.token}
    assert first.token != again.token


def test_a_plan_names_the_baselines_that_lie_beside_it(tmp_path: Path) -> None:
    plan = plan_of(tmp_path / "s.chaos.yaml")
    clean = [create_run(tmp_path, "clean", plan, {}) for _ in range(2)]
    for directory in clean:
        Journal(directory.journals, "harness", role="harness", clock=SystemClock()).close()
    run = create_run(tmp_path, "run", plan, {})

    run.save_baseline(Baseline([read_history(directory.journals) for directory in clean]))

    assert run.load_plan().baselines == tuple(d.load_plan().token for d in clean)
    kept = run.load_baseline()
    assert kept is not None
    assert [set(one.tokens) for one in kept.runs] == [{t} for t in run.load_plan().baselines]


DEEP = "[" * 100_000


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"version": 2}', '{"version": 1, "seed": "x"}', DEEP, f'{{"ops": {DEEP}']
)
def test_a_corrupt_plan_names_its_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)

    with pytest.raises(HistoryError, match=r"plan\.json: not a plan"):
        RunDirectory(tmp_path).load_plan()


def test_an_environment_that_cannot_be_read_is_empty(tmp_path: Path) -> None:
    (tmp_path / "env.json").write_text(DEEP)

    assert RunDirectory(tmp_path).load_env() == {}


def test_a_folder_that_is_no_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="Give the directory of a run"):
        RunDirectory(tmp_path).load_plan()


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    RunDirectory(tmp_path).write("verdict.json", "{}")

    assert os.listdir(tmp_path) == ["verdict.json"]  # noqa: PTH208 - names are the claim
