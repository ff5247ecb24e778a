"""Forked workers under torchelastic's own agent are, to script and verdict, torchrun's own."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psutil
import pytest

from chaos.launch.commands import roots
from chaos.launch.commands.roots import RootProcesses
from chaos.launch.torchrun.backend import TorchrunBackend
from chaos.model.event import (
    FailureDecided,
    FileLoaded,
    FitRaised,
    Leftover,
    StepDone,
    WorkerGroupStarted,
)
from chaos.model.fault_entry import FaultEntry
from chaos.model.plan import Plan, PlanBackend
from chaos.report.outcome import FinishedRun
from chaos.run.clock import SystemClock
from tests.torchrun.conftest import JOBS, RunJob, Runs, plan_of
from tests.torchrun.test_runs import killed, killed_as_it_recovers, killed_in_save

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(600)]
BOTH: tuple[PlanBackend, ...] = ("fork", "torchrun")


def outcome(run: FinishedRun) -> dict[str, Any]:
    """Return what a run came to; losses are those of the last attempt, to the last bit."""
    started = [event.attempt for _, event in run.history.select_events(WorkerGroupStarted)]
    steps = [
        event for _, event in run.history.select_events(StepDone) if event.attempt == started[-1]
    ]
    losses = sorted((e.rank, e.epoch, e.step, str(e.losses)) for e in steps)
    return {
        "verdict": run.verdict.status,
        "checks": [(r.check, r.status) for r in run.verdict.results],
        "attempts": started,
        "decided": [(e.attempt, e.decision) for _, e in run.history.select_events(FailureDecided)],
        "restarts": run.verdict.restarts,
        "loaded": sorted(
            (e.attempt, e.rank, e.digest) for _, e in run.history.select_events(FileLoaded)
        ),
        "losses": losses,
    }


def facts(run: Path) -> dict[tuple[str, str], Any]:
    """Return what `facts.py` printed, by rank and name."""
    lines = (run / "logs/driver.log").read_text().splitlines()
    told = [line.split(" ", 2)[1:] for line in lines if line.startswith("FACT ")]
    found: dict[tuple[str, str], Any] = {}
    for rank, rest in told:
        cut = min(at for sign in '[{"0123456789tfn-' if (at := rest.find(f" {sign}")) > 0)
        with contextlib.suppress(json.JSONDecodeError):
            found[rank, rest[:cut]] = json.loads(rest[cut:])
    return found


@pytest.mark.nightly
def test_a_kill_has_one_outcome_on_both_beside_one_run_without_a_fault(runs: Runs) -> None:
    script, kill = JOBS / "ddp.py", killed(1, 2, rank=1)
    plans = [plan_of(script, kill, cwd=runs.folder, retries=1, backend=name) for name in BOTH]
    clean = runs.of(
        plans[0].build_baseline_plan()
    )  # the real one's costs three more imports of torch

    embedded, real = (runs.of(plan, clean.history) for plan in plans)

    assert embedded.verdict.status == "pass", embedded.verdict.headline
    assert outcome(embedded) == outcome(real)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("job", "faults"),
    [
        ("ddp", [killed_in_save(2)]),
        ("ddp", [killed(2, 2, rank=0), killed_as_it_recovers(rank=1)]),
        ("ddp", [killed(1, 3, rank=0), killed(2, 3, rank=1)]),
        ("fsdp", [killed(1, 3, rank=1)]),
        ("within", [killed(2, 1, rank=1)]),
        ("torn", [killed_in_save(1)]),
        ("optimizer_lost", [killed(2, 2, rank=1)]),
    ],
)
def test_every_kill_has_one_outcome_on_both(
    run: RunJob, job: str, faults: list[FaultEntry]
) -> None:
    embedded, real = (run(job, *faults, backend=name) for name in BOTH)

    assert outcome(embedded) == outcome(real)


@pytest.mark.nightly
def test_a_script_sees_the_process_that_torchrun_would_start(runs: Runs) -> None:
    seen, drawn = {}, defaultdict(list)
    for backend in (*BOTH, "fork"):
        args = ("a", "--b=1", "")
        plan = plan_of(JOBS / "facts.py", cwd=runs.folder, backend=backend, args=args)
        done = runs.of(plan)
        found = facts(Path(done.directory))
        seen[backend] = {key: value for key, value in found.items() if key[1] != "RANDOM"}
        for (_, name), values in found.items():
            for number, value in enumerate(values if name == "RANDOM" else ()):
                drawn[number].append(value)

    assert ("1", "atexit") in seen["fork"]
    assert seen["fork"] == seen["torchrun"]
    assert all(len(set(values)) == 6 for values in drawn.values()), drawn


ENDS = {
    "sys.exit(3)": "SystemExit: 3",
    "os.abort()": "SIGABRT",
    "os._exit(7)": "exit code 7",
    "os.kill(os.getpid(), 9)": "SIGKILL",
    "raise ValueError('mine')": "ValueError",
}


@pytest.mark.parametrize(
    ("end", "told"),
    [
        pytest.param(end, told, marks=[] if "abort" in end else pytest.mark.nightly)
        for end, told in ENDS.items()
    ],
)
def test_a_worker_ends_as_a_process_does(runs: Runs, end: str, told: str) -> None:
    script = runs.folder / "ends.py"
    script.write_text(f"import os, sys\nif os.environ['RANK'] == '1':\n    {end}\n")

    done = runs.of(plan_of(script, cwd=runs.folder, backend="fork"))

    decided = [event for _, event in done.history.select_events(FailureDecided)]
    assert told in decided[0].errors[1]
    if end != "os.kill(os.getpid(), 9)":  # which no job does to itself: the run is tried again
        assert [event.error for _, event in done.history.select_events(FitRaised)] == [
            "ChildFailedError"
        ]


ESCAPES = """
import os, subprocess, sys
if os.environ["RANK"] == "0":
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    if os.fork() == 0:
        os.setsid()
        os.execvp("sleep", ["sleep", "601"]) if len(sys.argv) > 1 else __import__("time").sleep(600)
