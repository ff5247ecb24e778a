"""Tests that pytest-xdist spreads over processes: one of them alone may have Ray clusters."""

import pytest

from chaos.pytest_plugin.keys import Option

RAY_GROUP = "chaos-ray"
_NEEDS_BACKEND = {"chaos_run", "chaos_cluster"}


def keep_together(item: pytest.Item, group: str) -> None:
    """Have a test run in one process with the others of its group, with `--dist loadgroup`."""
    if item.config.pluginmanager.hasplugin("xdist"):
        item.add_marker(pytest.mark.xdist_group(name=group))


def keep_what_runs_scenarios_together(item: pytest.Item) -> None:
    """Do the same for a test that is none of ours, and asks for a cluster."""
    asks = _NEEDS_BACKEND & {*getattr(item, "fixturenames", ())}
    if asks and item.config.getoption(Option.BACKEND.dest) == "ray":
        keep_together(item, RAY_GROUP)


def would_have_clusters_side_by_side(config: pytest.Config) -> bool:
    """Say whether this is one of several processes that any test may come to."""
    given = getattr(config, "workerinput", None)
    return (
        given is not None
        and given["workercount"] > 1
        and config.getoption(Option.BACKEND.dest) == "ray"
        and not config.getoption("loadgroup")
    )
