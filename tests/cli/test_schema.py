"""`chaos schema`: what editors read."""

import json
from pathlib import Path

from tests.called import chaos


def test_the_schema_is_the_one_beside_the_scenarios_and_names_itself(tmp_path: Path) -> None:
    done = chaos("schema", folder=tmp_path)

    stored = Path(__file__).parents[2] / "scenarios/chaos.schema.json"
    assert done.out == stored.read_text(encoding="utf-8")
    assert json.loads(done.out)["$id"].endswith("/chaos.schema.json")
