"""What a start knows of the starts before it."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.records import RankStep
from chaos.extensions.guard.restart import RestartJudge, drop_unreachable_files, repeats_job
from chaos.extensions.guard.steps import name_salt, salt_step
from chaos.run.clock import SystemClock
from tests.accepted import expect_text
from tests.extensions.guard.saved_states import save, start, state
from tests.extensions.guard.test_judge import entry


def test_a_start_by_the_same_command_is_the_same_job() -> None:
    before, other = start(0), start(1, command=("python", "other.py"))
    again, of_another_run = start(2), start(2, run="/results/run-2")
    assert repeats_job([other, before], again)
    assert not repeats_job([before, other], again)
    assert not repeats_job([other, before], of_another_run)


def test_a_start_beside_one_that_is_running_is_another_job() -> None:
    command = (sys.executable, "-c", "print(flush=True); input()")
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe) as running:
        assert running.stdout is not None
        assert running.stdout.readline()
        known = {
            "command": command,
            "began_s": SystemClock().wall_ns() / 1e9,
            "host": socket.gethostname(),
        }
        here = start(0, pid=running.pid, **known)
        elsewhere = msgspec.structs.replace(here, host="another")
        # Numbers of processes are used again, at once in the next container.
        reused = msgspec.structs.replace(here, began_s=here.began_s - 3600)
        own = msgspec.structs.replace(here, pid=os.getpid())
        again = start(1, command=command)
        same = [repeats_job([one], again) for one in (here, elsewhere, reused, own)]
        assert same == [False, True, True, True]
        running.communicate(b"\n")
    assert repeats_job([here], again)


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
    path: str, command: str, is_found: bool
) -> None:
    own = start(0, command=tuple(command.split()), cwd="/scratch/tmpab_2cdef")
    here = f"{own.cwd}/last.pt"

    found = drop_unreachable_files(
        msgspec.structs.replace(save(8), files={path: (1, 1.0), here: (1, 1.0)}), own
    )

    assert list(found.files) == [path] * is_found + [here]


@pytest.mark.parametrize(
    ("given", "is_found"), [("/run/ck-1", True), ("/run/ck-2", False), ("", False), (None, False)]
)
def test_of_what_a_run_of_ray_has_stored_a_start_finds_what_ray_gave_it(
    given: str | None, is_found: bool
) -> None:
    stored, beside = "/run/ck-1/state.pt", "/disk/state.pt"
    known = msgspec.structs.replace(save(8), files={stored: (1, 1.0), beside: (1, 1.0)})

    found = drop_unreachable_files(known, start(1, launcher="ray", run="/run", given=given))

    assert list(found.files) == [stored] * is_found + [beside]


@pytest.mark.parametrize("of_before", ["keyed", "of an older version", "keyed by a salt now gone"])
def test_steps_are_compared_by_digests_that_have_the_same_key(
    tmp_path: Path, of_before: str
) -> None:
    folder = GuardFolder(str(tmp_path))
    plain = [RankStep(number, 0.5, f"{number:016x}", f"{number:08x}") for number in range(1, 13)]
    by = {
        "keyed": folder.ensure_salt(),
        "of an older version": b"",
        "keyed by a salt now gone": b"gone",
    }
    old = by[of_before]
    folder.write_start(start(0, salt=name_salt(old) if old else ""))
    trail = folder.begin_trail(0, 0, 1)
    for step in plain:
        trail.add(salt_step(step, old) if old else step)
    folder.write_save(save(8))
    own = start(1, began_s=20.0)
    restarted = RestartJudge(folder, entry(state(8)), own)
    restarted.begin(first_step_s=1.0)
    for step in plain[8:]:
        restarted.add_step(salt_step(step, folder.ensure_salt()))
    restarted.finish()
    (found,) = folder.load_restarts()
    assert found.same_inputs == (0 if old == b"gone" else 4)
    assert found.findings == ()


def test_a_word_that_accepts_nothing_is_said() -> None:
    begins = (
        "from chaos.extensions.guard.process import GuardPolicy, begin_guard; "
        "begin_guard('guard', GuardPolicy(accepted_subjects=frozenset({'shedule', 'older'})))"
    )
    done = subprocess.run(
        [sys.executable, "-c", begins], capture_output=True, text=True, check=True
    )

    expect_text(done.stderr)
    assert "older, " not in done.stderr.partition(";")[0]
