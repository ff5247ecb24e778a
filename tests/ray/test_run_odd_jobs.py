"""Hangs, stray processes, noise and unreachable places are told apart and never green."""

import json
import signal
import subprocess
from pathlib import Path

import psutil
import pytest

from tests.ray.command import ROOT, Ran, chaos, command, strays

pytestmark = [pytest.mark.ray, pytest.mark.nightly, pytest.mark.timeout(900)]

HERE = Path(__file__).parent
LEFT = ("hangs_after_resume", "leaves_a_process")
TOLD = ("never_reached", "not_deterministic")  # the embedded backend's tests have their like


def struck(scenarios: tuple[str, ...], reports: Path, *others: Path) -> Ran:
    files = [HERE / f"odd/{name}.chaos.yaml" for name in scenarios]
    return chaos("run", *files, *others, reports=reports)


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Strike the jobs that leave something behind."""
    return struck(LEFT, tmp_path_factory.mktemp("odd"))


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Strike the jobs of which it must be said why nothing follows."""
    return struck(TOLD, tmp_path_factory.mktemp("told"), HERE / "train_loop.chaos.yaml")


def headline(odd: Ran, scenario: str) -> str:
    run = next(run for run in odd.runs() if run.parent.name == scenario)
    return str(json.loads((run / "verdict.json").read_text())["headline"])


def test_there_is_no_odd_job_that_no_test_strikes() -> None:
    files = {path.name.partition(".")[0] for path in (HERE / "odd").glob("*.chaos.yaml")}

    assert files == {*LEFT, *TOLD}


def test_each_is_judged_as_its_scenario_expects(odd: Ran) -> None:
    assert odd.code == 0, odd.output


def test_each_of_the_others_is_judged_so_as_well(told: Ran) -> None:
    assert told.code == 0, told.output


def test_a_place_that_was_never_reached_says_how_far_the_rank_came(told: Ran) -> None:
    words = headline(told, "never_reached")

    assert "rank 0 never reached epoch 7, step 2; it came to epoch 2, step 4" in words


def test_a_hang_is_an_anomaly_with_the_stacks_of_the_rank(odd: Ran) -> None:
    run = next(run for run in odd.runs() if run.parent.name == "hangs_after_resume")
    stacks = "".join(path.read_text() for path in (run / "logs").glob("stacks-rank-0-*.txt"))

    assert "hung" in headline(odd, "hangs_after_resume")
    assert "tiny.py" in stacks


def test_a_process_that_outlives_the_run_is_named_and_ended(odd: Ran) -> None:
    assert "a process outlived the run" in headline(odd, "leaves_a_process")
    assert not any("time.sleep(90)" in line for line in command_lines())


def test_a_job_that_differs_before_any_fault_is_not_blamed_on_the_fault(told: Ran) -> None:
    assert "the job does not repeat itself here" in headline(told, "not_deterministic")


def test_interrupting_leaves_no_process_and_a_run_that_can_be_judged(tmp_path: Path) -> None:
    scenario = ROOT / "scenarios/smoke/worker_killed_mid_epoch.chaos.yaml"
    words = command("run", scenario, "--reports", tmp_path)
    followed_by_others = address_that_others_follow()
    # A test runner in the background passes on that SIGINT is ignored; a terminal would not.
    with subprocess.Popen(
        words,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if "attempt 0 started" in line:
                process.send_signal(signal.SIGINT)
                break
        process.stdout.read()
        assert process.wait(120) == 130
    assert strays() == []
    assert address_that_others_follow() == followed_by_others
    run = next((tmp_path / ".baselines").iterdir())
    verdict = json.loads((run / "verdict.json").read_text())
    assert verdict["status"] == "inconclusive"


def address_that_others_follow() -> str | None:
    """Return what `ray.init("auto")` of other programs reads; Ray's Cluster overwrites it."""
    file = Path("/tmp/ray/ray_current_cluster")
    return file.read_text() if file.exists() else None


def command_lines() -> list[str]:
    return [_line(process) for process in psutil.process_iter()]


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""
