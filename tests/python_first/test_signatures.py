"""The stub of the fault functions is the one that their records make."""

from pathlib import Path

from chaos.scenario_file.signatures import build_stub
from tests.needs import needs_extension

ROOT = Path(__file__).parents[2]


@needs_extension("slurm")
def test_the_stub_is_the_one_that_the_records_make() -> None:
    written = (ROOT / "chaos/scenario_file/faults.pyi").read_text(encoding="utf-8")

    how = "python -m chaos.scenario_file.signatures > chaos/scenario_file/faults.pyi"
    assert written == build_stub(), f"run: {how}"
