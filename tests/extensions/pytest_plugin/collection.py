"""A folder of scenarios, and what pytest collects in it."""

import pytest

import chaos.extensions.pytest_plugin.decorator
import chaos.extensions.pytest_plugin.file  # noqa: F401
from tests.extensions.pytest_plugin.conftest import KILL, PLUGIN, TINY, project

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
