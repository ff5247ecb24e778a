"""Folders that go with the processes that hold them; the holders here are real ones."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from chaos.errors import HarnessError
from chaos.run import held_folders

HOLDS = """
import sys
from pathlib import Path
from chaos.run import held_folders
held_folders.TMP = Path(sys.argv[1])
folder = held_folders.make("chaos-test-")
(folder / "inside").mkdir()
if sys.argv[2] == "attends":
    held_folders.start_attendant(folder)
print(folder, flush=True)
sys.stdin.read()
"""
WAITS = "import sys; print(flush=True); sys.stdin.read()"


@pytest.fixture(autouse=True)
def tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(held_folders, "TMP", tmp_path)
    return tmp_path


class Holder:
    """A process that makes a folder and holds it."""

    def __init__(self, tmp: Path, how: str = "alone") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", HOLDS, str(tmp), how],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        self.folder = Path(self.process.stdout.readline().strip())

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def holder(tmp: Path) -> Iterator[Holder]:
    started = Holder(tmp)
    yield started
    started.kill()


@pytest.fixture
def belonging(holder: Holder) -> Iterator["subprocess.Popen[bytes]"]:
    """Start a process that is the folder's by its environment, in a session of its own."""
    yield from waiting({**os.environ, held_folders.HELD_ENV: str(holder.folder)})


@pytest.fixture
def stranger() -> Iterator["subprocess.Popen[bytes]"]:
    yield from waiting(dict(os.environ))


