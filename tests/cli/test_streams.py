"""Whoever reads stdout, and whatever becomes of it, decides nothing."""

from pathlib import Path

import pytest

from tests.accepted import expect_text
from tests.cli.process import shell
from tests.needs import needs_extension

FULL = "No space left on device"


@pytest.mark.parametrize(
    "line",
    [
        "$CHAOS schema | head -1",
        "$CHAOS --help | true",
        "$CHAOS run --help 2>&1 | true",
        "$CHAOS list faults | head -1",
        "$CHAOS list faults >&-",
        "$CHAOS list faults >&- 2>&- <&-",
        "$CHAOS schema >&-",
    ],
)
def test_a_reader_who_leaves_and_a_closed_stream_are_no_failure(line: str, tmp_path: Path) -> None:
    done = shell(line, tmp_path)

    assert (done.returncode, done.stderr) == (0, "")


def test_a_document_that_was_lost_is_a_failure_and_never_a_finding(tmp_path: Path) -> None:
    done = shell("$CHAOS schema > /dev/full", tmp_path)

    assert done.returncode == 4
    expect_text(done.stderr)


def test_a_table_that_was_lost_is_told_of(tmp_path: Path) -> None:
    done = shell("$CHAOS list faults > /dev/full", tmp_path)

    assert done.returncode == 0
    expect_text(done.stderr)


def test_the_callers_mistake_is_told_wherever_stdout_leads(tmp_path: Path) -> None:
    done = shell("$CHAOS rejudge nowhere | true", tmp_path)

    assert done.returncode == 3
    assert "nowhere" in done.stderr


@needs_extension("doctor")
@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_narrow_stream_is_written_to(encoding: str, tmp_path: Path) -> None:
    done = shell("$CHAOS doctor --reports 'rep[/b]漢'", tmp_path, PYTHONIOENCODING=encoding)

    assert done.returncode in (0, 3)
    assert "Traceback" not in done.stderr


def test_a_descriptor_that_was_closed_is_not_taken_by_the_next_file(tmp_path: Path) -> None:
    code = (
        "from chaos.cli.streams import keep_streams_writable as keep; keep(); "
        "file = open('x', 'w'); import os; os.write(1, b'stray'); file.flush()"
    )
    done = shell(f'{__import__("sys").executable} -c "{code}" >&- <&-', tmp_path)

    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "x").read_text() == ""


def test_a_broken_pipe_within_chaos_is_a_failure_of_its_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from chaos.cli import schema  # noqa: PLC0415
    from tests.cli.test_errors_exit_codes import code_of  # noqa: PLC0415

    def broken() -> None:
        raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(schema, "build_json_schema", broken)

    assert code_of(monkeypatch, "schema") == 4
    said = capsys.readouterr().err
    assert "BrokenPipeError" in said
    assert "internal error" in said
