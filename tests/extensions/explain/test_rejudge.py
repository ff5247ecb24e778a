"""`chaos rejudge` judges a recorded run by today's checks, and runs nothing."""

from pathlib import Path

from chaos.report.outcome import FinishedRun
from chaos.run.directory import create_run
from tests.called import chaos


def test_a_recorded_run_is_judged_again(guilty_run: FinishedRun, tmp_path: Path) -> None:
    directory = create_run(tmp_path / "runs", "9", guilty_run.plan, guilty_run.env)
    directory.save_history(guilty_run.history)
    assert guilty_run.baseline is not None
    directory.save_baseline(guilty_run.baseline)

    done = chaos("rejudge", directory.path, folder=tmp_path)

    assert done.code == 1, done.err
    assert "fail" in done.out
    assert "report.html" in done.out
