"""The plugin's options, and the settings of the project as their defaults."""

import argparse
from types import SimpleNamespace
from typing import cast, get_args

import pytest

import chaos.extensions.pytest_plugin.decorator
import chaos.extensions.pytest_plugin.file  # noqa: F401
from chaos.cli.options import AnyBackend
from chaos.extensions.pytest_plugin.options import (
    BACKENDS,
    has_parallel_clusters,
    parse_seeds,
    record_grouping,
)
from tests.extensions.pytest_plugin.collection import FIRST, GOOD, LARGER, collected, names
from tests.extensions.pytest_plugin.conftest import PLUGIN, project

pytest_plugins = ["pytester"]


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


def test_the_backends_are_those_of_the_command_line() -> None:
    backend_type, *_ = get_args(AnyBackend)

    assert sorted(BACKENDS) == sorted(get_args(backend_type))
