"""The plugin on a real Ray cluster: what passes passes, and what does not says what was found."""

from pathlib import Path

import pytest

from tests.extensions.pytest_plugin.conftest import KILL, TINY, project, session

pytestmark = [pytest.mark.ray, pytest.mark.nightly, pytest.mark.timeout(300)]

FIRST = """
import chaos
from chaos import kill_worker

JOB = dict(script="tiny.py", workers=1, failure={"max_failures": 2})

@chaos.scenario(**JOB, faults=[kill_worker(rank=0, epoch=1, step=2)],
                expect={"lost_steps": {"max": 1}})
def test_loses_no_step():
    print("it was called")
"""


def test_a_file_passes_and_a_decorated_test_fails_on_one_warm_cluster(tmp_path: Path) -> None:
    survives = f"scenario: a worker is killed\n{TINY}{KILL}"
    project(tmp_path, {"survives.chaos.yaml": survives, "test_first.py": FIRST})

    done = session(tmp_path, "--chaos-backend=ray")

    assert done.code == 1, done.out
    assert "1 failed, 1 passed" in done.out
    assert done.properties("survives.chaos.yaml::seed-0")["backend"] == "ray"
    said = " ".join(done.out.split())
    assert "attempt 1 threw away 2 finished steps of rank 0; 1 are allowed" in said
    assert "it was called" not in done.out
    assert "✓ 1 as expected   ✗ 1 not as expected" in done.out
    for inside in ("_pytest/", "Traceback", "(raylet)", "(TrainController", "Warning"):
        assert inside not in done.out
