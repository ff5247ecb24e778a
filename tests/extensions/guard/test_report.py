"""The report of a folder has a row for each rank, and an exit code."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from chaos.cli.commands import app
from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.report import render_json, render_metrics
from tests.extensions.guard.restarts import ACCEPTED, OTHER, WRONG, restart

ALL_ACCEPTED = {"compared": ("schedule",), "differing": ("schedule",)}


@pytest.fixture(params=["directory", "store"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> GuardFolder:
    is_store = request.param == "store"
    return GuardFolder(f"memory://guard{tmp_path}" if is_store else str(tmp_path / "guard"))


def test_a_report_has_a_row_for_each_rank_and_an_exit_code(tmp_path: Path) -> None:
    folder = GuardFolder(str(tmp_path))
    run = CliRunner().invoke

    def code() -> int:
        return run(app, ["guard", "report", str(tmp_path)]).exit_code

    assert code() == 2
    folder.write_restart(restart(1))
    assert code() == 0
    # Nothing was compared of it, or what was is other: it is no proof that it came back.
    nothing_else = restart(2, ACCEPTED, **ALL_ACCEPTED)
    for unclear in (
        nothing_else,
        restart(2, compared=()),
        restart(2, OTHER),
        restart(2, step=None),
    ):
        folder.write_restart(unclear)
        assert code() == 2
    folder.write_restart(restart(2, WRONG))
    shown = run(app, ["guard", "report", str(tmp_path)])
    assert shown.exit_code == 1
    assert "start 2, rank 0  mismatch: model: reset" in shown.output
    lines = render_json(folder.load_restarts()).splitlines()
    assert [json.loads(line)["answer"] for line in lines] == ["came back", "mismatch"]
    lines = render_metrics(folder.load_restarts()).splitlines()
    metrics = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert metrics["chaos_guard_mismatches_total"] == "1"
    assert metrics["chaos_guard_last_lost_steps"] == "3"
