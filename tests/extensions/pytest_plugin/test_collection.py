"""What pytest is told of scenarios before anything runs: names, marks, seeds, mistakes."""

import argparse
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

import chaos.extensions.pytest_plugin.decorator
import chaos.extensions.pytest_plugin.file  # noqa: F401
from chaos.extensions.pytest_plugin.options import (
    SCENARIO,
    has_parallel_clusters,
    parse_seeds,
    record_grouping,
)
from chaos.model.trigger import AtStep
from tests.extensions.pytest_plugin.conftest import KILL, PLUGIN, ROOT, TINY, project

pytest_plugins = ["pytester"]

GOOD = f"scenario: killed\nmarks: [quick]\n{TINY}{KILL}"
LARGER = GOOD.replace("workers: 1", "workers: 2").replace("marks: [quick]\n", "")
FIRST = """
import chaos, pytest
from chaos import kill_worker, raise_in_worker
pytestmark = pytest.mark.chaos_job(script="tiny.py", workers=1)

@chaos.scenario(faults=[kill_worker(epoch=1, step=2)])
def test_killed(result): pass

class TestLarger:
    @chaos.scenario(workers=4, faults=[raise_in_worker(epoch=1, step=2)])
    @pytest.mark.parametrize("of", [1, 2])
    def test_raises(self, of): pass
"""


def collected(pytester: pytest.Pytester, files: dict[str, str], *words: str) -> pytest.RunResult:
    project(pytester.path, files)
    return pytester.runpytest_inprocess(*PLUGIN, "--collect-only", "-q", *words)


def names(result: pytest.RunResult) -> list[str]:
    return [line for line in result.outlines if "::" in line and " " not in line]


OF_PARAMETERS = """
import chaos, pytest
from chaos import kill_worker

@chaos.scenario(script="tiny.py", workers=1, faults=lambda step: [kill_worker(epoch=1, step=step)])
@pytest.mark.parametrize("name", ["a", "b"])
@pytest.mark.parametrize("step", [1, 2])
def test_killed(step, name): pass
"""


def test_faults_may_be_a_function_of_the_parameters_of_a_test(pytester: pytest.Pytester) -> None:
    project(pytester.path, {"test_first.py": OF_PARAMETERS})

    items, _ = pytester.inline_genitems(*PLUGIN)
    triggers = [item.stash[SCENARIO].faults[0].at for item in items]
    steps = [trigger.step for trigger in triggers if isinstance(trigger, AtStep)]

    assert sorted(steps) == [1, 1, 2, 2]


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


def test_scenarios_of_one_cluster_lie_side_by_side(pytester: pytest.Pytester) -> None:
    files = {"a.chaos.yaml": GOOD, "b.chaos.yaml": LARGER, "c.chaos.yaml": GOOD}

    found = names(collected(pytester, files))

    assert [name[0] for name in found] == ["a", "c", "b"]


def test_xdist_is_told_which_scenarios_share_a_cluster(pytester: pytest.Pytester) -> None:
    (pytester.path / "conftest.py").write_text(
        "def pytest_configure(config):\n"
        "    config.addinivalue_line('markers', 'xdist_group')\n"
        "def pytest_collection_modifyitems(items):\n"
        "    for item in items:\n"
        "        group = item.get_closest_marker('xdist_group')\n"
        "        print(item.name, group and group.kwargs['name'])\n"
    )
    files = {"a.chaos.yaml": GOOD, "b.chaos.yaml": LARGER, "test_first.py": FIRST}
    asks = "def test_asks(chaos_run): pass\ndef test_else(): pass\n"
    project(pytester.path, {**files, "test_asks.py": asks})
    options = (*PLUGIN, "--collect-only", "-q", "-s", "--strict-markers")

    ray = pytester.runpytest_inprocess(*options, plugins=[NamedXdist()])
    fork = pytester.runpytest_inprocess(*options, "--chaos-backend=fork", plugins=[NamedXdist()])

    names = ("seed-0", "test_killed", "test_raises*", "test_asks")
    ray.stdout.fnmatch_lines_random([f"{name} chaos-ray" for name in names])
    fork.stdout.fnmatch_lines_random(["seed-0 chaos-*.py", "test_killed chaos-*.py"])
    for said in (ray, fork):
        said.stdout.fnmatch_lines(["test_else None"])
    fork.stdout.fnmatch_lines(["test_asks None"])


class NamedXdist:
    """A plugin that makes pytest believe that pytest-xdist is there."""

    def pytest_addoption(self, pluginmanager: pytest.PytestPluginManager) -> None:
        pluginmanager.register(SimpleNamespace(), "xdist")


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


