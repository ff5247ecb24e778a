"""What pytest is told of scenarios before anything runs: names, marks, seeds, mistakes."""

from pathlib import Path

import pytest

import chaos.extensions.pytest_plugin.decorator
import chaos.extensions.pytest_plugin.file  # noqa: F401
from tests.extensions.pytest_plugin.collection import FIRST, GOOD, LARGER, collected, names
from tests.extensions.pytest_plugin.conftest import PLUGIN, ROOT, project

pytest_plugins = ["pytester"]


def test_a_file_is_one_test_for_each_seed(pytester: pytest.Pytester) -> None:
    files = {"good.chaos.yaml": GOOD, "test_first.py": FIRST}

    assert names(collected(pytester, files)) == [
        "good.chaos.yaml::seed-0",
        "test_first.py::test_killed",
        "test_first.py::TestLarger::test_raises[1]",
        "test_first.py::TestLarger::test_raises[2]",
    ]
    assert names(collected(pytester, files, "--chaos-seeds=7-8", "-k", "good or killed")) == [
        "good.chaos.yaml::seed-7",
        "good.chaos.yaml::seed-8",
        "test_first.py::test_killed[seed-7]",
        "test_first.py::test_killed[seed-8]",
    ]


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        (["-m", "quick"], ["good.chaos.yaml::seed-0"]),
        (["-m", "chaos and not quick", "-k", "not test"], ["larger.chaos.yaml::seed-0"]),
        (["-k", "larger"], ["larger.chaos.yaml::seed-0", "test_first.py::TestLarger::test_raises"]),
        (["-k", "raise_in_worker"], ["test_first.py::TestLarger::test_raises"]),
        (["larger.chaos.yaml::seed-0"], ["larger.chaos.yaml::seed-0"]),
    ],
    ids=" ".join,
)
def test_scenarios_are_selected_as_other_tests_are(
    pytester: pytest.Pytester, words: list[str], kept: list[str]
) -> None:
    files = {"good.chaos.yaml": GOOD, "larger.chaos.yaml": LARGER, "test_first.py": FIRST}

    found = names(collected(pytester, files, *words))

    assert list(dict.fromkeys(name.partition("[")[0] for name in found)) == kept


def test_every_mistake_in_a_file_is_shown_at_its_line(pytester: pytest.Pytester) -> None:
    wrong = GOOD.replace("kill_worker", "kill_wroker").replace("rank: 0", "rank: 7")
    files = {
        "wrong.chaos.yaml": wrong,
        "marks.chaos.yaml": GOOD.replace("quick", "quikc"),
        "check.chaos.yaml": f"{GOOD}expect: {{verdict: fail, check: stat}}\n",
    }

    result = collected(pytester, files, "--strict-markers")

    assert result.ret == pytest.ExitCode.INTERRUPTED
    result.stdout.fnmatch_lines_random(
        [
            "*ERROR collecting wrong.chaos.yaml*",
            "wrong.chaos.yaml:5: rank must be below job.workers (1), got 7. Ranks count from 0.",
            "wrong.chaos.yaml:6: unknown key 'kill_wroker' in * Did you mean kill_worker?",
            "marks.chaos.yaml:2: pytest knows no mark 'quikc'. Add it to *",
            "check.chaos.yaml:7: there is no check 'stat'. Did you mean state?",
        ]
    )
    assert "Traceback" not in result.stdout.str()


def test_what_would_run_is_shown_and_not_run(pytester: pytest.Pytester) -> None:
    project(pytester.path, {"good.chaos.yaml": GOOD})

    result = pytester.runpytest_inprocess(*PLUGIN, "--setup-plan")

    assert result.ret == 0
    assert not Path("reports").exists()


def test_the_example_of_the_readme_is_collected_as_it_stands(pytester: pytest.Pytester) -> None:
    section = (ROOT / "docs/pytest.md").read_text(encoding="utf-8")
    example = section.partition("```python\n")[2].partition("```")[0]
    (pytester.path / "train.py").touch()

    found = names(collected(pytester, {"test_train.py": example}))

    assert found == ["test_train.py::test_survives"]


def test_a_ray_that_was_never_tested_and_what_a_backend_says_reach_the_terminal(
    pytester: pytest.Pytester,
) -> None:
    (pytester.path / "test_said.py").write_text(
        "from chaos.launch.ray import compat\n"
        "from chaos.extensions.pytest_plugin.runs import find_runs\n"
        "def test_opens(pytestconfig, monkeypatch):\n"
        "    monkeypatch.setattr(compat, 'untested_version', lambda: 'Ray 9 is unknown')\n"
        "    runs = find_runs(pytestconfig)\n"
        "    runs.backend._backends['ray']._report('Ray dashboard: http://127.0.0.1:8265')\n"
        "    runs.backend._backends['ray']._report('Ray dashboard: http://127.0.0.1:8265')\n"
        "    runs._forward_messages()\n"
    )

    result = pytester.runpytest_inprocess(*PLUGIN, "-W", "default")

    result.stdout.fnmatch_lines(["*UntestedVersionWarning: warning: Ray 9 is unknown"])
    result.stdout.fnmatch_lines(["*- chaos -*", "Ray dashboard: http://127.0.0.1:8265"])
    assert result.outlines.count("Ray dashboard: http://127.0.0.1:8265") == 1


def test_scenarios_of_recorded_runs_are_no_tests_unless_asked_for(
    pytester: pytest.Pytester,
) -> None:
    repro = "reports/audits/tiny/repro"
    folder = pytester.path / repro
    folder.mkdir(parents=True)
    files = {
        "good.chaos.yaml": GOOD,
        "reports/CHAOSDIR.TAG": "",
        f"{repro}/state.chaos.yaml": GOOD.replace("tiny.py", "../../../../tiny.py"),
    }

    own, found = ["good.chaos.yaml::seed-0"], [f"{repro}/state.chaos.yaml::seed-0"]

    assert names(collected(pytester, files)) == own
    assert names(collected(pytester, files, str(pytester.path))) == own
    for asked_for in ("reports", repro, f"{repro}/state.chaos.yaml"):
        assert names(collected(pytester, files, asked_for)) == found
