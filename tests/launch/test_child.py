"""A Python that a rank has started writes to the rank's list, and tells that it trains."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.launch.child import watch_children
from chaos.model.event import ChildTrained
from chaos.probe.write_ledger import TRAINS, LedgerLine, WriteLedger, WriteLimits, load_ledger
from chaos.run.journal import read_history

SPAWN = """
import multiprocessing
from pathlib import Path
if __name__ == "__main__":
    child = multiprocessing.get_context("{method}").Process(
        target=Path("by_child.pkl").write_text, args=("x",)
    )
    child.start()
    child.join()
"""
TRAIN = """
import torch
part = torch.nn.Parameter(torch.ones(1))
optimizer = torch.optim.SGD([part], lr=0.1)
for _ in range(2):
    part.sum().backward()
    optimizer.step()
"""


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteLedger:
    """Return the list of a node of a run, which the children of this process write to."""
    monkeypatch.setattr(os, "environ", os.environ.copy())
    (tmp_path / "audit/runs/0/nodes/node-0").mkdir(parents=True)
    (tmp_path / "audit/runs/0/journals").mkdir()
    (tmp_path / "desk").mkdir()
    file = tmp_path / "audit/runs/0/nodes/node-0/written.jsonl"
    file.touch()
    ledger = WriteLedger(file, (), WriteLimits(tmp_path / "audit"))
    watch_children(ledger)
    return ledger


def started(ledger: WriteLedger, text: str) -> dict[str, LedgerLine]:
    """Start a script in the desk; return the lines of its list by the names of files."""
    desk = ledger.file.parents[5] / "desk"
    (desk / "script.py").write_text(text)
    environment = dict(os.environ)
    subprocess.run([sys.executable, "script.py"], cwd=desk, env=environment, check=True)
    return {Path(line.path).name: line for line in load_ledger(ledger.file)}


@pytest.mark.parametrize("method", ["spawn", "forkserver", "fork"])
def test_what_a_child_writes_is_output_once_a_rank_trains(ledger: WriteLedger, method: str) -> None:
    text = SPAWN.format(method=method)
    before = started(ledger, text)["by_child.pkl"]
    (ledger.file.parents[5] / "desk/by_child.pkl").unlink()
    ledger.file.with_name(TRAINS).touch()
    after = started(ledger, text)["by_child.pkl"]

    assert (before.how, before.is_output) == ("created", False)
    assert (after.how, after.is_output) == ("created", True)


def test_a_child_may_harm_no_file_that_was_there_before(ledger: WriteLedger) -> None:
    (ledger.file.parents[5] / "desk/mine.txt").write_text("mine")

    with pytest.raises(subprocess.CalledProcessError):
        started(ledger, "open('mine.txt', 'w')\n")
    assert (ledger.file.parents[5] / "desk/mine.txt").read_text() == "mine"


def test_a_child_that_trains_says_so_once(ledger: WriteLedger) -> None:
    started(ledger, TRAIN)

    (told,) = read_history(ledger.file.parents[2] / "journals").select_events(ChildTrained)
    assert (told[1].start, told[1].command) == ("subprocess", "python script.py")


def test_paths_that_a_program_is_given_are_recorded(ledger: WriteLedger) -> None:
    text = "import os, subprocess\nopen('a', 'w').close()\n"
    text += "subprocess.run(['cp', 'a', 'b'])\nos.system('cp a >c; cp a d')\n"
    started(ledger, text)

    lines = load_ledger(ledger.file)
    named = {Path(line.path).name for line in lines if line.how == "named"}
    assert {"a", "b", "c", "d"} <= named


def test_a_child_without_a_list_is_not_watched(ledger: WriteLedger) -> None:
    ledger.file.unlink()

    code = "open('late.txt', 'w').close()\n"
    assert started(ledger, code) == {}
    assert json.loads(os.environ["CHAOS_CHILD"])["file"] == str(ledger.file)
