"""What an embedded audit finds is reproduced by real processes, from the file that it gives."""

import json
from pathlib import Path

import pytest

from tests.called import chaos
from tests.planted import BUGS

pytestmark = [pytest.mark.embedded, pytest.mark.nightly, pytest.mark.timeout(900)]


@pytest.mark.parametrize(
    ("job", "places", "nodes"),
    [
        ("optimizer_lost", "mid-epoch", "1"),
        ("torn", "inside a save", "1"),
        ("optimizer_lost", "node lost", "1:2"),
    ],
)
def test_a_finding_is_reproduced_on_real_torchrun(
    job: str, places: str, nodes: str, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(BUGS[job].text, encoding="utf-8")
    words = ["audit", "train.py", "--nodes", nodes, "--places", places, "--max-runs", "3"]
    audit = chaos(*words, "--jobs", "1", "--format", "json", folder=tmp_path)
    [finding] = json.loads(audit.out)["findings"]
    [repro] = (tmp_path / "reports/audits").glob("*/repro/*.chaos.yaml")

    real = chaos("run", str(repro), folder=tmp_path)

    [verdict] = (tmp_path / "reports" / repro.name.partition(".")[0]).glob("*/verdict.json")
    found = json.loads(verdict.read_text(encoding="utf-8"))
    assert real.code == 0, real.err
    assert (found["status"], found["as_expected"]) == ("fail", True)
    broken = {result["check"] for result in found["results"] if result["status"] == "fail"}
    assert finding["defect"]["check"] in broken
    plan = json.loads((verdict.parent / "plan.json").read_text(encoding="utf-8"))
    assert plan["backend"] == "torchrun"
