"""What a script does before its `fit()` is done once for all lanes, and anew at every new start."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from chaos.audit.plans import build_base_plan
from chaos.faults.kill_driver import KillDriver
from chaos.launch.forked import handles
from chaos.launch.forked.backend import ForkBackend
from chaos.model.event import DriverExited, FitCalled, ScriptRaised, StepDone
from chaos.model.fault_entry import FaultEntry
from chaos.model.history import History
from chaos.model.trigger import AtStep
from chaos.run.directory import create_run
from chaos.run.journal import read_history
from chaos.run.modules import ModuleFile
from tests.forked.conftest import ROOT, RunJob

pytestmark = pytest.mark.timeout(180)
DRAWS = ROOT / "tests/forked/jobs/draws.py"
BY_HASH = ROOT / "tests/forked/jobs/by_hash.py"
KILL_DRIVER = FaultEntry(at=AtStep(epoch=1, step=2, rank=0), kill_driver=KillDriver())


def execute(backend: ForkBackend, folder: Path, name: str, script: Path = DRAWS) -> History:
    plan = build_base_plan(script, (), cwd=folder, seed=0, workers=1)
    directory = create_run(folder, name, plan, {})
    backend.execute(directory.load_plan(), directory, lambda _: None)
    return read_history(directory.journals)


def drawn(history: History) -> list[list[str]]:
    """Return the parts of the name that each start has drawn."""
    return [
        str(event.original_settings["name"]).split("-")
        for _, event in history.select_events(FitCalled)
    ]


def losses(history: History) -> list[object]:
    return [event.losses for _, event in history.select_events(StepDone)]


def test_lanes_go_on_from_one_start_and_a_new_start_draws_anew(tmp_path: Path) -> None:
    with ForkBackend() as first, first.open_parallel() as lane, first.open_fresh() as other:
        ours = execute(first, tmp_path, "first")
        with ThreadPoolExecutor(2) as threads:
            beside = threads.submit(execute, lane, tmp_path, "lane")
            again = threads.submit(execute, first, tmp_path, "again")
        theirs = execute(other, tmp_path, "other")

    assert drawn(beside.result()) == drawn(again.result()) == drawn(ours)
    assert losses(beside.result()) == losses(again.result()) == losses(ours)
    [mine], [foreign] = drawn(ours), drawn(theirs)
    assert all(part != its for part, its in zip(mine, foreign, strict=True))
    assert losses(theirs) != losses(ours)


@pytest.mark.nightly
def test_a_new_start_has_the_same_hash_seed_unless_another_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONHASHSEED", raising=False)
    plan = build_base_plan(BY_HASH, (), cwd=tmp_path, seed=0, workers=1)
    with (
        ForkBackend() as first,
        first.open_fresh() as same,
        first.open_fresh(reseeded_plan=plan) as other,
    ):
        ours = execute(first, tmp_path, "first", BY_HASH)
        again = execute(same, tmp_path, "same", BY_HASH)
        theirs = execute(other, tmp_path, "other", BY_HASH)
        before = len(handles.ROOTS._processes)

    assert losses(again) == losses(ours) != losses(theirs)
    assert (
        len(handles.ROOTS._processes) == before - 1
    )  # the other one's holds the memory of its imports


def test_a_lane_that_is_closed_leaves_the_others_at_work(tmp_path: Path) -> None:
    with ForkBackend() as first:
        ours = execute(first, tmp_path, "first")
        with first.open_parallel() as lane:
            execute(lane, tmp_path, "lane")
        assert drawn(execute(first, tmp_path, "again")) == drawn(ours)


@pytest.mark.nightly
def test_a_driver_that_is_started_again_draws_anew_and_trains_on_other_data(run: RunJob) -> None:
    baseline = run(script=DRAWS).history

    judged = run(script=DRAWS, ops=(KILL_DRIVER,), baseline=baseline)

    before, after = drawn(judged.history)
    assert [before] == drawn(baseline)
    assert before != after
    assert judged.verdict.status == "fail"


def test_a_script_that_cannot_be_started_again_ends_the_run_with_its_own_error(
    run: RunJob,
) -> None:
    judged = run(script=DRAWS, ops=(KILL_DRIVER,), once=True)

    assert [event.code for _, event in judged.history.select_events(DriverExited)] == [-9, 1]
    assert [event.error for _, event in judged.history.select_events(ScriptRaised)] == [
        "FileExistsError"
    ]
    assert judged.result("outcome") == "fail"


def test_a_script_that_never_comes_to_its_fit_is_told_the_limit(
    run: RunJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handles, "START_S", 0.0)
    script = tmp_path / "downloads.py"
    script.write_text("import time\ntime.sleep(600)\n")

    judged = run(script=script, run_s=1.0)

    [raised] = [event for _, event in judged.history.select_events(ScriptRaised)]
    assert "did not come to its fit() within 1 s (limits.run_s" in raised.message


@pytest.mark.nightly
@pytest.mark.parametrize("whose", ["lane", "start", "root"])
def test_the_run_after_somebody_killed_what_it_is_forked_from_has_a_new_one(
    whose: str, tmp_path: Path
) -> None:
    with ForkBackend() as backend:
        execute(backend, tmp_path, "first")
        assert backend._lane is not None
        zygote = backend._lane.zygote
        pids = {
            "root": next(iter(handles.ROOTS._processes.values()))._process.pid,
            "start": zygote.pid,
            "lane": backend._lane.pid,
        }
        below = [psutil.Process(pids[name]) for name in list(pids)[list(pids).index(whose) :]]
        below[0].kill()
        psutil.wait_procs(below, timeout=5)  # the kernel ends what is below it

        again = execute(backend, tmp_path, "again")

    assert losses(again)


def test_a_module_is_run_from_the_working_directory_with_its_package(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "near.py").touch()
    file = package / "draws.py"
    file.write_text(f"from . import near\n{DRAWS.read_text(encoding='utf-8')}", encoding="utf-8")
    plan = build_base_plan(
        ModuleFile(file, "pkg.draws", "pkg"), (), cwd=tmp_path, seed=0, workers=1
    )
    directory = create_run(tmp_path, "module", plan, {})

    with ForkBackend() as backend:
        backend.execute(directory.load_plan(), directory, lambda _: None)

    history = read_history(directory.journals)
    assert not [*history.select_events(ScriptRaised)]
    assert history.count(StepDone)
