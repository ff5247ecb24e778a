"""Jobs that report by the clock are audited step by step: the right ones pass, others are named."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.called import chaos

JOBS = Path(__file__).parents[1] / "corpus/jobs/right"
OPTIMIZER = "        for name, state in states.items():\n            parts[name]"
pytestmark = [pytest.mark.nightly, pytest.mark.timeout(240)]


def audited(name: str, folder: Path, old: str = "", new: str = "") -> dict[str, Any]:
    """Audit a job of the corpus, a line of it told otherwise, where two commits are over.

    Its clock is a coin: a busy machine, on which it reports more often, must be no matter here.
    """
    text = (JOBS / f"{name}.py").read_text(encoding="utf-8")
    assert old in text
    clock = "time.monotonic() - self.last"
    assert clock in text
    text = text.replace(clock, "(os.urandom(1)[0] >> 7)").replace(old, new)
    (folder / "job.py").write_text(text, encoding="utf-8")
    words = ["audit", "job.py", "--places", "just after commit", "--max-runs", "2", "--jobs", "1"]
    ran = chaos(*words, "--no-confirm", "--format", "json", folder=folder)
    found: dict[str, Any] = json.loads(ran.out)
    assert found["repetition"]["reports_apart"]
    return found


@pytest.mark.parametrize("name", ["saved_by_the_clock", "saves_by_clock"])
def test_a_right_job_is_not_blamed(name: str, tmp_path: Path) -> None:
    card = audited(name, tmp_path)

    assert [run["status"] for run in card["runs"]] == ["pass", "pass"]
    assert card["verdict"]["resumes"] == {"of": 2, "right": 2}


@pytest.mark.parametrize(
    ("name", "old", "new", "check", "said"),
    [
        (
            "saved_by_the_clock",
            '        torch.set_rng_state(state["rng"])\n',
            "",
            "state",
            "rng.torch is back at its first value",
        ),
        (
            "saved_by_the_clock",
            'number = state["number"]\n',
            'number = state["number"] - 1\n',
            "cursor",
            "1 step before that place; they were trained again",
        ),
        (
            "saves_by_clock",
            OPTIMIZER,
            f'        del states["optimizer"]\n{OPTIMIZER}',
            "state",
            "optimizer.momentum_buffer is not restored",
        ),
        (
            "saves_by_clock",
            OPTIMIZER,
            f'        del states["signals"]\n{OPTIMIZER}',
            "sample-order",
            "what draws or orders them did not come back",
        ),
    ],
)
def test_what_a_wrong_one_forgets_is_named(
    name: str, old: str, new: str, check: str, said: str, tmp_path: Path
) -> None:
    card = audited(name, tmp_path, old, new)

    assert card["verdict"]["word"] == "fail"
    [finding] = card["findings"]
    assert finding["defect"]["check"] == check
    assert said in finding["smallest"]["headline"]