def waiting(env: dict[str, str]) -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen(
        [sys.executable, "-c", WAITS],
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    process.stdout.readline()
    yield process
    process.kill()
    process.communicate()


def test_what_is_held_is_left_alone(holder: Holder, belonging: "subprocess.Popen[bytes]") -> None:
    held_folders.sweep()

    assert (holder.folder / "inside").is_dir()
    assert belonging.poll() is None


def test_what_a_killed_process_held_is_removed_and_what_belongs_to_it_is_ended(
    holder: Holder, belonging: "subprocess.Popen[bytes]", stranger: "subprocess.Popen[bytes]"
) -> None:
    holder.kill()

    held_folders.sweep()

    assert not holder.folder.exists()
    assert belonging.wait(10) == -signal.SIGKILL
    assert stranger.poll() is None


def test_where_a_process_attends_nothing_is_left_after_a_kill_and_nobody_has_to_sweep(
    tmp: Path,
) -> None:
    holder = Holder(tmp, "attends")
    (attending,) = psutil.Process(holder.process.pid).children()

    holder.kill()

    assert psutil.wait_procs([attending], timeout=30)[1] == []
    assert not holder.folder.exists()


def test_a_folder_that_is_removed_is_attended_to_no_longer() -> None:
    others = set(psutil.Process().children())
    folder = held_folders.make("chaos-test-")
    held_folders.start_attendant(folder)
    (attending,) = set(psutil.Process().children()) - others

    held_folders.remove(folder)

    assert not folder.exists()
    assert not attending.is_running()


def test_a_folder_of_a_name_is_kept_as_long_as_one_of_several_holds_it(
    holder: Holder,
) -> None:
    held_folders.hold(holder.folder)
    holder.kill()

    held_folders.sweep()
    assert holder.folder.exists()

    held_folders.remove(holder.folder)
    assert not holder.folder.exists()


def test_a_folder_that_was_swept_is_made_anew_for_the_next_that_holds_it() -> None:
    folder = held_folders.build_path("chaos-run-0a1b2c3d")

    held_folders.hold(folder)
    (folder / "of the first").touch()
    held_folders.remove(folder)
    held_folders.hold(folder)

    assert list(folder.iterdir()) == []
    assert folder.stat().st_mode & 0o777 == 0o700
    held_folders.remove(folder)


def test_what_bears_no_such_name_is_never_touched(tmp: Path) -> None:
    for name in ("chaos-ray-abcdefgh", "other.held", "chaos-run-0a1b2c3d"):
        (tmp / name).mkdir()
    (tmp / "chaos-link.held").symlink_to(tmp / "other.held")
    (tmp / "chaos-file.held").touch()

    held_folders.sweep()

    assert len(list(tmp.iterdir())) == 5


def test_what_is_started_meanwhile_belongs_to_the_folder_and_what_comes_later_does_not(
    tmp: Path,
) -> None:
    with held_folders.bind_processes(tmp):
        assert os.environ[held_folders.HELD_ENV] == str(tmp)
        with held_folders.bind_processes(tmp / "inner"):
            pass
        assert os.environ[held_folders.HELD_ENV] == str(tmp)

    assert held_folders.HELD_ENV not in os.environ


def test_a_folder_that_is_there_already_is_kept_to_this_user(tmp: Path) -> None:
    folder = held_folders.build_path("chaos-known")
    folder.mkdir(mode=0o755)

    held_folders.hold(folder)

    assert folder.stat().st_mode & 0o777 == 0o700
    held_folders.release(folder)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give a folder away")
def test_another_users_folder_is_not_held(tmp: Path) -> None:
    folder = held_folders.build_path("chaos-theirs")
    folder.mkdir()
    os.chown(folder, 65534, 65534)

    with pytest.raises(HarnessError, match="another user's"):
        held_folders.hold(folder)

    assert folder not in held_folders._locks


def test_what_is_below_a_process_of_a_folder_ends_with_it(tmp: Path, holder: Holder) -> None:
    """Ray's workers write their titles over the environment that they would be found by."""
    below = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WAITS!r}], env={{}})"
    with subprocess.Popen(
        [sys.executable, "-c", below],
        env={**os.environ, held_folders.HELD_ENV: str(holder.folder)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        [child] = psutil.Process(process.pid).children()
        holder.kill()

        held_folders.sweep()

        # Which of the two is killed first is chance, and the parent ends with its child.
        assert process.wait(10) in {-signal.SIGKILL, 0}
        child.wait(10)


def test_who_writes_in_a_folder_that_nobody_holds_is_ended(tmp: Path, holder: Holder) -> None:
    """A worker of Ray's whose raylet died first has neither an environment nor a parent."""
    below = (
        "import subprocess, sys; log = open(sys.argv[1], 'a'); "
        f"subprocess.Popen([sys.executable, '-c', {WAITS!r}], env={{}}, stderr=log)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", below, str(holder.folder / "raylet.out")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.wait(10)
        [worker] = [
            each
            for each in psutil.process_iter()
            if any(file.path == str(holder.folder / "raylet.out") for file in _open_files(each))
        ]

        held_folders.sweep()

        assert worker.is_running()

        holder.kill()
        held_folders.sweep()

        psutil.wait_procs([worker], timeout=10)
        assert not worker.is_running()


@pytest.mark.parametrize("with_writers", [True, False])
def test_a_step_of_slurms_ends_with_its_folder_though_a_title_hides_its_environment(
    with_writers: bool,
) -> None:
    folder = held_folders.make("chaos-test-")
    with (
        (folder / "slurmd.log").open("a") as log,
        subprocess.Popen(
            [sys.executable, "-c", WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as step,
    ):
        assert step.stdout is not None
        step.stdout.readline()
        log.close()  # this process writes in it no more

        held_folders.remove(folder, with_writers=with_writers)

        ended, _ = psutil.wait_procs([psutil.Process(step.pid)], timeout=10 * with_writers)
        assert bool(ended) == with_writers
        step.kill()


def test_who_reads_in_it_is_not(tmp: Path, holder: Holder) -> None:
    (holder.folder / "raylet.out").touch()
    with (
        (holder.folder / "raylet.out").open() as log,
        subprocess.Popen(
            [sys.executable, "-c", WAITS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log
        ) as reader,
    ):
        assert reader.stdout is not None
        reader.stdout.readline()
        holder.kill()

        held_folders.sweep()

        assert reader.poll() is None
        reader.kill()


def _open_files(process: psutil.Process) -> list[Any]:
    try:
        return list(process.open_files())
    except psutil.Error:
        return []
