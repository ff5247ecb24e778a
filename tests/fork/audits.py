"""Audits of the digits job and of its broken copies, as a user calls them."""

import json
from pathlib import Path
from typing import Any

from tests.called import Done, chaos

ROOT = Path(__file__).parents[2]

BROKEN = {
    "digits_from_scratch": "resume-point",
    "digits_one_epoch_off": "cursor",
    "digits_optimizer_lost": "state",
    "digits_schedule_lost": "state",
    "digits_data_order": "sample-order",
}


def audit(script: str, runs: int, reports: Path) -> tuple[Done, dict[str, Any]]:
    """Audit a job with so many strikes, and without Ray; gives what was printed, and the card."""
    words = ["audit", f"scenarios/jobs/{script}.py", "--runs", str(runs), "--no-confirm"]
    options = ["--json", "--reports", str(reports), "--", "--epochs", "4"]
    ran = chaos(*words, *options, folder=ROOT)
    card: dict[str, Any] = json.loads(ran.out)
    return ran, card
