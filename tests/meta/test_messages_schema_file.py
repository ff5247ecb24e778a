"""Editors read the schema from a file; it must be the one that `chaos schema` prints."""

import json
from pathlib import Path

from chaos.scenario_file.messages import build_json_schema

ROOT = Path(__file__).parents[2]


def test_the_schema_beside_the_scenarios_is_the_one_in_force() -> None:
    on_disk = json.loads((ROOT / "scenarios/chaos.schema.json").read_text(encoding="utf-8"))

    assert on_disk == build_json_schema(), "run: chaos schema > scenarios/chaos.schema.json"
