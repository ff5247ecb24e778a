"""Error messages of scenario files: pydantic's errors in the words of a file.

The expected values are read from the JSON Schema, so that a message, an editor and the records
agree.
"""

from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeAlias

from pydantic_core import ErrorDetails

from chaos.model.fault_entry import FAULTS
from chaos.model.scenario import SOURCES, Scenario
from chaos.scenario_file.yaml_lines import Lines, Loc, Plain, Problem, shortened


def quoted(value: Plain) -> str:
    """Return a value as the file has it: text in quotes, a structure by its kind."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return repr(shortened(value))
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return str(value)


def nearest(word: str, known: Collection[str]) -> str | None:
    """Return the known word that was probably meant, whatever the case and the dashes."""
    by_shape = {name.lower(): name for name in known}
    found = get_close_matches(word.lower().replace("-", "_"), by_shape, n=1)
    return by_shape[found[0]] if found else None


JsonSchema: TypeAlias = dict[str, Any]


@cache
def json_schema() -> JsonSchema:
    """Return the schema of `*.chaos.yaml`, fit for yaml-language-server.

    It is stricter than the loader in one way: a key without a value is an
    error here, so that an editor shows it while it is being typed.
    """
    schema = _without_null(Scenario.model_json_schema())
    kinds = schema["$defs"]
    kinds["FaultEntry"]["oneOf"] = [{"required": [fault]} for fault in FAULTS]
    kinds["Job"]["oneOf"] = [{"required": [source]} for source in SOURCES]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **schema,
        "title": "chaos scenario",
        "description": "A Ray Train job, the faults to inject, and what must come of it.",
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


_SAID_OTHERWISE = {"on": "at", "when": "at", "trigger": "at"}


def reworded(errors: Sequence[ErrorDetails], lines: Lines) -> Iterator[Problem]:
    """Return one problem per error; a misspelt key is not also a missing one."""
    schema = json_schema()
    unknown = [e["loc"] for e in errors if e["type"] == "extra_forbidden"]
    meant = {(*loc[:-1], _meant(loc, _record(schema, loc[:-1]))) for loc in unknown}
    for error in errors:
        kind, loc = error["type"], error["loc"]
        if kind == "extra_forbidden":
            yield _unknown_key(loc, _record(schema, loc[:-1]), lines)
        elif kind == "value_error":
            yield _broken_rule(error, lines)
        elif kind != "missing":
            yield _wrong_value(error, _record(schema, loc), lines)
        elif loc not in meant:
            yield _missing_key(loc, _record(schema, loc), lines)


def _unknown_key(loc: Loc, record: JsonSchema, lines: Lines) -> Problem:
    key, place = str(loc[-1]), untagged(loc)
    meant = _meant(loc, record)
    if key == "on" and meant:
        hint = "A trigger is spelled `at:`."
    elif meant:
        hint = f"Did you mean {meant}?"
    else:
        hint = f"Known here: {', '.join(record['properties'])}."
    return Problem(lines.key(place), f"unknown key {key!r}{_inside(place)}", hint, place)


def _missing_key(loc: Loc, value: JsonSchema, lines: Lines) -> Problem:
    place = untagged(loc)
    hint = f"Add `{place[-1]}:`, {expectation(value)}."
    text = f"{_owner(place)} needs {place[-1]}"
    return Problem(lines.value(place[:-1]), text, hint, place)


def _wrong_value(error: ErrorDetails, value: JsonSchema, lines: Lines) -> Problem:
    place = untagged(error["loc"])
    name = next((part for part in reversed(place) if isinstance(part, str)), "a scenario")
    if place and isinstance(place[-1], int):
        name = f"each of {name}"
    given = error["input"]
    text = f"{name} must be {expectation(value)}, got {quoted(given)}"
    return Problem(lines.value(place), text, _value_hint(value, given), place)


def _value_hint(value: JsonSchema, given: Plain) -> str:
    if isinstance(given, str) and (meant := nearest(given, value.get("enum", ()))):
        return f"Did you mean {meant}?"
    kind = value.get("type")
    if isinstance(given, str) and kind in {"integer", "number"} and given.strip().isdecimal():
        return "Write it without quotes."
    is_text = kind == "string" and "enum" not in value
    if is_text and isinstance(given, bool | int | float):
        return f'Quote it: "{quoted(given)}".'
    return ""


def _broken_rule(error: ErrorDetails, lines: Lines) -> Problem:
    place = untagged(error["loc"])
    text = error["msg"].removeprefix("Value error, ")
    if place == ("expect",):
        given = error["input"] if isinstance(error["input"], dict) else {}
        if "check" not in given and given.get("verdict") == "inconclusive":
            hint = "Add check, such as faults-happened or trajectory."
            return Problem(lines.key((*place, "verdict")), text, hint, place)
        hint = "Add that, or leave check out."
        return Problem(lines.key((*place, "check")), text, hint, place)
    return Problem(lines.value(place), text, "", place)


def expectation(value: JsonSchema) -> str:
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
    return " ".join(["a whole number" if kind == "integer" else "a number", *_bounds(value)])


def _bounds(value: JsonSchema) -> Iterator[str]:
    above, least, most = (value.get(k) for k in ("exclusiveMinimum", "minimum", "maximum"))
    if above is not None:
        yield f">= {above + 1}" if value["type"] == "integer" else f"> {above}"
    if least is not None:
        yield f">= {least}"
    if most is not None:
        yield f"and <= {most}"


def _record(schema: JsonSchema, loc: Loc) -> JsonSchema:
    """Return the part of the schema that describes `loc`, with references followed."""
    node = schema
    for part in loc:
        if "oneOf" in node and "properties" not in node:
            kinds = [_followed(schema, kind) for kind in node["oneOf"]]
            node = next(kind for kind in kinds if part in kind["required"])
        else:
            node = _followed(schema, _below(node, part))
    return node


def _below(node: JsonSchema, part: str | int) -> JsonSchema:
    below: Any = node.get("items", {})
    if isinstance(part, str):
        below = node.get("properties", {}).get(part, node.get("additionalProperties", {}))
    return below if isinstance(below, dict) else {}


def _followed(schema: JsonSchema, node: JsonSchema) -> JsonSchema:
    if "$ref" not in node:
        return node
    kind: JsonSchema = schema["$defs"][node["$ref"].rpartition("/")[2]]
    return kind


def _meant(loc: Loc, record: JsonSchema) -> str | None:
    key, known = str(loc[-1]), list(record["properties"])
    other = _SAID_OTHERWISE.get(key)
    return other if other in known else nearest(key, known)


def untagged(loc: Loc) -> Loc:
    """Return the place in the file: pydantic inserts the trigger's kind after `at`."""
    is_in_trigger = loc[:1] == ("faults",) and loc[2:3] == ("at",)
    return (*loc[:3], *loc[4:]) if is_in_trigger else loc


def _owner(place: Loc) -> str:
    above = place[:-1]
    if not above:
        return "a scenario"
    return f"an entry of {above[-2]}" if isinstance(above[-1], int) else str(above[-1])


def _inside(place: Loc) -> str:
    return f" in {_owner(place)}" if place[:-1] else ""
