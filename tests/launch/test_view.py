"""A view shows what was there before, keeps what is written in it apart, and leaves nothing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from chaos.errors import HarnessError, NoViewError
from chaos.processes.view import HeldView, ViewFolders, enter_view, find_view_obstacle

ROOM = 2**20
WHY_NONE = find_view_obstacle()
real = pytest.mark.skipif(WHY_NONE is not None, reason=f"no views here: {WHY_NONE}")


def sights(*paths: Path, made: tuple[Path, ...] = (), kept: tuple[Path, ...] = ()) -> ViewFolders:
    return ViewFolders.from_paths(
        map(str, paths),
        created_paths={str(path) for path in made},
        untouched_paths=[*map(str, kept)],
        max_bytes=ROOM,
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "home/mine.txt").write_text("mine")
    return tmp_path / "home"


@pytest.fixture
def views(home: Path) -> Iterator[list[HeldView]]:
    seen = sights(home / "run/last.pt", made=(home / "run",), kept=(home / "reports",))
    (home / "reports").mkdir()
    with HeldView(seen) as one, HeldView(seen) as other:
        yield [one, other]


def test_the_overlaid_folder_is_the_nearest_that_the_job_has_not_made(home: Path) -> None:
    (home / "run").mkdir()

    assert sights(home / "run/last.pt", made=(home / "run",)).folders == (str(home),)
    assert sights(home / "run/last.pt").folders == (str(home / "run"),)


def test_a_link_to_a_folder_is_followed(home: Path) -> None:
    (home.parent / "link").symlink_to(home)

    assert sights(home.parent / "link/last.pt").folders == (str(home),)


def test_what_is_kept_below_an_overlaid_folder_is_seen_in_all_views(home: Path) -> None:
    found = sights(home / "last.pt", kept=(home / "reports", home.parent / "elsewhere"))

    assert found.untouched_paths == (str(home / "reports"),)
    assert found.covers(str(home / "last.pt"))
    assert found.covers(str(home / "reports-2"))
    assert not found.covers(str(home / "reports/0"))
    assert not found.covers(str(home.parent / "last.pt"))


def test_the_root_is_not_overlaid() -> None:
    with pytest.raises(NoViewError, match="in /"):
        sights(Path("/not-there/last.pt"))


@real
def test_a_lane_sees_what_was_there_and_none_of_another_lanes_files(
    home: Path, views: list[HeldView]
) -> None:
    one, other = views
    one.call(os.makedirs, home / "run")
    one.call(Path.write_text, home / "run/last.pt", "one")
    one.call(Path.write_text, home / "mine.txt", "one's")

    assert one.call(Path.read_text, home / "run/last.pt") == "one"
    assert sorted(other.call(os.listdir, home)) == ["mine.txt", "reports"]
    assert other.call(Path.read_text, home / "mine.txt") == "mine"
    assert sorted(os.listdir(home)) == ["mine.txt", "reports"]  # noqa: PTH208
    assert (home / "mine.txt").read_text() == "mine"


@real
def test_a_folder_that_is_kept_is_the_machines(home: Path, views: list[HeldView]) -> None:
    views[0].call(Path.write_text, home / "reports/seen", "here")

    assert (home / "reports/seen").read_text() == "here"


@real
def test_an_error_in_a_view_is_the_callers(home: Path, views: list[HeldView]) -> None:
    with pytest.raises(FileNotFoundError):
        views[0].call(Path.read_text, home / "not-there")
    with pytest.raises(OSError, match="No space left"):
        views[0].call(Path.write_bytes, home / "large", b"0" * 2 * ROOM)


@real
def test_a_process_and_its_children_enter_a_view(home: Path, views: list[HeldView]) -> None:
    words = "import sys; from pathlib import Path; Path('by-child').write_text(Path.cwd().name)"
    if (pid := os.fork()) == 0:
        try:
            os.chdir(home)
            enter_view(views[0].pid)
            os._exit(subprocess.run([sys.executable, "-c", words], check=False).returncode)
        finally:
            os._exit(1)

    assert os.waitpid(pid, 0)[1] == 0
    assert views[0].call(Path.read_text, home / "by-child") == "home"
    assert not (home / "by-child").exists()


@real
def test_nothing_is_left_of_a_view_whose_harness_was_killed(home: Path) -> None:
    words = (
        "import sys, time; from pathlib import Path; from chaos.processes.view import *; "
        f"v = HeldView(ViewFolders(({str(home)!r},))); "
        f"v.call(Path.write_text, Path({str(home)!r}) / 'last.pt', 'x'); "
        "print(v.pid, flush=True); time.sleep(60)"
    )
    harness = subprocess.Popen([sys.executable, "-c", words], stdout=subprocess.PIPE, text=True)
    assert harness.stdout is not None
    holder = psutil.Process(int(harness.stdout.readline()))

    harness.send_signal(signal.SIGKILL)
    harness.communicate()

    holder.wait(10)
    assert os.listdir(home) == ["mine.txt"]  # noqa: PTH208
    assert str(home) not in Path("/proc/self/mountinfo").read_text(encoding="utf-8")


@real
def test_a_holder_that_is_gone_is_said_so(views: list[HeldView]) -> None:
    psutil.Process(views[0].pid).kill()

    with pytest.raises(HarnessError, match="holds a lane's view is gone"):
        views[0].call(Path.cwd)
