"""Real suites that are ended from outside: the signal's code, and what was done is written."""

import os
import signal
import subprocess
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from chaos.model.summary import SuiteSummary
from tests.cli.process import CHAOS, ROOT, environment, shell

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(240)]

SCENARIO = """\
scenario: {name}
job: {{script: {script}, workers: 1, failure: {{max_failures: 2}}}}
faults:
  - at: {{epoch: 1, step: 2, rank: 0}}
    kill_worker: {{}}
"""
TINY = ROOT / "tests/ray/jobs/tiny.py"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    for name in ("first", "second [/b]", "third"):
        text = SCENARIO.format(name=name, script=TINY)
        (tmp_path / f"{name[:6]}.chaos.yaml").write_text(text)
    return tmp_path


def begun(folder: Path, *words: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [*CHAOS, *words],
        cwd=folder,
        env=environment(PYTHONUNBUFFERED="1"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def signalled(process: "subprocess.Popen[str]", number: int, *, after: str) -> tuple[str, str]:
    """Send a signal to the whole group once a line was printed; gives what was said."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if after in line:
            os.killpg(process.pid, number)
            break
    out, err = process.communicate()
    return seen + out, err


def written(folder: Path) -> SuiteSummary:
    (file,) = folder.rglob("suites/*/suite.json")
    return SuiteSummary.model_validate_json(file.read_bytes())


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("name", "code"), [("SIGTERM", 143), pytest.param("SIGHUP", 129, marks=pytest.mark.nightly)]
)
def test_a_suite_that_is_ended_has_what_was_done_and_what_was_not(
    suite: Path, name: str, code: int
) -> None:
    process = begun(
        suite,
        "run",
        ".",
        "--backend",
        "fork",
        "--reports",
        "rep[/b]",
        "--format",
        "junit",
        "--output",
        "j",
    )
    out, err = signalled(process, getattr(signal, name), after="second")

    assert process.returncode == code, out + err
    assert "Traceback" not in out + err
    assert f"chaos: ended by {name}" in err
    runs = {run.scenario: run for run in written(suite).runs}
    assert list(runs) == ["first", "second [/b]", "third"]
    assert runs["first"].standing == "expected"
    assert runs["third"].standing == "not_run"
    cases = list(ET.parse(suite / "j").getroot().iter("testcase"))
    assert [case.get("name") for case in cases] == list(runs)
    assert f"ended by {name}" in ET.tostring(cases[2], encoding="unicode")


@pytest.mark.nightly
def test_a_reader_who_leaves_ends_no_suite(suite: Path) -> None:
    done = shell("$CHAOS run first.chaos.yaml --backend fork --reports rep | head -1", suite)

    assert (done.returncode, done.stderr) == (0, "")
    assert [run.standing for run in written(suite).runs] == ["expected"]


def test_an_audit_that_is_ended_leaves_its_card(tmp_path: Path) -> None:
    words = [
        "audit",
        str(TINY),
        "--no-confirm",
        "--time-limit",
        "200s",
        "--format",
        "junit",
        "--output",
        "j",
        "--exhaustive",
    ]
    process = begun(tmp_path, *words)
    out, err = signalled(process, signal.SIGTERM, after="faults  ")

    assert process.returncode == 143, out + err
    assert "Traceback" not in out + err
    assert list(tmp_path.glob("reports/audits/*/card.html"))
    assert (tmp_path / "j").exists()
    assert "\ninterrupted: what was found until then\n" in out
    assert "the audit was interrupted" in out.partition("interrupted: what was")[2]
