"""What a run leaves outside of the audit's folder is removed, whoever has written it."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.launch.files_outside import settle
from chaos.launch.folder_look import FolderLook
from chaos.model.event import Disturbed, WroteOutside
from chaos.model.paths import is_below
from chaos.probe.address import RunAddress
from chaos.probe.written import TRAINS, Confines
from chaos.run.clock import SystemClock
from chaos.run.journal import Journal, read_history
from chaos.run.ports import View


@pytest.fixture
def run(tmp_path: Path) -> RunAddress:
    directory = tmp_path / "audit/runs/0"
    (directory / "nodes/node-0").mkdir(parents=True)
    (directory / "nodes/node-0/written.jsonl").touch()
    return RunAddress(directory, "0123abcd", "unix:x")


def settled(
    run: RunAddress, *made: Path, view: View | None = None, before: FolderLook | None = None
) -> dict[str, bool]:
    """Settle a run whose audit has made these files and folders; return what was told of each."""
    confines = Confines(run.directory.parents[1])
    confines.created.write_text("".join(f"{path}\n" for path in made))
    journals = run.directory / "journals"
    journals.mkdir()
    journal = Journal(journals, "harness", role="harness", clock=SystemClock())
    for event in settle(run, confines, view, before=before):
        journal.add(event)
    journal.close()
    return {Path(e.path).name: e.removed for _, e in read_history(journals).of(WroteOutside)}


def trains(run: RunAddress) -> None:
    time.sleep(0.02)  # a file's times have the resolution of the kernel's clock
    (run.directory / "nodes/node-0" / TRAINS).touch()
    time.sleep(0.02)


def test_what_another_program_has_written_in_training_is_removed_from_the_jobs_own_folder(
    run: RunAddress, tmp_path: Path
) -> None:
    bucket = tmp_path / "bucket"
    bucket.mkdir()
    (bucket / "data.csv").touch()
    trains(run)
    (bucket / "save-1").mkdir()
    (bucket / "save-1/model.pt").touch()

    assert settled(run, bucket) == {"model.pt": True}
    assert [path.name for path in bucket.iterdir()] == ["data.csv"]


def test_nothing_is_removed_from_a_folder_that_was_there_before(
    run: RunAddress, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    trains(run)
    (tmp_path / "mine/model.pt").touch()

    assert settled(run) == {}
    assert (tmp_path / "mine/model.pt").exists()


def test_nothing_is_removed_from_a_run_beside_it(run: RunAddress, tmp_path: Path) -> None:
    beside = (
        tmp_path / "audit/runs/1/storage",
        tmp_path / "audit/runs/1/nodes/node-0/tmp",
        tmp_path / "chaos-4567cdef.held/node-1",
    )
    for folder in beside:
        folder.mkdir(parents=True)
    trains(run)
    for folder in beside:
        (folder / "model.pt").touch()

    assert settled(run, *beside) == {}
    assert all((folder / "model.pt").exists() for folder in beside)


def test_nothing_is_removed_where_nothing_was_trained(run: RunAddress, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/part.bin").touch()

    assert settled(run, tmp_path / "data") == {}
    assert (tmp_path / "data/part.bin").exists()


def test_a_link_to_a_folder_of_the_users_is_not_followed(run: RunAddress, tmp_path: Path) -> None:
    for name in ("bucket", "mine"):
        (tmp_path / name).mkdir()
    trains(run)
    (tmp_path / "mine/model.pt").touch()
    (tmp_path / "bucket/latest").symlink_to(tmp_path / "mine")

    assert settled(run, tmp_path / "bucket") == {"latest": True}
    assert (tmp_path / "mine/model.pt").exists()


def test_what_a_process_of_the_jobs_has_written_is_told_as_before(
    run: RunAddress, tmp_path: Path
) -> None:
    (tmp_path / "own.pt").touch()
    line = {"path": str(tmp_path / "own.pt"), "how": "created", "pid": 1, "is_output": True}
    (run.directory / "nodes/node-0/written.jsonl").write_text(f"{json.dumps(line)}\n")

    assert settled(run) == {"own.pt": True}
    assert not (tmp_path / "own.pt").exists()


class Covering:
    """A view of one folder, in this process."""

    pid = 0

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def covers(self, path: str) -> bool:
        return is_below(path, self.folder)

    def call(self, function: Callable[..., Any], *words: Any, **named: Any) -> Any:
        return function(*words, **named)


@pytest.mark.parametrize("by", ["its name", "a link"])
def test_a_run_that_wrote_beyond_its_view_is_disturbed(
    run: RunAddress, tmp_path: Path, by: str
) -> None:
    for name in ("seen", "beyond"):
        (tmp_path / name).mkdir()
    (tmp_path / "seen/latest").symlink_to(tmp_path / "beyond")
    folder = tmp_path / ("beyond" if by == "its name" else "seen/latest")
    (folder / "own.pt").touch()
    line = {"path": str(folder / "own.pt"), "how": "created", "pid": 1, "is_output": True}
    (run.directory / "nodes/node-0/written.jsonl").write_text(f"{json.dumps(line)}\n")

    settled(run, view=Covering(tmp_path / "seen"))

    (disturbed,) = read_history(run.directory / "journals").of(Disturbed)
    assert disturbed[1].why.endswith(str(tmp_path / "beyond/own.pt"))


def test_a_run_that_wrote_in_its_view_is_not_disturbed(run: RunAddress, tmp_path: Path) -> None:
    (tmp_path / "own.pt").touch()
    line = {"path": str(tmp_path / "own.pt"), "how": "created", "pid": 1, "is_output": True}
    (run.directory / "nodes/node-0/written.jsonl").write_text(f"{json.dumps(line)}\n")

    assert settled(run, view=Covering(tmp_path)) == {"own.pt": True}
    assert not any(read_history(run.directory / "journals").of(Disturbed))
