"""`chaos.audit` and `chaos.run`: the commands for a program, and for a notebook."""

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import chaos
import chaos.app.audit
from chaos.audit.card import Card
from chaos.audit.result import AuditResult
from chaos.errors import ChaosError, JobError, ScenarioError, UsageError
from tests.accepted import expect_text
from tests.audit.backend import FakeBackend, loses_momentum
from tests.report.conftest import clean_history, run_of, struck_history

ROOT = Path(__file__).parents[2]
JOBS = ROOT / "tests/ray/jobs"
Audit = Callable[..., AuditResult]
# As a notebook runs its cells: the text of each is executed in a `__main__` that has no file, on
# the main thread, within a loop that runs; and another thread of the process is busy.
KERNEL = """
import asyncio, json, sys, threading

cells, shown = json.load(sys.stdin), []
threading.Thread(target=threading.Event().wait, daemon=True).start()
space = vars(sys.modules["__main__"])
space.pop("__file__", None)


async def execute(cell):
    *before, last = cell.splitlines()
    exec("\\n".join(before), space)
    shown.append(eval(last, space))


async def kernel():
    for cell in cells:
        await execute(cell)

asyncio.run(kernel())
print(json.dumps(shown))
"""
OF_THREAD = """
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(1) as pool:
    of_thread = pool.submit(chaos.run, 'killed.chaos.yaml', backend='fork', quiet=True).result()
"""
CELLS = [
    "import chaos\nchaos.audit(SCRIPT, {'epochs': 3}, max_runs=2, jobs=1)._repr_html_()",
    f"{OF_THREAD}\nrepr(of_thread)",
    "repr(chaos.run('killed.chaos.yaml', backend='fork'))",
]
KILLED = """
scenario: a worker is killed
job: {{script: {0}/tiny.py, args: {{epochs: 3}}, workers: 1, failure: {{max_failures: 1}}}}
faults:
  - at: {{epoch: 1, step: 2, rank: 0}}
    kill_worker: {{}}
"""


@pytest.fixture
def audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Audit:
    """Return `chaos.audit`, over a backend that only tells stories, in a folder with a script."""
    (tmp_path / "train.py").write_text("import ray.train\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        chaos.app.audit, "open_launcher", lambda *_: FakeBackend(defect=loses_momentum)
    )
    return chaos.audit


def in_html(shown: Any) -> str:
    """Return what a notebook shows of a result."""
    text: str = shown._repr_html_()
    return " ".join(text.split())


def test_an_audit_is_returned_and_nothing_is_printed(
    audit: Audit, capsys: pytest.CaptureFixture[str]
) -> None:
    found = audit("train.py", {"epochs": 4}, max_runs=7, jobs=1, quiet=True)

    assert (found.passed, found.failed, found.inconclusive) == (False, True, False)
    assert repr(found) == f"<{found.sentence}>"
    assert found.sentence.startswith("fail: ")
    assert found.page.is_file()
    assert (found.page.parent / found.findings[0].repro).is_file()
    assert Card.from_json((found.directory / "audit.json").read_text()) == found.card
    assert capsys.readouterr() == ("", "")


def test_what_repeats_an_audit_is_the_command_with_the_same_words(audit: Audit) -> None:
    found = audit("train.py", ["--epochs", 4, "-v"], max_runs=7, places=["mid-epoch"], jobs=1)

    words = "chaos audit --max-runs 7 --places mid-epoch --jobs 1 train.py -- --epochs 4 -v"
    assert found.card.command.replace(" --no-confirm", "") == words


@pytest.mark.parametrize("args", [{"resume": "latest"}, ["--resume", "latest"], "--resume latest"])
def test_arguments_are_given_by_name_word_by_word_or_as_typed(audit: Audit, args: Any) -> None:
    found = audit("train.py", args, max_runs=1, jobs=1, restart="command", restart_args=args)

    expect_text(found.card.command)
    assert found.card.command.endswith("train.py -- --resume latest")


def test_progress_goes_to_stderr(audit: Audit, capsys: pytest.CaptureFixture[str]) -> None:
    audit("train.py", max_runs=7, jobs=1)
    out, err = capsys.readouterr()

    assert out == ""
    assert "clean run 1 of 2" in err
    assert "\x1b" not in err


def test_an_audit_within_a_running_loop_is_like_any_other(audit: Audit) -> None:
    async def cell() -> AuditResult:
        return audit("train.py", max_runs=7, jobs=1, quiet=True)

    assert asyncio.run(cell()).failed


