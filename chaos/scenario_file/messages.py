"""Error messages of scenario files: pydantic's errors in the words of a file.

The expected values are read from the JSON Schema, so that a message, an editor and the records
agree.
"""

from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeAlias

from pydantic_core import ErrorDetails

from chaos.installation import REPOSITORY
from chaos.model.fault_entry import FAULTS
from chaos.model.scenario import SOURCES, Scenario
from chaos.scenario_file.yaml_lines import Loc, Plain, YamlLines, YamlProblem, shorten_text


def quote_value(value: Plain) -> str:
    """Return a value as the file has it: text in quotes, a structure by its kind."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(shorten_text(value))
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return str(value)


def find_nearest(word: str, known_names: Collection[str]) -> str | None:
    """Return the known word that was probably meant, whatever the case and the dashes."""
    by_shape = {name.lower(): name for name in known_names}
    matches = get_close_matches(word.lower().replace("-", "_"), by_shape, n=1)
    return by_shape[matches[0]] if matches else None


JsonSchema: TypeAlias = dict[str, Any]


@cache
def build_json_schema() -> JsonSchema:
    """Return the schema of `*.chaos.yaml`, fit for yaml-language-server.

    It is stricter than the loader in one way: a key without a value is an
    error here, so that an editor shows it while it is being typed.
    """
    schema = _strip_null(Scenario.model_json_schema())
    kinds = schema["$defs"]
    kinds["FaultEntry"]["oneOf"] = [{"required": [fault]} for fault in FAULTS]
    kinds["Job"]["oneOf"] = [{"required": [source]} for source in SOURCES]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"{REPOSITORY}/chaos.schema.json",
        **schema,
        "title": "chaos scenario",
        "description": "A Ray Train job, the faults to inject, and what must come of it.",
    }


def _strip_null(node: Any) -> Any:  # noqa: ANN401  a piece of JSON
    if isinstance(node, list):
        return [_strip_null(item) for item in node]
    if not isinstance(node, dict):
        return node
    pieces = {key: _strip_null(value) for key, value in node.items()}
    if pieces.get("default", ...) is None:
        del pieces["default"]
    options = [option for option in pieces.pop("anyOf", ()) if option != {"type": "null"}]
    if len(options) == 1:
        return {**options[0], **pieces}
    return {**pieces, "anyOf": options} if options else pieces


_KEY_SYNONYMS = {"on": "at", "when": "at", "trigger": "at"}


def reword_errors(errors: Sequence[ErrorDetails], lines: YamlLines) -> Iterator[YamlProblem]:
    """Return one problem per error; a misspelt key is not also a missing one."""
    schema = build_json_schema()
    unknown_locs = [detail["loc"] for detail in errors if detail["type"] == "extra_forbidden"]
    meant_locs = {
        (*loc[:-1], _find_meant_key(loc, _find_record(schema, loc[:-1]))) for loc in unknown_locs
    }
    for error in errors:
        kind, loc = error["type"], error["loc"]
        if kind == "extra_forbidden":
            yield _describe_unknown_key(loc, _find_record(schema, loc[:-1]), lines)
        elif kind == "value_error":
            yield _describe_broken_rule(error, lines)
        elif kind != "missing":
            yield _describe_wrong_value(error, _find_record(schema, loc), lines)
        elif loc not in meant_locs:
            yield _describe_missing_key(loc, _find_record(schema, loc), lines)


def _describe_unknown_key(loc: Loc, record: JsonSchema, lines: YamlLines) -> YamlProblem:
    key, file_loc = str(loc[-1]), strip_tag(loc)
    close_key = _find_meant_key(loc, record)
    if key == "on" and close_key:
        hint = "A trigger is spelled `at:`."
    elif close_key:
        hint = f"Did you mean {close_key}?"
    else:
        hint = f"Known here: {', '.join(record['properties'])}."
    return YamlProblem(
        lines.find_key_line(file_loc),
        f"unknown key {key!r}{_describe_position(file_loc)}",
        hint,
        file_loc,
    )


def _describe_missing_key(loc: Loc, value: JsonSchema, lines: YamlLines) -> YamlProblem:
    file_loc = strip_tag(loc)
    hint = f"Add `{file_loc[-1]}:`, {describe_expectation(value)}."
    text = f"{_describe_owner(file_loc)} needs {file_loc[-1]}"
    return YamlProblem(lines.find_value_line(file_loc[:-1]), text, hint, file_loc)


def _describe_wrong_value(error: ErrorDetails, value: JsonSchema, lines: YamlLines) -> YamlProblem:
    file_loc = strip_tag(error["loc"])
    name = next((part for part in reversed(file_loc) if isinstance(part, str)), "a scenario")
    if file_loc and isinstance(file_loc[-1], int):
        name = f"each of {name}"
    input_value = error["input"]
    text = f"{name} must be {describe_expectation(value)}, got {quote_value(input_value)}"
    return YamlProblem(
        lines.find_value_line(file_loc), text, _suggest_value(value, input_value), file_loc
    )


def _suggest_value(value: JsonSchema, input_value: Plain) -> str:
    if isinstance(input_value, str) and (
        close_choice := find_nearest(input_value, value.get("enum", ()))
    ):
        return f"Did you mean {close_choice}?"
    kind = value.get("type")
    if (
        isinstance(input_value, str)
        and kind in {"integer", "number"}
        and input_value.strip().isdecimal()
    ):
        return "Write it without quotes."
    is_text = kind == "string" and "enum" not in value
    if is_text and isinstance(input_value, bool | int | float):
        return f'Quote it: "{quote_value(input_value)}".'
    return ""


def _describe_broken_rule(error: ErrorDetails, lines: YamlLines) -> YamlProblem:
    file_loc = strip_tag(error["loc"])
    text = error["msg"].removeprefix("Value error, ")
    if file_loc == ("expect",):
        expect_values = error["input"] if isinstance(error["input"], dict) else {}
        if "check" not in expect_values and expect_values.get("verdict") == "inconclusive":
            hint = "Add check, such as faults-happened or trajectory."
            return YamlProblem(lines.find_key_line((*file_loc, "verdict")), text, hint, file_loc)
        hint = "Add that, or leave check out."
        return YamlProblem(lines.find_key_line((*file_loc, "check")), text, hint, file_loc)
    return YamlProblem(lines.find_value_line(file_loc), text, "", file_loc)


def describe_expectation(value: JsonSchema) -> str:
    """Return in words the value that a schema requires."""
    if "enum" in value:
        return f"one of {', '.join(str(choice) for choice in value['enum'])}"
    if "oneOf" in value and "type" not in value:
        return "such as {epoch: 2, step: 5}"
    kind = value.get("type", "")
    words = {"array": "a list", "object": "a mapping", "boolean": "true or false"}
    if kind == "string":
        return "text that is not empty" if value.get("minLength") else "text"
    if kind not in {"integer", "number"}:
        return words.get(kind, "a value")
    return " ".join(
        ["a whole number" if kind == "integer" else "a number", *_describe_bounds(value)]
    )


def _describe_bounds(value: JsonSchema) -> Iterator[str]:
    lower_limit, minimum, maximum = (
        value.get(key) for key in ("exclusiveMinimum", "minimum", "maximum")
    )
    if lower_limit is not None:
        yield f">= {lower_limit + 1}" if value["type"] == "integer" else f"> {lower_limit}"
    if minimum is not None:
        yield f">= {minimum}"
    if maximum is not None:
        yield f"and <= {maximum}"


def _find_record(schema: JsonSchema, loc: Loc) -> JsonSchema:
    """Return the part of the schema that describes `loc`, with references followed."""
    node = schema
    for part in loc:
        if "oneOf" in node and "properties" not in node:
            kinds = [_follow_reference(schema, kind) for kind in node["oneOf"]]
            node = next(kind for kind in kinds if part in kind["required"])
        else:
            node = _follow_reference(schema, _find_child(node, part))
    return node


def _find_child(node: JsonSchema, part: str | int) -> JsonSchema:
    child: Any = node.get("items", {})
    if isinstance(part, str):
        child = node.get("properties", {}).get(part, node.get("additionalProperties", {}))
    return child if isinstance(child, dict) else {}


def _follow_reference(schema: JsonSchema, node: JsonSchema) -> JsonSchema:
    if "$ref" not in node:
        return node
    kind: JsonSchema = schema["$defs"][node["$ref"].rpartition("/")[2]]
    return kind


def _find_meant_key(loc: Loc, record: JsonSchema) -> str | None:
    key, known_keys = str(loc[-1]), list(record["properties"])
    synonym = _KEY_SYNONYMS.get(key)
    return synonym if synonym in known_keys else find_nearest(key, known_keys)


def strip_tag(loc: Loc) -> Loc:
    """Return the place in the file: pydantic inserts the trigger's kind after `at`."""
    is_in_trigger = loc[:1] == ("faults",) and loc[2:3] == ("at",)
    return (*loc[:3], *loc[4:]) if is_in_trigger else loc


def _describe_owner(file_loc: Loc) -> str:
    parent_loc = file_loc[:-1]
    if not parent_loc:
        return "a scenario"
    return (
        f"an entry of {parent_loc[-2]}" if isinstance(parent_loc[-1], int) else str(parent_loc[-1])
    )


def _describe_position(file_loc: Loc) -> str:
    return f" in {_describe_owner(file_loc)}" if file_loc[:-1] else ""