"""


@pytest.mark.nightly  # `tests/forked/test_backend.py` finds one in CI, by the same search
def test_processes_that_a_worker_leaves_behind_are_found(runs: Runs) -> None:
    script = runs.folder / "escapes.py"
    script.write_text(ESCAPES)

    done = runs.of(plan_of(script, cwd=runs.folder, backend="fork"))

    assert len([*done.history.select_events(Leftover)]) == 2


HARNESS = """
import sys
from pathlib import Path
from tests.torchrun.conftest import Runs, plan_of
from chaos.launch.torchrun.backend import TorchrunBackend
with TorchrunBackend() as backend:
    folder = Path(sys.argv[1])
    Runs(folder, backend).of(plan_of(folder / "waits.py", cwd=folder, backend="fork"))
"""


def test_nothing_outlives_a_harness_that_is_killed(tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("import time\nprint('here')\ntime.sleep(600)\n")
    root = Path(__file__).parents[2]
    harness = subprocess.Popen([sys.executable, "-c", HARNESS, str(tmp_path)], cwd=root)
    waiting = psutil.Process(harness.pid)
    try:
        while len(below := waiting.children(recursive=True)) < 5:  # root, agent, forker, two ranks
            assert harness.poll() is None
            SystemClock().sleep(0.1)  # the processor is for the harness
    finally:
        os.kill(harness.pid, signal.SIGKILL)
        harness.wait()

    _, alive = psutil.wait_procs(below, timeout=30)
    assert not alive


def test_runs_go_side_by_side_from_one_root(runs: Runs, torchrun: TorchrunBackend) -> None:
    def one(number: int) -> FinishedRun:
        text = (JOBS / "ddp.py").read_text().replace("checkpoint.pt", f"{number}.pt")
        script = runs.folder / f"ddp_{number}.py"
        script.write_text(text)
        plan = plan_of(script, cwd=runs.folder, backend="fork", args=("--epochs", "2"))
        with torchrun.open_parallel() as lane:
            return Runs(runs.folder, lane).of(plan.build_baseline_plan())

    with ThreadPoolExecutor(2) as threads:
        done = [*threads.map(one, range(2))]

    assert [run.verdict.status for run in done] == ["pass", "pass"], [
        run.verdict.headline for run in done
    ]


def test_jobs_share_a_root_unless_they_start_with_something_else(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    plan = plan_of(JOBS / "ddp.py", cwd=tmp_path)
    elsewhere = plan.model_copy(update={"cwd": "/"})
    started = Mock(side_effect=lambda *_, **__: Mock(is_alive=True))
    monkeypatch.setattr(roots, "ForkingProcess", started)
    mine = RootProcesses(TorchrunBackend.root, TorchrunBackend.root_env)

    def root(plan: Plan, hash_seed: str = "0") -> object:
        return mine.warm_up(plan, hash_seed=hash_seed, log=tmp_path / "log")

    first = root(plan)
    monkeypatch.setenv("PYTEST_CURRENT_TEST", "the next one")
    assert root(plan) is first
    others = [root(elsewhere), root(plan, "1")]
    monkeypatch.setenv("MKL_DYNAMIC", "FALSE")
    assert len({*others, root(plan), first}) == started.call_count == 4


def test_what_cannot_be_forked_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert TorchrunBackend.why_not_forked({}) is None
    assert "PYTHON_EXEC" in (TorchrunBackend.why_not_forked({"PYTHON_EXEC": "/opt/python"}) or "")
    monkeypatch.setattr(Path, "glob", lambda *_: iter([Path("/dev/nvidia0")]))
    assert "GPU" in (TorchrunBackend.why_not_forked({}) or "")
    assert TorchrunBackend.why_not_forked({"CUDA_VISIBLE_DEVICES": ""}) is None


@pytest.mark.parametrize("backend", ["fork", pytest.param("torchrun", marks=pytest.mark.nightly)])
def test_a_module_is_run_from_the_working_directory_with_its_package(
    runs: Runs, backend: PlanBackend
) -> None:
    package = runs.folder / "pkg"
    package.mkdir()
    (package / "near.py").touch()
    text = (JOBS / "ddp.py").read_text(encoding="utf-8")
    (package / "train.py").write_text(f"from . import near\n{text}", encoding="utf-8")
    plan = plan_of(
        package / "train.py", killed(1, 2, rank=1), cwd=runs.folder, retries=1, backend=backend
    )
    job = plan.job.model_copy(update={"script": None, "module": "pkg.train"})
    plan = plan.model_copy(update={"job": job})

    clean = runs.of(plan.build_baseline_plan())
    struck = runs.of(plan, clean.history)

    assert [clean.verdict.status, struck.verdict.status] == ["pass", "pass"]
    assert struck.history.count(FailureDecided) == 1
