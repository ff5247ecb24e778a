"""A child of a rank of torchrun is watched: what it leaves is known, and leaks into no run."""

import json
import shutil
from pathlib import Path

import pytest

from chaos.model.event import FolderCompared, WroteOutside
from tests.called import chaos
from tests.torchrun.conftest import JOBS, RunJob

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(600)]


@pytest.mark.parametrize("backend", ["fork", pytest.param("torchrun", marks=pytest.mark.nightly)])
def test_what_a_spawned_child_has_written_is_removed_after_the_run(
    run: RunJob, desk: Path, backend: str
) -> None:
    done = run("side_tally", backend=backend)

    removed = {Path(e.path).name: e.removed for _, e in done.history.select_events(WroteOutside)}
    assert removed == {"tally.pkl": True, "net.pt": True, "net.pt.tmp": True, "mean.pt": True}
    assert not any(done.history.select_events(FolderCompared))
    assert [path.name for path in desk.iterdir()] == ["reports"]


@pytest.mark.nightly
def test_a_tally_that_a_child_keeps_and_no_save_holds_is_found_by_the_file_it_ends_in(
    tmp_path: Path,
) -> None:
    shutil.copy(JOBS / "side_tally.py", tmp_path)
    words = ["--launcher", "torchrun", "--max-runs", "3", "--format", "json"]

    done = chaos("audit", "side_tally.py", *words, folder=tmp_path)

    (finding,) = json.loads(done.out)["findings"]
    assert finding["defect"]["check"] == "artifacts"
    assert "mean.pt" in json.dumps(finding)
    assert {path.name for path in tmp_path.iterdir()} == {"side_tally.py", "reports"}
