"""What an audit finds without Ray, its reproduction shows on Ray."""

from pathlib import Path

import pytest

from tests.forked.audits import BROKEN, audit
from tests.ray.command import chaos, strays

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

SAMPLE = "digits_optimizer_lost"


def repro_of(script: str, reports: Path) -> Path:
    """Audit a broken copy; gives the reproduction of its finding."""
    _, card = audit(script, 13, reports)
    folder = next((reports / "audits").glob(f"{script}-*"))
    return folder / str(card["findings"][0]["repro"])


def reproduced(scripts: list[str], reports: Path) -> None:
    """Each reproduction expects its own finding, so code 0 says that Ray shows the same."""
    on_ray = chaos("run", *(repro_of(script, reports) for script in scripts), reports=reports)

    assert on_ray.code == 0, on_ray.output
    assert on_ray.output.count("fail, expected") == len(scripts)
    assert strays() == []


@pytest.mark.nightly
def test_a_finding_is_reproduced_on_ray(tmp_path: Path) -> None:
    reproduced([SAMPLE], tmp_path)


@pytest.mark.nightly
def test_the_others_are_reproduced_on_ray_as_well(tmp_path: Path) -> None:
    reproduced([script for script in BROKEN if script != SAMPLE], tmp_path)


@pytest.mark.nightly
def test_an_audit_confirms_what_it_finds_on_ray_by_itself(tmp_path: Path) -> None:
    script = f"scenarios/jobs/{SAMPLE}.py"

    seen = chaos("audit", script, "--max-runs", "8", "--", "--epochs", "4", reports=tmp_path)

    assert seen.code == 1, seen.output
    assert "confirmed:" in seen.output
    assert "not confirmed" not in seen.output
    assert strays() == []
