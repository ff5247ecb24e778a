"""Audits of the digits job, as it is and with planted bugs, as a user calls them."""

import json
from pathlib import Path
from typing import Any, NamedTuple

from tests.called import Done, chaos
from tests.planted import BUGS, planted

ROOT = Path(__file__).parents[2]


class Named(NamedTuple):
    """What an audit must name: the check, the part that did not come back, and the kind.

    A job that begins anew is compared with no state, and so has no part.
    """

    check: str
    part: str | None
    kind: str


BROKEN = {
    "digits_from_scratch": Named("resume-point", None, "checkpoint-unused"),
    "digits_one_epoch_off": Named("cursor", "cursor", "inputs-trained-again"),
    "digits_optimizer_lost": Named("state", "optimizer.momentum_buffer", "part-not-restored"),
    "digits_schedule_lost": Named("state", "schedule", "part-not-restored"),
    "digits_rng_lost": Named("state", "rng.torch", "part-not-restored"),
    "digits_data_order": Named("sample-order", "inputs", "other-epoch-samples"),
}


def audit(script: str, runs: int, reports: Path, *args: str) -> tuple[Done, dict[str, Any]]:
    """Audit a job with so many faults, and without Ray; return what was printed, and the card."""
    file = planted(script, reports) if script in BUGS else ROOT / f"scenarios/jobs/{script}.py"
    words: list[str | Path] = ["audit", file, "--max-runs", str(runs), "--no-confirm"]
    words += ["--format", "json", "--reports", reports, "--", "--epochs", "4", *args]
    ran = chaos(*words, folder=ROOT)
    card: dict[str, Any] = json.loads(ran.out)
    return ran, card
