"""An audit of a script that knows nothing of Ray, as a user calls it."""

import json
import shutil
from pathlib import Path

import pytest

from tests.called import chaos

JOBS = Path(__file__).parent / "jobs"

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(900)]


@pytest.mark.nightly
def test_the_launcher_is_found_out_and_what_needs_ray_is_left_out_by_name(tmp_path: Path) -> None:
    shutil.copy(JOBS / "ddp.py", tmp_path / "train_ddp.py")
    words = ["audit", "train_ddp.py", "--max-runs", "3", "--format", "json", "--", "--epochs", "3"]
    done = chaos(*words, folder=tmp_path)

    card = json.loads(done.out)
    assert "torchrun starts it" in done.err
    assert card["backend"] == card["job"]["launcher"] == "torchrun"
    assert card["verdict"]["broken"] == 0
    assert card["verdict"]["resumes"]["right"] > 0
    left_out = {row["group"] for row in card["covered"] if row["why_none"] == "it needs Ray Train"}
    assert {"node lost", "just after commit"} <= left_out
    assert {path.name for path in tmp_path.iterdir()} == {"train_ddp.py", "reports"}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--backend", "ray"], "--backend"),
        (["--fit", "2"], "--fit"),
        (["--storage", "own"], "--storage"),
        (["--address", "10.0.0.1:6379"], "--address"),
    ],
)
def test_options_of_rays_are_refused(tmp_path: Path, options: list[str], named: str) -> None:
    done = chaos("audit", str(JOBS / "ddp.py"), *options, folder=tmp_path)

    assert done.code == 3
    assert f"{named} needs Ray Train" in " ".join(done.err.split())
    assert not [*tmp_path.iterdir()]
