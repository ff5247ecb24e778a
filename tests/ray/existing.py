"""What a run of chaos on somebody else's cluster came to."""

import json
from pathlib import Path
from typing import Any

from tests.ray.command import ROOT, Ran


def verdict_of(ran: Ran) -> dict[str, Any]:
    (run,) = ran.runs()
    verdict: dict[str, Any] = json.loads((run / "verdict.json").read_text())
    return verdict


def result_of(ran: Ran, check: str) -> dict[str, Any]:
    found: dict[str, Any] = next(r for r in verdict_of(ran)["results"] if r["check"] == check)
    return found


def scenario(folder: Path, text: str) -> Path:
    file = folder / "x.chaos.yaml"
    file.write_text(text.replace("SCRIPT", str(ROOT / "scenarios/jobs/digits_ddp.py")))
    return file
