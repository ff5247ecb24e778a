"""Jobs that cannot be trained here are refused by name; no process is started for it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import OtherLauncherError
from chaos.job_failure import build_job_error, extract_last_lines
from chaos.model.causes import find_causes
from chaos.model.event import (
    AnyEvent,
    FitRaised,
    FitReturned,
    GroupJoined,
    StepDone,
    WorkerStarted,
)
from chaos.report.outcome import FinishedRun
from chaos.run.clock import SystemClock
from chaos.run.directory import create_run
from chaos.run.journal import open_driver_journal, read_history
from chaos.runner import judge_run
from chaos.wording import shorten_text
from tests.torchrun.conftest import JOBS, plan_of


def ended(folder: Path, how: FitRaised | FitReturned, *earlier: AnyEvent) -> FinishedRun:
    plan = plan_of(JOBS / "ddp.py", cwd=folder)
    directory = create_run(folder / "reports", "run", plan, {})
    journal = open_driver_journal(directory.journals, SystemClock())
    for event in (*earlier, how):
        journal.add(event)
    history = read_history(directory.journals)
    return judge_run(directory, plan, history, None, duration_s=1.0)


def failed(folder: Path, message: str) -> FinishedRun:
    return ended(folder, FitRaised(error="ChildFailed", message=message, launcher="torchrun"))


@pytest.mark.parametrize(
    "message",
    [
        "AssertionError: Torch not compiled with CUDA enabled",
        "RuntimeError: Distributed package doesn't have NCCL built in",
        "RuntimeError: No CUDA GPUs are available",
        "ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!",
        "RuntimeError: Found no NVIDIA driver on your system.",
        "AttributeError: module 'torch._C' has no attribute '_cuda_setDevice'",
    ],
)
def test_a_job_that_asks_for_a_gpu_is_told_what_to_do(tmp_path: Path, message: str) -> None:
    run = failed(tmp_path, message)

    error = build_job_error(run.plan, run, log=tmp_path / "driver.log")

    assert error.problem.startswith("the job asks for a GPU, and torch finds none on this machine")
    assert "gloo" in (error.hint or "")


PLACE: dict[str, Any] = {"attempt": 0, "epoch": 0, "step": 0}
TRAINED = StepDone(**PLACE, rank=0, losses=(1.0,))
STARTED = [
    WorkerStarted(
        attempt=0, rank=rank, epoch=0, world_size=2, pid=rank, node_id="n", checkpoint=None
    )
    for rank in (0, 1)
]
COLLIDED = FitRaised(
    error="ChildFailed", message="FileNotFoundError: 'log.part'", launcher="torchrun"
)


def test_a_job_that_trains_by_itself_in_each_rank_and_fails_is_one_for_python(
    tmp_path: Path,
) -> None:
    run = ended(tmp_path, COLLIDED, *STARTED, TRAINED)

    error = build_job_error(run.plan, run, log=tmp_path / "driver.log")

    assert isinstance(error, OtherLauncherError)
    assert error.launcher == "python"
    assert error.problem == (
        "ddp.py failed under torchrun, where none of the 2 ranks joined a process group: a worker "
        "ended: FileNotFoundError: 'log.part'"
    )


@pytest.mark.parametrize(
    "earlier",
    [(*STARTED, GroupJoined(attempt=0, rank=0), TRAINED), (STARTED[0], TRAINED), STARTED],
    ids=["joined", "one rank", "untrained"],
)
def test_a_job_that_fails_in_a_group_or_before_it_trains_is_not_given_to_python(
    tmp_path: Path, earlier: Sequence[AnyEvent]
) -> None:
    run = ended(tmp_path, COLLIDED, *earlier)

    error = build_job_error(run.plan, run, log=tmp_path / "driver.log")

    assert not isinstance(error, OtherLauncherError)


def test_an_error_of_a_gpu_that_is_there_is_the_jobs_own(tmp_path: Path) -> None:
    run = failed(tmp_path, "torch.OutOfMemoryError: CUDA out of memory. GPU 0 has 79 GiB")

    error = build_job_error(run.plan, run, log=tmp_path / "driver.log")

    assert "fails without any fault: a worker ended" in error.problem


@pytest.mark.parametrize(
    ("message", "line"),
    [
        (
            "KeyError: 'scale'",
            "a:1: UserWarning: torch.cuda.amp.GradScaler is enabled, but CUDA is not available.",
        ),
        (
            "AssertionError: ",
            "    assert torch.cuda.is_available() and torch.cuda.device_count() > 0",
        ),
    ],
)
def test_a_gpu_that_is_missed_without_an_error_of_torchs_is_named_from_the_log(
    tmp_path: Path, message: str, line: str
) -> None:
    run, log = failed(tmp_path, message), tmp_path / "driver.log"
    log.write_text(f"starting\n{line}\n{message}\n", encoding="utf-8")

    error = build_job_error(run.plan, run, log=log)

    assert "; its log has: " in error.problem
    assert "cuda" in error.problem.partition("its log has: ")[2]
    assert (error.hint or "").startswith("If that is why: audit it on a machine with GPUs")


def test_a_command_that_asserts_a_gpu_and_says_nothing_is_named_from_its_log(
    tmp_path: Path,
) -> None:
    run = ended(tmp_path, FitRaised(error="AssertionError", message="", launcher="python"))
    log = tmp_path / "driver.log"
    log.write_text("    assert torch.cuda.is_available()\nAssertionError\n", encoding="utf-8")

    error = build_job_error(run.plan, run, log=log)

    assert "the command raised AssertionError: no message; its log has: assert" in error.problem


def test_a_warning_of_torchs_is_no_reason_for_another_error(tmp_path: Path) -> None:
    run, log = failed(tmp_path, "RuntimeError: selected index k out of range"), tmp_path / "log"
    warning = "UserWarning: torch.cuda.amp.GradScaler is enabled, but CUDA is not available."
    log.write_text(warning, encoding="utf-8")

    error = build_job_error(run.plan, run, log=log)

    assert error.problem.endswith("a worker ended: RuntimeError: selected index k out of range")


def test_a_job_that_ends_well_and_trains_nothing_is_quoted(tmp_path: Path) -> None:
    run = ended(tmp_path, FitReturned(metrics={}, checkpoint=None, launcher="torchrun"))
    log = tmp_path / "driver.log"
    log.write_text("hello\nUnable to locate sufficient 2 gpus. Exiting.\n", encoding="utf-8")

    error = build_job_error(run.plan, run, log=log)

    assert "ended without an error, and called no optimizer's step()" in error.problem
    assert error.problem.endswith("Unable to locate sufficient 2 gpus. Exiting")


def test_a_command_of_one_rank_that_is_said_to_have_two_is_told_so(tmp_path: Path) -> None:
    run = ended(tmp_path, FitReturned(metrics={}, checkpoint=None, launcher="python"))
    job = run.plan.job.model_copy(update={"launcher": "python"})
    plan = run.plan.model_copy(update={"job": job})

    error = build_job_error(plan, run, log=tmp_path / "driver.log")

    assert error.problem == (
        "the job ddp.py seems to have 1 rank, and `workers` says 2: none of its processes joined a "
        "process group"
    )
    assert error.hint == "Write `workers: 1` below `job:` if it trains alone."


def test_the_reason_is_the_worker_that_failed_and_not_one_that_torchrun_ended() -> None:
    gone = "RuntimeError: Connection closed by peer [127.0.0.1]:2"

    assert find_causes({0: gone, 1: "TypeError: x", 2: "ended by SIGTERM"}) == {1: "TypeError: x"}
    assert find_causes({0: "ended by SIGTERM"}) == {0: "ended by SIGTERM"}
    assert find_causes({0: gone, 1: "ended by SIGTERM"}) == {0: gone}
    assert find_causes({1: "ended by SIGTERM", 0: "ended by SIGKILL"}) == {0: "ended by SIGKILL"}


TRACEBACK = """
[rank1]: Traceback (most recent call last):
[rank1]:   File "/site/chaos/launch/torchrun/worker.py", line 41, in main
[rank1]:     runpy.run_path(script, run_name="__main__")
[rank1]:   File "<frozen runpy>", line 88, in _run_code
[rank1]:   File "/job/train.py", line 4, in <module>
[rank1]:     raise KeyError("scale")
[rank1]: \x1b[31mKeyError\x1b[0m: 'scale'
"""


def test_the_last_lines_of_a_log_have_no_colours_and_no_frames_of_chaos() -> None:
    assert extract_last_lines("first\n" + TRACEBACK) == (
        "first",
        "[rank1]: Traceback (most recent call last):",
        '[rank1]:   File "/job/train.py", line 4, in <module>',
        '[rank1]:     raise KeyError("scale")',
        "[rank1]: KeyError: 'scale'",
    )
    assert extract_last_lines("".join(f"line {n}\n" for n in range(30))) == tuple(
        f"line {n}" for n in range(20, 30)
    )


@pytest.mark.parametrize("name", ["driver.log", "zygote.log"])
def test_a_job_that_fails_by_itself_is_quoted_from_the_log_that_has_words(
    tmp_path: Path, name: str
) -> None:
    run = failed(tmp_path, "KeyError: \x1b[1m'scale'\x1b[0m")
    (tmp_path / "driver.log").write_text("")
    (tmp_path / name).write_text("reads its config\nKeyError: 'scale'\n")

    error = build_job_error(run.plan, run, log=tmp_path / "driver.log")

    assert error.log_lines == ("reads its config", "KeyError: 'scale'")
    assert error.problem.endswith("fails without any fault: a worker ended: KeyError: 'scale'")
    assert str(tmp_path / name) in error.hint


@pytest.mark.parametrize(
    ("text", "most", "short"),
    [
        ("few words", 20, "few words"),
        ("a text that is cut between words", 20, "a text that is cut …"),
        ("x" * 30, 20, "x" * 18 + " …"),
    ],
)
def test_words_of_others_are_cut_between_words(text: str, most: int, short: str) -> None:
    assert shorten_text(text, most) == short
    assert len(short) <= most
