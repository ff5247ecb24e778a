"""The audit finds nothing in a correct job, and the cause in each of five broken copies of it."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.ray.command import Ran, chaos, strays

pytestmark = [pytest.mark.ray, pytest.mark.timeout(900)]

BROKEN = {
    "digits_from_scratch": "resume-point",
    "digits_one_epoch_off": "cursor",
    "digits_optimizer_lost": "state",
    "digits_schedule_lost": "state",
    "digits_data_order": "sample-order",
}


SAMPLE = ("digits_optimizer_lost", "digits_data_order")


def audit(script: str, runs: int, reports: Path) -> tuple[Ran, dict[str, Any]]:
    out = reports / f"{script}.json"
    words = ["audit", f"scenarios/jobs/{script}.py", "--runs", str(runs), "--no-confirm"]
    options = ["--json", "--reports", str(reports), "--", "--epochs", "4"]
    ran = chaos(*words, *options, reports=reports)
    card: dict[str, Any] = json.loads(ran.output[ran.output.index("{\n") :])
    out.write_text(json.dumps(card))
    return ran, card


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audits")


@pytest.fixture(scope="module")
def repros(reports: Path) -> dict[str, Path]:
    """Audit every broken copy; gives the reproduction of each one's finding."""
    found = {}
    for script, check in BROKEN.items():
        ran, card = audit(script, 13, reports)
        assert ran.code == 1, ran.output
        assert {finding["defect"]["check"] for finding in card["findings"]} == {check}
        folder = next((reports / "audits").glob(f"{script}-*"))
        found[script] = folder / card["findings"][0]["repro"]
    return found


def test_nothing_is_found_in_the_correct_job(reports: Path) -> None:
    ran, card = audit("digits_ddp", 26, reports)

    assert ran.code == 0, ran.output
    assert card["findings"] == []
    assert len(card["runs"]) == 26
    assert {run["validity"] for run in card["runs"]} == {"valid"}


def reproduced(repros: list[Path], reports: Path) -> None:
    """Each reproduction expects its own finding, so code 0 says that Ray shows the same."""
    on_ray = chaos("run", *repros, reports=reports)

    assert on_ray.code == 0, on_ray.output
    assert on_ray.output.count("invalid, expected") == len(repros)
    assert strays() == []


def test_every_broken_copy_is_found_and_a_sample_reproduced_on_ray(
    repros: dict[str, Path], reports: Path
) -> None:
    assert repros.keys() == BROKEN.keys()
    reproduced([repros[script] for script in SAMPLE], reports)


@pytest.mark.nightly
def test_the_others_are_reproduced_on_ray_as_well(repros: dict[str, Path], reports: Path) -> None:
    reproduced([repro for script, repro in repros.items() if script not in SAMPLE], reports)
