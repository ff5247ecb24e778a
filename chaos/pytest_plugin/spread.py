"""Tests that pytest-xdist spreads over processes, of which only one may have Ray clusters."""

from collections.abc import Sequence

import pytest

from chaos.pytest_plugin.options import Option

RAY_GROUP = "chaos-ray"
_HEEDS_GROUPS: pytest.StashKey[bool] = pytest.StashKey()
_NEEDS_BACKEND = {"chaos_run", "chaos_cluster"}


def keep_together(item: pytest.Item, group: str) -> None:
    """Keep a test in one process with the others of its group, with `--dist loadgroup`."""
    if item.config.pluginmanager.hasplugin("xdist"):
        item.add_marker(pytest.mark.xdist_group(name=group))


def keep_what_runs_scenarios_together(item: pytest.Item) -> None:
    """Keep a test that uses a cluster in the process of the others that do."""
    asks = _NEEDS_BACKEND & {*getattr(item, "fixturenames", ())}
    if asks and item.config.getoption(Option.BACKEND.dest) == "ray":
        keep_together(item, RAY_GROUP)


def note_groups(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    """Note whether pytest-xdist keeps groups together, which it appends to a test's id.

    It does so only with `--dist loadgroup`; 3.8 does not with pytest 9.2, whose ids it leaves as
    they are.
    """
    config.stash[_HEEDS_GROUPS] = any(item.nodeid.endswith(f"@{RAY_GROUP}") for item in items)


def would_have_clusters_side_by_side(config: pytest.Config) -> bool:
    """Return whether this is one of several processes that may get any test."""
    given = getattr(config, "workerinput", None)
    return (
        given is not None
        and given["workercount"] > 1
        and config.getoption(Option.BACKEND.dest) == "ray"
        and not config.stash.get(_HEEDS_GROUPS, False)
    )
