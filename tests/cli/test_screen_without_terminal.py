"""Output that goes into a file or a pipe has no width: it is read by `grep`, and in logs of CI."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

import pytest

from chaos.harness import write_suite
from chaos.report.outcome import SuiteRow, build_suite_row
from chaos.run.clock import SystemClock
from tests.called import chaos
from tests.extensions.preflight.question_text import QUESTION
from tests.needs import needs_extension
from tests.shelf.conftest import stored

TITLE = "a worker is killed while the checkpoint of the third epoch is uploaded to a far storage"
LINES = {
    "list faults": "End one worker's process, or several at once; landed when each is gone. {",
    "list kill_loader": "where no such batch is left, nothing follows.",
    "list scenarios": TITLE,
    "doctor": "Python",
    "report": "/7-20261121T014500",
    "compare {suite} {suite}": TITLE,
    "preflight q.preflight.yaml --simulations 300": "rests on",
    "run scenarios": f"{TITLE} too  ✗ fail",
}

#: of the commands above
EXTENSIONS = {
    "compare": "lab",
    "doctor": "doctor",
    "list": "catalogue",
    "preflight": "preflight",
}


@dataclass(frozen=True)
class Project:
    """A folder with a scenario, a question, and a suite of two runs."""

    folder: Path
    suite: Path
    rows: tuple[SuiteRow, ...]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("project")
    scenario = folder / "scenarios" / "x.chaos.yaml"
    scenario.parent.mkdir()
    scenario.write_text(f"scenario: {TITLE}\njob: {{script: x.py, workers: 1}}\n")
    (scenario.parent / "x.py").touch()
    (folder / "q.preflight.yaml").write_text(QUESTION)
    runs = [stored(folder / "reports", f"{TITLE}{end}", defect=0.09) for end in ("", " too")]
    rows = tuple(map(build_suite_row, runs))
    page = write_suite(folder / "reports", rows, SystemClock())
    with (
        mock.patch("chaos.cli.run.open_backend", return_value=nullcontext(object())),
        mock.patch("chaos.cli.run.run_request", return_value=iter(rows)),
    ):
        yield Project(folder, page.parent, rows)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(line, marks=[needs_extension(EXTENSIONS[word])] if word in EXTENSIONS else [])
        for line in LINES
        for word in line.split()[:1]
    ],
)
def test_without_a_terminal_no_line_is_broken_or_filled_up(line: str, project: Project) -> None:
    done = chaos(*line.format(suite=project.suite).split(), folder=project.folder)

    assert LINES[line] in done.out, done
    assert not re.search(r"[ ]$", done.out, re.MULTILINE)
