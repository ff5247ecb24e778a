"""Real jobs under pytest: what passes, what fails, and what a person reads then."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.extensions.pytest_plugin.conftest import (
    KILL,
    PLUGIN,
    TINY,
    Session,
    environment,
    project,
    session,
)

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(300)]


def test_a_scenario_passes_fails_or_is_an_error_as_its_verdict_says(ran: Session) -> None:
    assert ran.code == 1
    assert "3 failed, 4 passed, 2 errors" in " ".join(ran.out.split())
    for name in ("forgets.chaos.yaml::seed-0", "test_first.py::test_is_not_called"):
        assert f"FAILED {name}" in ran.out
    for name in ("never.chaos.yaml::seed-0", "fails.chaos.yaml::seed-0"):
        assert f"ERROR {name}" in ran.out


def test_a_failure_names_the_anomaly_and_what_did_not_come_back(ran: Session) -> None:
    said = section(ran, "momentum is lost (seed 0)")

    assert said[0].startswith("expected pass; got fail")
    text = " ".join(" ".join(said).split())
    for part in ("optimizer.momentum_buffer", "trajectory", "chaos replay reports/forgets/0-"):
        assert part in text


def test_no_failure_shows_how_pytest_or_chaos_work_inside(ran: Session) -> None:
    for inside in (
        "_pytest/",
        "pluggy/",
        "Traceback",
        "chaos/extensions/pytest_plugin/",
        "harness.py",
    ):
        assert inside not in ran.out


def test_nothing_is_wider_than_the_terminal(ran: Session) -> None:
    said = section(ran, "momentum is lost (seed 0)") + section(ran, "never reached (seed 0)")

    assert max(map(len, said)) <= 80


def test_what_cannot_be_judged_is_an_error_that_says_why_and_no_pass(ran: Session) -> None:
    text = " ".join(section(ran, "never reached (seed 0)"))

    assert "expected pass; got inconclusive" in text
    assert "rank 0 never reached epoch 9, step 2" in " ".join(text.split())
    error = ran.case("never.chaos.yaml::seed-0").find("error")
    assert error is not None
    assert "inconclusive, faults-happened" in str(error.get("message"))


def test_a_job_that_fails_by_itself_is_an_error_at_its_line(ran: Session) -> None:
    text = " ".join(" ".join(section(ran, "does not start (seed 0)")).split())

    assert "fails.chaos.yaml:2: the job does_not_import.py fails without any fault" in text
    assert "ModuleNotFoundError" in text


def test_a_decorated_test_is_not_called_where_the_run_is_not_as_expected(ran: Session) -> None:
    text = " ".join(" ".join(section(ran, "test_is_not_called")).split())

    assert "it was called" not in ran.out
    assert "Rank 0 was killed at epoch 1, step 2; attempt 1 threw away 2 finished steps" in text


def test_a_claim_of_the_test_itself_fails_as_any_other_with_the_run_below(ran: Session) -> None:
    text = "\n".join(section(ran, "test_asks_too_much"))

    assert "assert result.lost_steps <= 1" in text
    assert "where 2 = <pass: 2 attempts, 2 steps lost>.lost_steps" in text
    assert "replay     chaos replay reports/test_first-test_asks_too_much/0-" in text


def test_junit_carries_what_ci_wants_to_count(ran: Session) -> None:
    of_file = ran.properties("survives.chaos.yaml::seed-0")
    of_test = ran.properties("test_first::test_survives")

    for found in (of_file, of_test):
        assert found["verdict"] == "pass"
        assert (found["seed"], found["attempts"], found["lost_steps"]) == ("0", "2", "2")
        assert found["backend"] == "fork"
        assert float(found["recovery_s"]) > 0
        assert found["version.ray"]
    failure = ran.case("forgets.chaos.yaml::seed-0").find("failure")
    assert failure is not None
    assert "optimizer.momentum_buffer" in str(failure.get("message"))


def test_the_suite_has_one_page_and_the_last_lines_name_it(ran: Session) -> None:
    lines = ran.out.splitlines()
    counted = next(n for n, line in enumerate(lines) if "as expected   ✗" in line)

    counts = ("✓ 5 as expected", "✗ 4 not as expected", "? 1 inconclusive", "! 1 could not run")
    assert lines[counted] == "   ".join(counts)
    page = ran.folder / lines[counted + 1].removeprefix("report: ")
    assert page.is_file()
    assert page.with_name("junit.xml").is_file()


@pytest.mark.nightly
def test_only_what_failed_last_is_run_again(tmp_path: Path) -> None:
    never = f"scenario: never reached\n{TINY}{KILL}".replace("epoch: 1", "epoch: 9")
    good = f"scenario: killed\n{TINY}{KILL}"
    project(tmp_path, {"good.chaos.yaml": good, "never.chaos.yaml": never})
    words = ("--chaos-seeds=5-6", "--chaos-report=kept")

    first = session(tmp_path, *words, "-m", "chaos")
    again = session(tmp_path, *words, "--lf", "--collect-only", "-q")

    assert "2 passed, 2 errors" in first.out
    assert "never.chaos.yaml::seed-6" in again.out
    assert "good.chaos.yaml" not in again.out
    assert sorted(run.name[:2] for run in (tmp_path / "kept/good").iterdir()) == ["5-", "6-"]
    assert not (tmp_path / "reports").exists()


@pytest.mark.nightly
def test_what_needs_an_extra_that_is_not_installed_is_skipped_with_its_reason(
    tmp_path: Path,
) -> None:
    project(
        tmp_path,
        {
            "needs.chaos.yaml": "scenario: needs more\n"
            f"job: {{script: needs_an_extra.py, workers: 1}}\n{KILL}",
            "test_needs.py": "import chaos\n"
            "@chaos.scenario(script='needs_an_extra.py', workers=1)\n"
            "def test_decorated(): raise AssertionError('it was called')\n"
            "def test_asks(chaos_run): chaos_run('needs.chaos.yaml')\n",
        },
    )

    done = session(tmp_path, "-rs")

    assert done.code == 0, done.out
    assert "3 skipped" in done.out
    assert done.out.count("[lightning]'") == 3
    assert "- 3 skipped" in done.out
    assert done.case("needs.chaos.yaml::seed-0").find("skipped") is not None


@pytest.mark.nightly
def test_a_time_out_of_pytests_ends_the_run_and_its_report_is_written(tmp_path: Path) -> None:
    hangs = TINY.replace("workers: 1", "workers: 1, args: {hang: true}")
    project(tmp_path, {"hangs.chaos.yaml": f"scenario: hangs\n{hangs}{KILL}"})
    (tmp_path / "test_next.py").write_text(
        "import chaos, pytest\n@pytest.mark.timeout(200)\n"
        "@chaos.scenario(script='tiny.py', workers=1)\ndef test_next(): pass\n"
    )

    done = session(tmp_path, "--timeout=20")

    said = " ".join(" ".join(section(done, "hangs (seed 0)")).split())
    assert "broken off: Timeout (>20.0s) from pytest-timeout." in said
    assert "Stack of" not in done.out
    page = next(word for word in said.split() if word.endswith("report.html"))
    assert (tmp_path / page).is_file()
    assert (tmp_path / page).with_name("verdict.json").is_file()
    assert "1 passed, 1 error" in done.out


@pytest.mark.nightly
def test_ctrl_c_leaves_a_report_of_what_was_seen(tmp_path: Path) -> None:
    hangs = TINY.replace("workers: 1", "workers: 1, args: {hang: true}")
    project(tmp_path, {"hangs.chaos.yaml": f"scenario: hangs\n{hangs}{KILL}"})
    # Where pytest itself was started in the background, SIGINT is ignored, and that is inherited.
    heard = "import signal as s, sys, pytest; s.signal(s.SIGINT, s.default_int_handler); "
    code = f"{heard}sys.exit(pytest.main(sys.argv[1:]))"
    running = subprocess.Popen(
        [sys.executable, "-c", code, *PLUGIN, "--chaos-backend=fork", "-s"],
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert running.stdout is not None
    with running:
        try:
            said = ""
            while "is gone" not in said:  # the fault has landed: the job hangs in its next attempt
                line = running.stdout.readline()
                assert line, said
                said += line
            os.kill(running.pid, signal.SIGINT)
            rest, _ = running.communicate(timeout=120)
        finally:
            running.kill()

    assert running.returncode == 2
    where = rest.partition("interrupted; what was seen is in ")[2].split()[0]
    assert (tmp_path / where / "verdict.json").is_file()
    assert (tmp_path / where / "report.html").is_file()


def section(ran: Session, name: str) -> list[str]:
    """Return what stands below one test's heading."""
    lines = ran.out.splitlines()
    heads = [n for n, line in enumerate(lines) if line.startswith("__") and f" {name} _" in line]
    assert heads, ran.out
    below = lines[heads[0] + 1 :]
    end = next(
        n for n, line in enumerate(below) if line.startswith(("__", "==")) and len(line) > 70
    )
    return below[:end]


def test_pytests_own_last_failed_takes_what_was_no_pass(ran: Session, tmp_path: Path) -> None:
    shutil.copytree(ran.folder, tmp_path / "again", ignore=shutil.ignore_patterns("reports"))

    found = session(tmp_path / "again", "--lf", "--collect-only", "-q")

    assert {line for line in found.out.splitlines() if "::" in line} == {
        "fails.chaos.yaml::seed-0",
        "forgets.chaos.yaml::seed-0",
        "never.chaos.yaml::seed-0",
        "test_first.py::test_asks_too_much",
        "test_first.py::test_is_not_called",
    }
