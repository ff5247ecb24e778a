"""The threads of each process in an audit."""

from pathlib import Path
from typing import Any

import pytest

from chaos.audit.plans import build_base_plan, set_launcher
from chaos.audit.threads import THREADS_ENV, ThreadLimit
from chaos.model.launcher import Launcher
from chaos.model.plan import Plan
from chaos.scenario_file.text import render_scenario
from tests.accepted import expect_text


def plan(tmp_path: Path, launcher: Launcher = "python", workers: int = 1) -> Plan:
    script = tmp_path / "train.py"
    script.touch()
    base = build_base_plan(script, (), cwd=tmp_path, seed=0, workers=workers)
    return set_launcher(base, launcher, ())


@pytest.mark.parametrize(
    ("size", "count"),
    [
        ({"cores": 2, "lanes": 4}, "1"),
        ({"cores": 16, "lanes": 2}, "8"),
        ({"cores": 16, "lanes": 1}, None),  # one run alone may have all, as in production
        ({"cores": 1, "lanes": 2}, None),
    ],
)
def test_cores_are_shared_by_the_runs_side_by_side(
    tmp_path: Path, size: dict[str, int], count: str | None
) -> None:
    threads = ThreadLimit.choose(plan(tmp_path), {}, **size)
    assert (threads and threads.count) == count


def test_ranks_of_one_run_share_them_too(tmp_path: Path) -> None:
    threads = ThreadLimit.choose(plan(tmp_path, workers=4), {}, cores=16, lanes=2)
    assert threads is not None
    assert threads.count == "2"
    words = threads.describe(lanes=2, workers=4)
    expect_text(words)


def test_the_users_number_is_kept_and_told(tmp_path: Path) -> None:
    threads = ThreadLimit.choose(plan(tmp_path), {THREADS_ENV: "3"}, cores=2, lanes=4)
    assert threads is not None
    expect_text(threads.describe(lanes=4, workers=1))


@pytest.mark.parametrize(
    ("launcher", "workers", "chooses"),
    [("ray", 2, False), ("torchrun", 2, False), ("torchrun", 1, True)],
)
def test_a_launcher_that_sets_the_number_is_left_alone(
    tmp_path: Path, launcher: Launcher, workers: int, chooses: Any
) -> None:
    threads = ThreadLimit.choose(plan(tmp_path, launcher, workers), {}, cores=2, lanes=4)
    assert (threads is not None) is chooses


def test_the_scenario_of_a_finding_has_the_same_number(tmp_path: Path) -> None:
    own = plan(tmp_path)
    threads = ThreadLimit.choose(own, {}, cores=2, lanes=4)
    assert threads is not None
    text = render_scenario(threads.apply_threads(own), folder=tmp_path, comment=(), expect={})
    assert f'env: {{{THREADS_ENV}: "1"}}' in text
