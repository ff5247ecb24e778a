"""Audits of the digits job, as it is and with planted bugs, as a user calls them."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from tests.called import Done, chaos
from tests.planted import BUGS, planted

ROOT = Path(__file__).parents[2]


class Named(NamedTuple):
    """What an audit must name: the check, the part that did not come back, and its words.

    A job that begins anew is compared with no state, and so has no part.
    """

    check: str
    part: str | None
    words: str


BROKEN = {
    "digits_from_scratch": Named("resume-point", None, "started from scratch"),
    "digits_one_epoch_off": Named("cursor", "cursor", "they were trained again"),
    "digits_optimizer_lost": Named(
        "state", "optimizer.momentum_buffer", "optimizer.momentum_buffer is not restored"
    ),
    "digits_schedule_lost": Named("state", "schedule", "schedule is back at its first value"),
    "digits_rng_lost": Named("state", "rng.torch", "rng.torch is back at its first value"),
    "digits_data_order": Named("sample-order", "inputs", "was given the samples of epoch"),
}


def audit(script: str, runs: int, reports: Path, *args: str) -> tuple[Done, dict[str, Any]]:
    """Audit a job with so many faults, and without Ray; return what was printed, and the card."""
    file = planted(script, reports) if script in BUGS else ROOT / f"scenarios/jobs/{script}.py"
    words: list[str | Path] = ["audit", file, "--max-runs", str(runs), "--no-confirm"]
    words += ["--format", "json", "--reports", reports, "--", "--epochs", "4", *args]
    ran = chaos(*words, folder=ROOT)
    card: dict[str, Any] = json.loads(ran.out)
    return ran, card
