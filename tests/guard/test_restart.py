"""What a start knows of the starts before it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from chaos.guard.folder import Folder
from chaos.guard.records import Step
from chaos.guard.restart import Restarted, findable, is_same_job_as
from chaos.guard.steps import name_of, salted
from tests.guard.test_judge import entry, save, start, state


def test_a_start_by_the_same_command_is_the_same_job(monkeypatch: pytest.MonkeyPatch) -> None:
    before = start(0)
    monkeypatch.setattr(sys, "orig_argv", list(before.command))
    assert is_same_job_as([start(0, command=("python", "other.py")), before])
    assert not is_same_job_as([before, start(1, command=("python", "other.py"))])


def test_a_start_beside_one_that_is_running_is_another_job(monkeypatch: pytest.MonkeyPatch) -> None:
    command = (sys.executable, "-c", "print(flush=True); input()")
    monkeypatch.setattr(sys, "orig_argv", list(command))
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as running:
        assert running.stdout is not None
        assert running.stdout.readline()
        here = start(0, command=command, pid=running.pid, host=socket.gethostname())
        elsewhere = start(0, command=command, pid=running.pid, host="another")
        # The number of its process, which another one has had in its container.
        own = start(0, command=command, pid=os.getpid(), host=socket.gethostname())
        assert (is_same_job_as([here]), is_same_job_as([elsewhere])) == (False, True)
        assert is_same_job_as([own])
        running.communicate(b"\n")
    assert is_same_job_as([here])


@pytest.mark.parametrize(
    ("path", "command", "is_found"),
    [
        ("/scratch/tmpq4n_x2ab/last.pt", "python train.py", False),
        ("/scratch/tmpq4n_x2ab.pt", "python train.py", False),
        ("/scratch/tmpq4n_x2ab/last.pt", "python train.py --out /scratch/tmpq4n_x2ab", True),
        ("/scratch/template/last.pt", "python train.py", True),
    ],
)
def test_a_file_under_a_drawn_name_is_none_to_go_on_from(
    monkeypatch: pytest.MonkeyPatch, path: str, command: str, is_found: bool
) -> None:
    monkeypatch.setattr(sys, "orig_argv", command.split())
    here = f"{Path.cwd()}/last.pt"

    found = findable(msgspec.structs.replace(save(8), files={path: (1, 1.0), here: (1, 1.0)}))

    assert list(found.files) == [path] * is_found + [here]


@pytest.mark.parametrize("of_before", ["keyed", "of an older version", "keyed by a salt now gone"])
def test_steps_are_compared_by_digests_that_have_the_same_key(
    tmp_path: Path, of_before: str
) -> None:
    folder = Folder(str(tmp_path))
    plain = [Step(number, 0.5, f"{number:016x}", f"{number:08x}") for number in range(1, 13)]
    by = {"keyed": folder.salt(), "of an older version": b"", "keyed by a salt now gone": b"gone"}
    old = by[of_before]
    folder.keep_start(start(0, salt=name_of(old) if old else ""))
    trail = folder.trail(0, 0, 1)
    for step in plain:
        trail.add(salted(step, old) if old else step)
    folder.keep_save(save(8))
    own = start(1, began_s=20.0)
    restarted = Restarted(folder, entry(state(8)), own)
    restarted.begin(first_step_s=1.0)
    for step in plain[8:]:
        restarted.made(salted(step, folder.salt()))
    restarted.ended()
    (found,) = folder.restarts()
    assert found.same_inputs == (0 if old == b"gone" else 4)
    assert found.findings == ()


def test_a_word_that_accepts_nothing_is_said() -> None:
    begins = (
        "from chaos.guard.process import Use, begin; "
        "begin('guard', Use(accepted=frozenset({'shedule', 'older'})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", begins], capture_output=True, text=True, check=True
    )

    assert "CHAOS_GUARD_ACCEPTS has shedule, which accepts nothing" in done.stderr
    assert "older, " not in done.stderr.partition(";")[0]
