from typing import Any

import pytest

from chaos.model.fault_entry import FAULTS
from chaos.scenario_file.messages import build_json_schema

jsonschema: Any = pytest.importorskip("jsonschema")

JOB: dict[str, Any] = {"script": "job.py", "workers": 2}
AT = {"epoch": 1, "step": 2}


def is_accepted(**parts: Any) -> bool:
    scenario = {"scenario": "x", "job": JOB, **parts}
    return bool(jsonschema.Draft202012Validator(build_json_schema()).is_valid(scenario))


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(build_json_schema())

    assert build_json_schema()["$schema"].endswith("2020-12/schema")
    assert build_json_schema()["title"] == "chaos scenario"


def test_a_scenario_is_accepted() -> None:
    moment = {"epoch": 1, "moment": "reported", "rank": 1}

    assert is_accepted(faults=[{"at": AT, "kill_node": {}}, {"at": moment, "kill_worker": {}}])


@pytest.mark.parametrize(
    "parts",
    [
        {"job": {"workers": 2}},
        {"job": {**JOB, "train_loop": "a:b"}},
        {"job": {**JOB, "wrokers": 2}},
        {"faults": [{"at": AT}]},
        {"faults": [{"at": AT, "kill_node": {}, "kill_worker": {}}]},
        {"faults": [{"at": AT, "kill_node": None}]},
        {"faults": [{"at": {"epoch": 1}, "kill_node": {}}]},
        {"faults": [{"at": {**AT, "moment": "reported"}, "kill_node": {}}]},
    ],
    ids=str,
)
def test_what_the_loader_refuses_an_editor_shows(parts: dict[str, Any]) -> None:
    assert not is_accepted(**parts)


def test_every_record_and_every_fault_tells_an_editor_what_it_is() -> None:
    schema = build_json_schema()

    assert all(kind["description"] for kind in schema["$defs"].values())
    assert set(FAULTS) <= set(schema["$defs"]["FaultEntry"]["properties"])
