"""Which fault strikes at which place: read from the scenarios, written into their README.

`python -m tests.tools.matrix` (or `make matrix`) writes it; `tests/meta` fails where it is stale.
"""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from chaos.model.fault_entry import FAULTS
from chaos.model.scenario import Scenario
from chaos.model.trigger import KINDS, MOMENTS, STAGES, AtMoment, AtRecovery, Trigger
from chaos.scenario_file.load import find_scenarios, load_scenario

ROOT = Path(__file__).parents[2]
README = ROOT / "scenarios/README.md"
BEGIN, END = "<!-- matrix: written by make matrix -->", "<!-- end of matrix -->"
OTHERS = tuple(kind for kind in KINDS if kind not in ("step", "moment"))
PLACES = ("step", *MOMENTS, OTHERS[0], *STAGES[1:], *OTHERS[1:])
NONE = "·"


def place_of(at: Trigger) -> str:
    """Return the kind of place that a trigger names."""
    if isinstance(at, AtMoment):
        return at.moment
    if isinstance(at, AtRecovery) and at.stage != "start":
        return at.stage
    return next(kind for kind in KINDS if kind in type(at).model_fields)


def covered(scenarios: Iterable[Scenario]) -> Counter[tuple[str, str]]:
    """Count the scenarios in which a fault strikes at a kind of place."""
    return Counter(
        cell
        for scenario in scenarios
        for cell in {(entry.kind, place_of(entry.at)) for entry in scenario.faults}
    )


def table(scenarios: Iterable[Scenario]) -> str:
    """Return the matrix as a Markdown table, with a dot where no scenario strikes."""
    counts = covered(scenarios)
    rows = [
        " | ".join([f"`{fault}`", *(str(counts[fault, p] or NONE) for p in PLACES)])
        for fault in FAULTS
    ]
    head = " | ".join(["fault", *(f"`{place}`" for place in PLACES)])
    rule = " | ".join(["---", *("--:" for _ in PLACES)])
    return "\n".join(f"| {line} |" for line in (head, rule, *rows))


def with_matrix(readme: str, matrix: str) -> str:
    """Return the README with the matrix between its markers."""
    between = re.compile(f"(?<={re.escape(BEGIN)}\n).*?(?={re.escape(END)})", re.DOTALL)
    text, written = between.subn(lambda _: f"\n{matrix}\n\n", readme)
    assert written == 1, f"{README} has no place for the matrix"
    return text


def current() -> str:
    """Return the README as it is to be."""
    scenarios = [load_scenario(file) for file in find_scenarios([ROOT / "scenarios"])]
    return with_matrix(README.read_text(encoding="utf-8"), table(scenarios))


if __name__ == "__main__":
    README.write_text(current(), encoding="utf-8")