@pytest.mark.parametrize(
    ("script", "options", "words"),
    [
        ("nope.py", {}, "nope.py: there is no such script"),
        ("train.py", {"time_limit": "soon"}, "'soon' is not a time such as 90s, 5m or 1h"),
        ("train.py", {"workers": 0}, "workers: it is a whole number from 1; got 0"),
        ("train.py", {"places": ["nowhere"]}, "no group of places is called 'nowhere'"),
        ("train.py", {"nodes": 2}, "nodes is for scripts that torchrun starts"),
        ("train.py", {"accept": ["all"]}, "accept: there is no severity and no finding 'all'"),
    ],
)
def test_what_the_command_refuses_is_raised_in_its_words(
    audit: Audit, script: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(UsageError) as caught:
        audit(script, quiet=True, **options)

    assert words in str(caught.value)


def test_an_interrupt_is_an_interrupt(audit: Audit, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(chaos.app.audit, "open_launcher", interrupted)
    with pytest.raises(KeyboardInterrupt):
        audit("train.py", quiet=True)


def test_chaos_itself_is_imported_without_what_is_heavy() -> None:
    heavy = ["pydantic", "typer", "rich", "numpy", "torch", "pytest", "jinja2"]
    text = f"import chaos, sys; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_a_run_shows_itself_in_a_notebook() -> None:
    baseline = clean_history()
    right = run_of(struck_history(), baseline=baseline)
    wrong = run_of(struck_history(defect=0.09), baseline=baseline)

    assert ">pass<" in in_html(chaos.Result(right))
    shown = in_html(chaos.Result(wrong))
    assert ">fail<" in shown
    assert wrong.verdict.headline[1:40] in shown
    assert f"{wrong.directory}/report.html" in shown


def test_an_audit_shows_itself_in_a_notebook(audit: Audit) -> None:
    shown = in_html(audit("train.py", max_runs=7, jobs=1, quiet=True))

    assert ">fail<" in shown
    assert "worker killed" in shown
    assert "repro/" in shown
    assert "card.html" in shown


def test_what_a_notebook_shows_loads_and_runs_nothing() -> None:
    named = run_of(struck_history(defect=0.09), scenario="<script>alert(1)</script>")
    shown = in_html(chaos.Result(named))

    assert not [word for word in ("<script", "<style", "src=", "href=", "class=") if word in shown]
    assert "&lt;script" in shown


def test_a_mistake_in_a_scenario_is_raised_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    file = tmp_path / "x.chaos.yaml"
    file.write_text("scenario: x\njob: {script: train.py, workers: 1}\nfaults:\n  - at: now\n")

    with pytest.raises(ScenarioError) as caught:
        chaos.run(file, quiet=True)
    assert caught.value.line == 4
    (tmp_path / "y.chaos.yaml").write_text(file.read_text())
    with pytest.raises(UsageError, match=r"chaos\.run runs one scenario, and 2 are there"):
        chaos.run(tmp_path)


@pytest.mark.embedded
@pytest.mark.timeout(120)
def test_a_run_is_returned_with_its_verdict_and_settings_are_those_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "killed.chaos.yaml").write_text(KILLED.format(JOBS))
    (tmp_path / "pyproject.toml").write_text(
        '[tool.chaos]\nbackend = "fork"\nreports = "elsewhere"\n'
    )
    monkeypatch.chdir(tmp_path)

    result = chaos.run("killed.chaos.yaml", quiet=True)

    assert result.passed, result.headline
    assert result.attempts == 2
    assert result.report.resolve().is_relative_to(tmp_path / "elsewhere")
    assert capsys.readouterr() == ("", "")
    assert ">pass<" in in_html(result)


@pytest.mark.embedded
@pytest.mark.timeout(120)
def test_a_job_that_fails_by_itself_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = KILLED.format(JOBS).replace("epochs: 3", "epochs: 3, raise: true")
    (tmp_path / "killed.chaos.yaml").write_text(text)
    monkeypatch.chdir(tmp_path)

    with pytest.raises(JobError, match="the data of epoch 1 is missing") as caught:
        chaos.run("killed.chaos.yaml", backend="fork", quiet=True)
    assert isinstance(caught.value, ChaosError)


@pytest.mark.nightly
@pytest.mark.embedded
@pytest.mark.timeout(300)
def test_cells_of_a_notebook_audit_and_run(tmp_path: Path) -> None:
    (tmp_path / "killed.chaos.yaml").write_text(KILLED.format(JOBS))
    cells = [cell.replace("SCRIPT", repr(str(JOBS / "tiny.py"))) for cell in CELLS]

    done = subprocess.run(
        [sys.executable, "-c", KERNEL],
        input=json.dumps(cells),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    html, of_thread, of_cell = json.loads(done.stdout)
    assert "tiny.py" in html
    assert of_thread == of_cell
    assert of_cell.startswith("<pass: 2 attempts, 2 steps")
