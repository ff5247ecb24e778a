"""The JSON Schema of a scenario file, for editors and for our own wording."""

from typing import Any, TypeAlias

from chaos.model.fault_entry import FAULTS
from chaos.model.scenario import Scenario

JsonSchema: TypeAlias = dict[str, Any]


def json_schema() -> JsonSchema:
    """Give the schema of `*.chaos.yaml`, fit for yaml-language-server.

    It is stricter than the loader in one way: a key without a value is an
    error here, so that an editor shows it while it is being typed.
    """
    schema = _without_null(Scenario.model_json_schema())
    kinds = schema["$defs"]
    kinds["FaultEntry"]["oneOf"] = [{"required": [fault]} for fault in FAULTS]
    kinds["Job"]["oneOf"] = [{"required": ["script"]}, {"required": ["train_loop"]}]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "chaos scenario",
        "description": "A Ray Train job, the faults that strike it, and what must come of it.",
    }


def _without_null(node: Any) -> Any:  # noqa: ANN401  a piece of JSON
    if isinstance(node, list):
        return [_without_null(item) for item in node]
    if not isinstance(node, dict):
        return node
    pieces = {key: _without_null(value) for key, value in node.items()}
    if pieces.get("default", ...) is None:
        del pieces["default"]
    options = [option for option in pieces.pop("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1:
        return {**options[0], **pieces}
    return {**pieces, "anyOf": options} if options else pieces
