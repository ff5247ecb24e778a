"""What is shipped is documented, and what is documented as expected exists."""

import re
from pathlib import Path

import pytest

from chaos.check.judge import CHECKS
from chaos.model.fault_entry import FAULTS
from chaos.scenario_file.load import find_scenarios, load_scenario

ROOT = Path(__file__).parents[2]
SCENARIOS = find_scenarios([ROOT / "scenarios"])


@pytest.mark.parametrize("name", [*FAULTS, *(check.NAME for check in CHECKS)])
def test_every_fault_and_every_check_is_named_where_a_reader_looks_first(name: str) -> None:
    pages = (ROOT / "docs" / page for page in ("scenarios.md", "verdicts.md"))
    text = "".join(page.read_text(encoding="utf-8") for page in pages)

    assert re.search(rf"`{re.escape(name)}\b", text)


@pytest.mark.parametrize("file", SCENARIOS, ids=[file.name for file in SCENARIOS])
def test_every_scenario_has_a_row_in_the_readme_of_the_scenarios(file: Path) -> None:
    readme = (ROOT / "scenarios/README.md").read_text(encoding="utf-8")
    name = str(file.relative_to(ROOT / "scenarios")).removesuffix(".chaos.yaml")

    assert f"| `{name}` | " in readme


@pytest.mark.parametrize("file", SCENARIOS, ids=[file.name for file in SCENARIOS])
def test_every_scenario_loads_and_expects_a_check_that_exists(file: Path) -> None:
    expect = load_scenario(file).expect

    assert {expect.check, *expect.besides} <= {None, *(check.NAME for check in CHECKS)}
