"""Scenarios that pytest-xdist spreads over processes: one suite, and never two clusters at once."""

from pathlib import Path

import pytest

from tests.extensions.pytest_plugin.conftest import KILL, TINY, project, session

pytest.importorskip("xdist", reason="pip install pytest-xdist")
pytestmark = [pytest.mark.embedded, pytest.mark.timeout(300)]

SURVIVES = f"scenario: a worker is killed\n{TINY}{KILL}"
ASKS = "def test_asks(chaos_run): assert chaos_run('survives.chaos.yaml').passed\n"


@pytest.mark.nightly
def test_what_every_process_ran_is_one_suite(tmp_path: Path) -> None:
    asks_too_much = SURVIVES + "expect: {lost_steps: {max: 1}}\n"
    project(tmp_path, {"survives.chaos.yaml": SURVIVES, "less.chaos.yaml": asks_too_much})
    (tmp_path / "pyproject.toml").write_text('[tool.chaos]\nreports = "kept"\n')

    done = session(tmp_path, "-n", "2")

    assert "1 failed, 1 passed" in done.out
    assert "✓ 1 as expected   ✗ 1 not as expected" in done.out
    assert "expected pass; got fail, first named by lost-work" in done.out
    assert done.properties("survives.chaos.yaml::seed-0")["verdict"] == "pass"
    assert len(list(tmp_path.glob("kept/suites/*/suite.json"))) == 1


@pytest.mark.nightly
def test_tests_that_would_start_clusters_side_by_side_say_what_keeps_them_together(
    tmp_path: Path,
) -> None:
    project(tmp_path, {"survives.chaos.yaml": SURVIVES, "test_asks.py": ASKS})

    done = session(tmp_path, "-n", "2", "--chaos-backend=ray")

    assert done.code == 1
    said = " ".join(done.out.split())
    hint = "With --dist loadgroup all tests that need one go to the same process"
    assert said.count("could not run pytest-xdist spreads the tests over processes") == 2
    assert said.count(hint) == 2


@pytest.mark.ray
@pytest.mark.nightly
def test_all_that_needs_a_cluster_runs_in_one_process(tmp_path: Path) -> None:
    larger = SURVIVES.replace("workers: 1", "workers: 2")
    files = {"survives.chaos.yaml": SURVIVES, "larger.chaos.yaml": larger, "test_asks.py": ASKS}
    project(tmp_path, files)

    done = session(
        tmp_path, "-n", "2", "--dist=loadgroup", "--chaos-backend=ray", "-v", "--timeout=0"
    )

    if "could not run" in done.out:  # 3.8 with pytest 9.2
        pytest.skip("this pytest-xdist does not heed its groups with this pytest")
    assert done.code == 0, done.out
    ran = {
        line.partition("]")[0]
        for line in done.out.splitlines()
        if "] PASSED" in line.replace("  ", " ")
    }
    assert len(ran) == 1, done.out
