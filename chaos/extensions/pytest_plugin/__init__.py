"""The pytest plugin: `*.chaos.yaml` files and `@chaos.scenario` functions are tests.

pytest loads this file in every project that has chaos installed, so it holds only
the hooks. The modules that run a job are imported once a test of chaos was
collected.
"""

from collections.abc import Generator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from chaos.extensions.pytest_plugin.options import (
    BACKENDS,
    GROUP,
    JOB_MARK,
    RAY_GROUP,
    SCENARIO_MARK,
    Option,
    fill_options,
    group_test,
    parse_seeds,
    record_grouping,
)
from chaos.extensions.pytest_plugin.suite import Suite, attach_rows

if TYPE_CHECKING:
    from chaos.extensions.pytest_plugin.function import RunScenario
    from chaos.report.result import Result
    from chaos.run.ports import Backend

_SUFFIX = ".chaos.yaml"
_MARKERS = (
    "chaos: a scenario of chaos's, from a file or a decorated function",
    f"{JOB_MARK}(script=..., workers=...): what @chaos.scenario of these tests leaves out",
    f"{SCENARIO_MARK}(...): what @chaos.scenario was given; not for use by hand",
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; `pytest --help` lists them under chaos."""
    group = parser.getgroup("chaos", "chaos: fault injection into training jobs")
    group.addoption(
        Option.BACKEND,
        choices=BACKENDS,
        default=None,
        help="a local Ray cluster (the default); forked workers without one, in seconds; or what "
        "starts scripts without Ray",
    )
    group.addoption(
        Option.SEEDS,
        type=parse_seeds,
        default=parse_seeds("1"),
        metavar="N",
        help="run every scenario with the seeds 0 to N-1, or with a range such as 5-7: a seed "
        "draws what a scenario leaves open (default: seed 0 alone)",
    )
    group.addoption(
        Option.REPORT,
        metavar="DIR",
        default=None,
        help="where runs, baselines and reports are kept (default: reports/ in pytest's rootdir)",
    )
    group.addoption(
        Option.KEEP_STORAGE,
        action="store_true",
        default=None,
        help="keep the checkpoints of runs that pass as well",
    )


@pytest.hookimpl(tryfirst=True)  # a conftest.py may ask for our options
def pytest_configure(config: pytest.Config) -> None:
    """Register the marks, and begin the suite of this session's runs."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    fill_options(config)
    config.pluginmanager.register(Suite(config), "chaos-suite")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect a scenario file as a test file."""
    if not file_path.name.endswith(_SUFFIX):
        return None
    from chaos.extensions.pytest_plugin.file import ScenarioFile
    from chaos.run.directory import MARK
    from chaos.scenario_file.load import is_drawn_file

    is_requested = partial(parent.session.isinitpath, with_parents=True)
    report_folders = (folder for folder in file_path.parents if (folder / MARK).is_file())
    if is_drawn_file(file_path) or not all(map(is_requested, report_folders)):
        return None
    return ScenarioFile.from_parent(parent, path=file_path)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector: pytest.Collector) -> Generator[None, Any, Any]:
    """Check the scenarios of decorated functions before any test starts."""
    collected_items = yield
    if (
        isinstance(collected_items, list)
        and collected_items
        and collected_items[0].get_closest_marker(SCENARIO_MARK)
    ):
        from chaos.extensions.pytest_plugin.function import attach_scenarios

        attach_scenarios(collector, collected_items)
    return collected_items


def pytest_itemcollected(item: pytest.Item) -> None:
    """Put tests with `chaos_run` into the group of the others for a cluster."""
    cluster_fixtures = {"chaos_run", "chaos_cluster"} & {*getattr(item, "fixturenames", ())}
    if cluster_fixtures and item.config.getoption(Option.BACKEND.dest) == "ray":
        group_test(item, RAY_GROUP)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test per seed, if several are requested."""
    seeds = metafunc.config.getoption(Option.SEEDS.dest)
    # A test that is parametrized over seeds by itself stays so; twice would be an error of
    # pytest's.
    is_parametrized = any(
        "chaos_seed" in marker.args[0] for marker in metafunc.definition.iter_markers("parametrize")
    )
    if "chaos_seed" in metafunc.fixturenames and len(seeds) > 1 and not is_parametrized:
        metafunc.parametrize("chaos_seed", seeds, ids=[f"seed-{seed}" for seed in seeds])


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Order scenarios so that those for one cluster follow each other; other tests stay."""
    # A cluster is kept while its shape stays the same. Only the places that scenarios have are
    # dealt out anew among them: where a project's own tests stand is its own matter.
    record_grouping(config, items)
    indexes = [
        number
        for number, item in enumerate(items)
        if GROUP in item.stash and item.path.name.endswith(_SUFFIX)
    ]
    groups = list(dict.fromkeys(items[number].stash[GROUP] for number in indexes))
    ordered = sorted(
        (items[number] for number in indexes), key=lambda test: groups.index(test.stash[GROUP])
    )
    for index, item in zip(indexes, ordered, strict=True):
        items[index] = item


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Replace a traceback through chaos by the finding, and attach the rows to the report."""
    report = yield
    return attach_rows(item, call, report)


@pytest.fixture(scope="session")
def chaos_cluster(request: pytest.FixtureRequest) -> "Backend":
    """Return the open backend, which is kept warm: a Ray cluster, or that of --chaos-backend."""
    from chaos.extensions.pytest_plugin.runs import find_runs

    return find_runs(request.config).backend


@pytest.fixture
def chaos_seed(request: pytest.FixtureRequest) -> int:
    """Return the seed of a scenario's free choices; one test for each of --chaos-seeds."""
    seed: int = request.config.getoption(Option.SEEDS.dest)[0]
    return seed


@pytest.fixture
def chaos_run(request: pytest.FixtureRequest, chaos_seed: int) -> "RunScenario":
    """Return a function that runs a scenario file, or a scenario of keywords.

    `chaos_run("x.chaos.yaml")` or `chaos_run(script=..., faults=[...])` returns a
    `chaos.Result`, or fails the test if the verdict is not the one that the
    scenario expects. Paths are relative to the test's file.
    """
    from chaos.extensions.pytest_plugin.function import RunScenario

    return RunScenario(request.node, chaos_seed)


@pytest.fixture
def chaos_result(request: pytest.FixtureRequest, chaos_seed: int) -> "Result":
    """Return the result of the run of a @chaos.scenario test, which has it as `result`."""
    from chaos.extensions.pytest_plugin.function import run_decorated

    return run_decorated(request.node, chaos_seed)
