"""What a run of chaos on somebody else's cluster came to."""

import json
from pathlib import Path
from typing import Any

from tests.ray.command import ROOT, Ran


def verdict_of(ran: Ran, scenario: str | None = None) -> dict[str, Any]:
    """Return the verdict of the only run there, or of the only one of a scenario."""
    (run,) = (path for path in ran.runs() if scenario in {None, path.parent.name})
    verdict: dict[str, Any] = json.loads((run / "verdict.json").read_text())
    return verdict


def result_of(ran: Ran, check: str, scenario: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = next(
        r for r in verdict_of(ran, scenario)["results"] if r["check"] == check
    )
    return found


def scenario_in(folder: Path, text: str, *, name: str = "x") -> Path:
    file = folder / f"{name}.chaos.yaml"
    file.write_text(text.replace("SCRIPT", str(ROOT / "scenarios/jobs/digits_ddp.py")))
    return file
