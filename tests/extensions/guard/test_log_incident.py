"""The scenario of a restart that the log of a run shows; the logs are of real runs, paths apart."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chaos.errors import UsageError
from chaos.extensions.guard.log_incident import LogIncident, find_log_incident
from chaos.scenario_file.load import load_scenario
from tests.accepted import expect_text
from tests.called import Done, chaos

ROOT = Path(__file__).parents[3]
JOB = Path(__file__).with_name("jobs") / "stepped.py"
LOGS = Path(__file__).with_name("logs")
TORCHRUN = ("torchrun", "--standalone", "--nproc-per-node", "2", "--max-restarts=1")
RAY = ROOT / "docs/examples/spot/train.log"


def seen(name: str, **how: Any) -> LogIncident:
    # A bar's carriage returns are no ends of lines.
    return find_log_incident((LOGS / name).read_bytes().decode(), None, **how)


def written(log: Path, *command: str | Path, folder: Path, how: tuple[str, ...] = ()) -> Done:
    return chaos("guard", "scenario", log, *how, "--", *command, folder=folder)


def test_a_rank_that_torchrun_saw_killed_is_killed_after_the_last_step_that_is_logged() -> None:
    incident = seen("killed.log")

    assert (incident.training_place, incident.epoch_steps) == ((0, 15), 24)
    assert incident.loss == ("kill_worker", {}, 1)  # rank 0 raised, as it lost its connection
    assert incident.is_retried
    said = " ".join(incident.notes)
    expect_text(said)


def test_the_rank_that_raised_first_raises_though_another_one_was_seen_to_end() -> None:
    assert seen("raised.log").loss == ("raise_in_worker", {}, 1)
    assert "exitcode: -6) local_rank: 0" in (LOGS / "raised.log").read_text(encoding="utf-8")


def test_an_agent_that_ended_did_not_begin_again_itself() -> None:
    incident = seen("looped.log")

    assert (incident.training_place, incident.loss.rank) == ((0, 18), 1)
    assert not incident.is_retried


def test_the_place_is_behind_a_save_that_the_next_start_goes_on_from() -> None:
    # Steps 0, 10 and 20 are logged, 23 was saved, 27 was the last.
    incident = seen("alone.log")

    assert incident.training_place == (0, 31)
    assert not incident.is_retried
    assert "4: `line 1: 13087 Killed`" in " ".join(incident.notes)


@pytest.mark.parametrize(
    ("saved", "step"), [("saved checkpoint a.pt", 21), ("saved checkpoint at step 14", 15)]
)
def test_the_place_is_behind_a_save_that_is_logged_last(saved: str, step: int) -> None:
    log = (
        f"step 7/99\nstep 14/99\n{saved}\nfailed (exitcode: -15) local_rank: 0 (pid: 3)\nstep 21/99"
    )

    incident = find_log_incident(log, None)

    assert incident.training_place == (0, step)
    assert incident.loss == ("kill_worker", {"signal": "TERM"}, 0)


def test_the_last_step_of_a_bar_stands_on_the_line_on_which_torchrun_goes_on() -> None:
    incident = seen("bars.log")

    assert (incident.training_place, incident.loss) == ((0, 18), ("kill_worker", {}, 1))


EPOCHS = """\
epoch 1 step 20/50
epoch 1 step 40/50
epoch 2 step 20/50
failed (exitcode: 1) local_rank: 1 (pid: 3) of binary: python
resuming from checkpoint 1.pt
epoch 2 step 20/50
epoch 2 step 40/50
epoch 3 step 20/50
slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-11-20T10:05:00 DUE TO PREEMPTION ***
resuming from checkpoint 2.pt
epoch 3 step 20/50
"""


def test_steps_that_count_anew_in_each_epoch_are_placed_by_it() -> None:
    last, first = find_log_incident(EPOCHS, None), find_log_incident(EPOCHS, 1)

    assert (last.training_place, last.epoch_steps) == ((2, 20), 50)
    assert last.loss == ("kill_worker", {"ranks": "all"}, None)
    assert (first.training_place, first.loss) == ((1, 20), ("raise_in_worker", {}, 1))
    assert any("--restart N" in note and "(lines: 4)" in note for note in last.notes)
    with pytest.raises(UsageError, match="has no restart 3: the last is 2"):
        find_log_incident(EPOCHS, 3)


def test_of_several_nodes_the_rank_is_that_of_torchruns_table_alone() -> None:
    text = (LOGS / "looped.log").read_text(encoding="utf-8").replace("rank      : 1", "rank   : 5")

    assert find_log_incident(text, None, nodes=4).loss.rank == 5
    assert seen("killed.log", nodes=4).loss.rank is None


def test_with_ray_train_saves_are_taken_for_reports() -> None:
    incident = find_log_incident(RAY.read_text(encoding="utf-8"), None, has_reports=True)

    assert (incident.training_place, incident.epoch_steps) == ((3, 150), None)
    assert incident.is_retried


@pytest.mark.parametrize(
    ("error", "fault"),
    [
        ("ray.exceptions.ActorDiedError: The actor died unexpectedly", "kill_worker"),
        ("ValueError: a bad batch", "raise_in_worker"),
    ],
)
def test_ray_train_names_the_rank_and_what_became_of_it(error: str, fault: str) -> None:
    # As Ray 2.60 writes it, in `failure_handling/default.py`.
    log = (
        "(TrainController pid=7) Started training worker group of size 4: \n"
        "(RayTrainWorker pid=9) step 10/90\n"
        "(RayTrainWorker pid=9) Checkpoint successfully created at: Checkpoint(path=/s/1)\n"
        "(RayTrainWorker pid=9) step 20/90\n"
        "(TrainController pid=7) [FailurePolicy] RETRY\n"
        "(TrainController pid=7)   Source: worker group\n"
        "(TrainController pid=7) Error: Training failed due to worker errors:\n"
        "(TrainController pid=7) [Rank 2,3 Error Snippet]:\n"
        f"(TrainController pid=7) {error}\n"
        "(RayTrainWorker pid=9) step 20/90\n"
    )

    incident = find_log_incident(log, None, has_reports=True)

    assert (incident.training_place, incident.workers) == ((1, 10), 4)
    assert incident.loss == (fault, {}, 2)


FAILED = "failed (exitcode: -9) local_rank: 1 (pid: 3) of binary: python\n"


def test_a_log_that_ends_with_a_failure_shows_an_end_and_no_step_after_it() -> None:
    incident = find_log_incident(f" 0%| | 0/9 [00:00<?]\r 33%|#| 3/9 [00:09<00:18]\n{FAILED}", None)

    assert (incident.training_place, incident.loss.rank) == ((0, 3), 1)
    said = " ".join(incident.notes)
    assert "End of training 1 of 1" in said
    expect_text(said)


def test_a_bar_that_begins_is_no_step_that_was_made() -> None:
    with pytest.raises(UsageError, match="the log has no step of training"):
        find_log_incident(f" 0%| | 0/900 [00:00<?]\n{FAILED} 0%| | 0/900 [00:00<?]\n", None)

    log = f"  22%|#| 2/9 [00:09<]\n{FAILED}resuming training\n 0%| | 0/9 [<]\r 22%|#| 2/9 [00:01<]"
    expect_text("\n".join(find_log_incident(log, None).notes))


def test_what_ends_the_next_attempt_did_not_end_this_one() -> None:
    log = f"step 5/9\nLoaded checkpoint a.pt\n{FAILED}Loaded checkpoint a.pt\nstep 4/9\n"

    incident = find_log_incident(log, None)

    assert incident.loss == ("kill_worker", {}, None)
    expect_text("\n".join(incident.notes))


def test_a_first_step_after_a_load_may_be_another_trainings() -> None:
    incident = find_log_incident("step 1\nstep 2\nLoaded checkpoint base.pt\nstep 1\n", None)

    expect_text("\n".join(incident.notes))


@pytest.mark.parametrize("why", ["TIME LIMIT", "JOB REQUEUE", "PREEMPTION"])
def test_slurm_ends_all_ranks(why: str) -> None:
    log = f"step 5/9\nerror: *** JOB 7 ON n1 CANCELLED AT 2026-11-20T10:05:00 DUE TO {why} ***\n"

    incident = find_log_incident(f"{log}Loaded checkpoint a.pt\nstep 4/9\n", None)
    assert incident.loss == ("kill_worker", {"ranks": "all"}, None)


def test_steps_after_a_notice_are_of_the_attempt_that_ends() -> None:
    cancelled = "error: *** JOB 7 ON n1 CANCELLED AT 2026-11-20T10:05:00 DUE TO PREEMPTION ***\n"
    log = f"step 5/90\n{cancelled}step 5/90\nstep 6/90\nsaving checkpoint\nstep 7/90\n"

    incident = find_log_incident(f"{log}Loaded checkpoint a.pt\nstep 7/90\n", None)

    assert (incident.training_place, incident.loss.settings) == ((0, 7), {"ranks": "all"})
    expect_text(incident.notes[0])


def test_deepspeeds_first_line_does_not_make_the_jobs_count_from_0() -> None:
    log = f"[INFO] [Rank 0] step=0, skipped=0, lr=[5e-05]\n iteration 4/ 100 | lm loss: 1\n{FAILED}"

    assert find_log_incident(log, None).training_place == (0, 4)


def test_a_group_that_began_again_for_new_nodes_lost_nothing() -> None:
    joined = "[default] Detected 1 new nodes from group_rank=1; will restart worker group\n"

    with pytest.raises(UsageError, match="for new nodes, for which no fault stands"):
        find_log_incident(f"step 5/9\n{joined}step 4/9\n", None)


@pytest.mark.parametrize(
    ("before", "epoch", "step", "counted"),
    [
        ("", 0, 21, "epochs from 0"),
        ("", 1, 21, "epochs from 1"),
        ("Resuming from checkpoint-0.pth\n", 1, 71, "epochs from 0"),
        ("", 2, 121, "epochs from 0"),
    ],
)
def test_the_batch_of_an_epoch_is_found_by_its_index(
    before: str, epoch: int, step: int, counted: str
) -> None:
    line = "Epoch: [{}/9]  [{}/50]  eta: 0:02:23  loss: 1.3 (1.2)  time: 0.28  data: 0.006\n"

    incident = find_log_incident(
        f"{before}{line.format(epoch, 20)}{FAILED}{line.format(epoch, 0)}", None
    )

    assert incident.training_place == (0, step)
    assert counted in incident.notes[-2]


def test_epochs_of_other_numbers_of_ranks_are_not_counted_through() -> None:
    epoch = "Epoch: [{}][ 10/{}]\tTime  1.6 ( 1.8)\tLoss 5.7 (6.3)\n"

    with pytest.raises(UsageError, match="its epochs have 782 to 1563 steps"):
        find_log_incident(f"{epoch.format(1, 782)}{FAILED}{epoch.format(1, 1563)}", None)


@given(
    st.lists(
        st.sampled_from(
            [*EPOCHS.splitlines(), "step 0/0", " 0%| | 0/9 [00:01<00:02]", "saving checkpoint"]
        )
    )
)
@example([])
def test_any_lines_have_a_place_or_a_reason_why_not(lines: list[str]) -> None:
    for has_reports in (False, True):
        try:
            place = find_log_incident(
                "\n".join(lines), None, has_reports=has_reports
            ).training_place
        except UsageError:
            continue
        assert place.epoch >= 0
        assert place.step >= 1


def test_a_log_and_its_command_are_a_scenario(tmp_path: Path) -> None:
    file = tmp_path / "incident.chaos.yaml"
    command = (*TORCHRUN, JOB, "--steps", "24")

    done = written(LOGS / "killed.log", *command, folder=tmp_path, how=("-o", str(file)))

    assert (done.code, done.out, done.err) == (0, "", "")
    job = load_scenario(file).job
    assert (job.launcher, job.workers, job.restart) == ("torchrun", 2, None)
    assert (tmp_path / str(job.script)).resolve() == JOB
    assert job.args == {"steps": 24}
    looped = written(LOGS / "looped.log", *command, folder=tmp_path)
    assert '  restart: "command"\n' in looped.out
    alone = written(LOGS / "alone.log", "python", "-u", JOB, folder=tmp_path)
    assert '  launcher: "python"\n' in alone.out
    ray = written(RAY, "python3", ROOT / "scenarios/jobs/digits_ddp.py", folder=tmp_path)
    assert "launcher" not in ray.out
    assert "# The number of workers is not in it: 2 is taken.\n" in ray.out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "the log has no step of training"),
        (b"epoch 1: loss 0.3\n", "the log has no step of training"),
        (b"eval step 3/4\nvalidation step 5\n", "the log has no step of training"),
        (b"\x7fELF\x02\xff\xfe\x00", "log:1: this is not UTF-8 text"),
        (b"step 1/9\nstep 2/9\n", "the log has no restart"),
        (b"step 5/9\nstep 1/9\nfailed (exitcode: 1)\nstep 3/9\n", "steps fall in the log where"),
    ],
)
def test_a_log_that_shows_no_incident_is_refused_in_words(
    tmp_path: Path, content: bytes, words: str
) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(content)

    done = written(log, *TORCHRUN, JOB, folder=tmp_path)

    assert (done.code, done.out) == (3, "")
    assert words in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ((), "is a log, and holds no command"),
        (("srun", "train"), "the command is srun train, and no script"),
        (("python", "-m"), "the command is python -m, and no script"),
        (("torchrun", "--no-such", "a.py"), "torchrun does not take this command"),
        (("torchrun", "--nproc-per-node", "gpu", "a.py"), "--nproc-per-node gpu is a number of"),
        ((*TORCHRUN, "a.py"), "a.py: there is no such script"),
    ],
)
def test_a_command_that_no_scenario_can_have_is_refused(
    tmp_path: Path, command: tuple[str, ...], words: str
) -> None:
    done = written(LOGS / "killed.log", *command, folder=tmp_path)

    assert (done.code, done.out) == (3, "")
    assert words in done.err


def test_a_rank_that_the_command_has_not_is_named(tmp_path: Path) -> None:
    done = written(LOGS / "killed.log", "torchrun", "--nproc-per-node", "1", JOB, folder=tmp_path)

    assert "# Rank 1 is not among 1: 0 is taken.\n" in done.out
    assert "rank: 0}" in done.out


def test_a_scenario_has_no_other_form(tmp_path: Path) -> None:
    file = tmp_path / "incident.chaos.yaml"
    how = ("--format", "json", "-o", str(file))
    done = written(LOGS / "killed.log", *TORCHRUN, JOB, folder=tmp_path, how=how)

    assert (done.code, done.out) == (3, "")
    expect_text(done.err)
    assert not file.exists()


def test_a_log_that_is_not_there_is_no_command(tmp_path: Path) -> None:
    done = written(tmp_path / "train.log", *TORCHRUN, JOB, folder=tmp_path)

    assert "train.log: the log cannot be read: No such file or directory" in done.err


@pytest.mark.nightly
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("lost", "code"), [("optimizer", 1), ("", 0)])
def test_a_real_kill_is_done_again_from_its_log_and_fails_for_the_same_reason(
    tmp_path: Path, lost: str, code: int
) -> None:
    usual = {"OMP_NUM_THREADS": "1", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", "LOST": lost}
    command = [*TORCHRUN, str(JOB), "--steps", "24", "--shown", "5"]
    (tmp_path / "real").mkdir()
    log, file = tmp_path / "train.log", tmp_path / "incident.chaos.yaml"
    with log.open("w") as said:
        subprocess.run(
            [sys.executable, "-m", "torch.distributed.run", *command[1:]],
            cwd=tmp_path / "real",
            env=os.environ | usual | {"END_AT": "18", "HOW": "KILL"},
            stdout=said,
            stderr=said,
            check=True,
        )

    written(log, *command, folder=tmp_path, how=("-o", str(file)))
    done = subprocess.run(
        [sys.executable, "-m", "chaos", "run", str(file), "--backend", "fork"],
        cwd=tmp_path,
        env=os.environ | usual,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == code, done.stdout + done.stderr
    assert ("optimizer.momentum_buffer" in done.stdout) is bool(lost)
