"""The process that jobs are forked from is waited for, and nothing of it stays open."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.forked.conftest import ROOT

BEGIN = """
from pathlib import Path
from types import SimpleNamespace as Plan
from chaos.launch.forked.handles import get_root
plan = Plan(cwd=".", job=Plan(env={}))
root = get_root(plan, log=Path("root.log"))
"""
KILL = """
root._process.kill()
root._process.wait()
second = get_root(plan, log=Path("root.log"))
assert second is not root and second.is_alive
assert get_root(plan, log=Path("root.log")) is second
root = second
"""
TELL = "print(root._process.pid)"


@pytest.mark.parametrize("code", [BEGIN, BEGIN + KILL], ids=["one", "the one after a dead one"])
def test_a_process_that_ends_leaves_no_root_running_and_no_connection_open(
    code: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "always::ResourceWarning", "-c", code + TELL],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )

    assert done.stderr == ""
    assert not psutil.pid_exists(int(done.stdout))