@pytest.mark.parametrize(
    ("decorator", "said"),
    [
        ("workers=1", "test_x.py:2: job needs one of script, module, train_loop. It has none."),
        ("script='no.py', workers=1", "test_x.py:2: there is no script 'no.py'. *"),
        (
            "script='tiny.py', workers=1, faults=[chaos.kill_worker(epoch=1, step=1, rank=3)]",
            "test_x.py:2: rank must be below job.workers (1), got 3. Ranks count from 0.",
        ),
        (
            "script='tiny.py', workers=1, expect={'verdict': 'fine'}",
            "test_x.py:2: verdict must be one of pass, fail, inconclusive, got 'fine'",
        ),
        ("script='tiny.py', workers=1, expect={'verdict': 'fail', 'check': 'stat'}", "*'stat'*"),
    ],
)
def test_a_mistake_in_a_decorator_is_shown_at_its_line(
    pytester: pytest.Pytester, decorator: str, said: str
) -> None:
    test = f"import chaos\n@chaos.scenario({decorator})\ndef test_x(): pass\n"

    result = collected(pytester, {"test_x.py": test})

    result.stdout.fnmatch_lines(["*ERROR collecting test_x.py*", said])
    assert "Traceback" not in result.stdout.str()


def test_what_would_run_is_shown_and_not_run(pytester: pytest.Pytester) -> None:
    project(pytester.path, {"good.chaos.yaml": GOOD})

    result = pytester.runpytest_inprocess(*PLUGIN, "--setup-plan")

    assert result.ret == 0
    assert not Path("reports").exists()


def test_the_options_explain_themselves(pytester: pytest.Pytester) -> None:
    result = pytester.runpytest_inprocess(*PLUGIN, "--help")

    for option in (
        "--chaos-backend={ray,fork,torchrun,python,slurm}",
        "--chaos-seeds=N",
        "--chaos-report=DIR",
    ):
        result.stdout.fnmatch_lines([f"*{option}*"])


@pytest.mark.parametrize(
    ("text", "seeds"), [("1", (0,)), ("3", (0, 1, 2)), ("5-7", (5, 6, 7)), ("4-4", (4,))]
)
def test_seeds_are_a_number_of_them_or_a_range(text: str, seeds: tuple[int, ...]) -> None:
    assert parse_seeds(text) == seeds


@pytest.mark.parametrize("text", ["0", "-1", "7-5", "a", "", "1,2"])
def test_other_seeds_are_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="or a range such as 5-7"):
        parse_seeds(text)


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


@pytest.mark.parametrize(
    ("workers", "ids", "backend", "refused"),
    [
        (2, ["a", "b@chaos-ray"], "ray", False),
        (2, ["a", "b"], "ray", True),
        (1, ["a", "b"], "ray", False),
        (2, ["a", "b"], "fork", False),
        (None, ["a", "b"], "ray", False),
    ],
)
def test_clusters_are_refused_where_xdist_would_have_two(
    workers: int | None, ids: list[str], backend: str, *, refused: bool
) -> None:
    config = SimpleNamespace(stash=pytest.Stash(), getoption=lambda _: backend)
    if workers is not None:
        config.workerinput = {"workercount": workers}
    items = [SimpleNamespace(nodeid=name) for name in ids]

    record_grouping(cast("pytest.Config", config), cast("list[pytest.Item]", items))

    assert has_parallel_clusters(cast("pytest.Config", config)) is refused


SETTLED = {
    "pyproject.toml": '[tool.chaos]\nbackend = "fork"\nreports = "out"\n',
    "conftest.py": (
        "def pytest_report_header(config):\n"
        "    names = ('chaos_backend', 'chaos_report', 'chaos_keep_storage')\n"
        "    return ' '.join(str(config.getoption(name)) for name in names)\n"
    ),
    "test_plain.py": "def test_plain(): pass\n",
}


@pytest.mark.parametrize(("words", "backend"), [((), "fork"), (("--chaos-backend", "ray"), "ray")])
def test_the_projects_settings_are_the_defaults_of_options(
    pytester: pytest.Pytester, words: tuple[str, ...], backend: str
) -> None:
    project(pytester.path, SETTLED)

    result = pytester.runpytest_inprocess(*PLUGIN, *words)

    result.stdout.fnmatch_lines([f"{backend} {pytester.path / 'out'} False"])


def test_a_mistake_in_the_projects_settings_is_named_at_its_line(
    pytester: pytest.Pytester,
) -> None:
    project(pytester.path, {"pyproject.toml": "[tool.chaos]\nbakend = 'fork'\n"})

    result = pytester.runpytest_inprocess(*PLUGIN)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*pyproject.toml:2: unknown key 'bakend'. Did you mean backend?*"])


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
