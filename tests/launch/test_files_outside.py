"""What a run leaves outside of the audit's folder is removed, whoever has written it."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import HarnessError
from chaos.launch.files_outside import clean_outside_files
from chaos.launch.folder_snapshot import FolderSnapshot
from chaos.model.event import Disturbed, FolderCompared, WroteOutside
from chaos.model.paths import is_in_folder
from chaos.probe.address import RunAddress
from chaos.probe.write_ledger import TRAINS, WriteLimits
from chaos.run.clock import SystemClock
from chaos.run.journal import Journal, read_history
from chaos.run.ports import LaneFolders


@pytest.fixture
def run(tmp_path: Path) -> RunAddress:
    directory = tmp_path / "audit/runs/0"
    (directory / "nodes/node-0").mkdir(parents=True)
    (directory / "nodes/node-0/written.jsonl").touch()
    return RunAddress(directory, "0123abcd", "unix:x")


def settled(
    run: RunAddress,
    *made: Path,
    view: LaneFolders | None = None,
    before: FolderSnapshot | None = None,
) -> dict[str, bool]:
    """Settle a run whose audit has made these files and folders; return what was told of each."""
    confines = WriteLimits(run.directory.parents[1])
    confines.created_list.write_text("".join(f"{path}\n" for path in made))
    journals = run.directory / "journals"
    journals.mkdir()
    journal = Journal(journals, "harness", role="harness", clock=SystemClock())
    for event in clean_outside_files(run, confines, view, initial_snapshot=before):
        journal.add(event)
    journal.close()
    return {
        Path(e.path).name: e.removed for _, e in read_history(journals).select_events(WroteOutside)
    }


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


def test_a_folder_that_the_start_of_the_script_made_stays_for_the_next_run_forked_from_it(
    run: RunAddress, tmp_path: Path
) -> None:
    runs, out = tmp_path / "out", tmp_path / "out/mosaic"
    out.mkdir(parents=True)
    trains(run)
    (out / "best.pt").touch()  # which changes the time of its folder

    assert settled(run, runs, out) == {"best.pt": True}
    assert out.exists()


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
        return is_in_folder(path, self.folder)

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

    (disturbed,) = read_history(run.directory / "journals").select_events(Disturbed)
    assert disturbed[1].why.endswith(str(tmp_path / "beyond/own.pt"))


def test_a_run_that_wrote_in_its_view_is_not_disturbed(run: RunAddress, tmp_path: Path) -> None:
    (tmp_path / "own.pt").touch()
    line = {"path": str(tmp_path / "own.pt"), "how": "created", "pid": 1, "is_output": True}
    (run.directory / "nodes/node-0/written.jsonl").write_text(f"{json.dumps(line)}\n")

    assert settled(run, view=Covering(tmp_path)) == {"own.pt": True}
    assert not any(read_history(run.directory / "journals").select_events(Disturbed))


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    (tmp_path / "desk").mkdir()
    return tmp_path / "desk"


def look(desk: Path) -> FolderSnapshot:
    return FolderSnapshot.from_folder(str(desk), left_out=str(desk.parent / "audit"))


def writes(run: RunAddress, *lines: tuple[Path, str]) -> None:
    """Write the list of writes of a node of the run."""
    fields = [{"path": str(p), "how": how, "pid": 1, "is_output": True} for p, how in lines]
    text = "".join(f"{json.dumps(line)}\n" for line in fields)
    (run.directory / "nodes/node-0/written.jsonl").write_text(text)


def compared(run: RunAddress) -> list[FolderCompared]:
    return [
        event for _, event in read_history(run.directory / "journals").select_events(FolderCompared)
    ]


def test_what_no_watched_process_wrote_stays_in_the_working_folder_and_is_named(
    run: RunAddress, desk: Path
) -> None:
    (desk / "log.txt").touch()
    before = look(desk)
    trains(run)
    (desk / "tally.txt").write_text("7")
    (desk / "log.txt").write_text("more")

    assert settled(run, before=before) == {}

    (event,) = compared(run)
    assert (list(event.new), list(event.changed)) == (
        [str(desk / "tally.txt")],
        [str(desk / "log.txt")],
    )
    assert (desk / "tally.txt").exists()


def test_what_came_before_training_is_data_whoever_made_it(run: RunAddress, desk: Path) -> None:
    before = look(desk)
    (desk / "data.bin").touch()
    trains(run)

    assert settled(run, before=before) == {}
    assert compared(run) == []


@pytest.mark.parametrize("name", ["best.pt", "copy/best.pt", "net.pt.gz", "runs.db-wal"])
def test_what_the_jobs_own_programs_made_is_removed(run: RunAddress, desk: Path, name: str) -> None:
    before = look(desk)
    trains(run)
    for each in (name, "net.pt", "runs.db"):
        (desk / each).parent.mkdir(exist_ok=True)
        (desk / each).touch()
    writes(
        run,
        (desk / "net.pt", "created"),
        (desk / "runs.db", "created"),
        *((desk / each, "named") for each in ("best.pt", "copy", "net.pt")),
    )

    assert settled(run, before=before)[Path(name).name]
    assert list(desk.iterdir()) == []
    assert compared(run) == []


def test_in_a_view_all_that_is_new_is_the_runs(run: RunAddress, desk: Path) -> None:
    before = look(desk)
    trains(run)
    (desk / "tally.txt").write_text("7")

    class Apart(Covering):
        """A view of the desk, whose files are seen in calls alone."""

        def call(self, function: Callable[..., Any], *words: Any, **named: Any) -> Any:
            hidden = desk.with_name("hidden")
            if hidden.exists():
                desk.rmdir()
                hidden.rename(desk)
            try:
                return function(*words, **named)
            finally:
                desk.rename(hidden)
                desk.mkdir()

    assert settled(run, view=Apart(desk), before=before) == {"tally.txt": True}
    assert list(desk.with_name("hidden").iterdir()) == []


def test_output_that_cannot_be_removed_ends_the_audit_by_name(
    run: RunAddress, desk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("net.pt", "other.pt"):
        (desk / name).touch()
    writes(run, (desk / "net.pt", "created"), (desk / "other.pt", "created"))
    unlink = Path.unlink

    def refused(path: Path, missing_ok: bool = False) -> None:
        if path.name == "net.pt":
            raise PermissionError
        unlink(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", refused)

    with pytest.raises(HarnessError, match=r"net.pt: the job made this file .* cannot be removed"):
        settled(run)
    assert [path.name for path in desk.iterdir()] == ["net.pt"]


def test_a_line_that_a_full_disk_took_a_part_of_hides_no_other(run: RunAddress, desk: Path) -> None:
    (desk / "net.pt").touch()
    line = {"pid": 1, "path": str(desk / "net.pt"), "how": "created", "is_output": True}
    text = '{"pid": 1, "path": "/half' + json.dumps(line)
    (run.directory / "nodes/node-0/written.jsonl").write_text(f"{text}\n")

    assert settled(run) == {"net.pt": True}
