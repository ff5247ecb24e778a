"""A question with some of its values changed, named by their places (`job.nodes`)."""

import copy
import difflib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from chaos.errors import UsageError
from chaos.preflight.costs import PARTS
from chaos.preflight.question import Question


def changed(question: Question, values: Mapping[str, Any]) -> Question:
    """Return the question with these values; raises `UsageError` for one that cannot be."""
    plain: dict[str, Any] = question.model_dump(mode="json")
    for place, value in values.items():
        _put(plain, place, value)
    try:
        return Question.model_validate_json(json.dumps(plain))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        text = str(first["msg"]).removeprefix("Value error, ")
        raise UsageError(f"{where}: {text}", place="the question") from None


def value_at(plain: Mapping[str, Any], place: str) -> Any:  # noqa: ANN401 (a plain value)
    """Return the value of a question's plain form at a place (`job.nodes`)."""
    node: Any = plain
    for part in place.split("."):
        node = node[part]
    return node


def _put(plain: dict[str, Any], place: str, value: Any) -> None:  # noqa: ANN401
    if place == "costs.restart_s" and isinstance(plain["costs"], dict):
        plain["costs"] = {k: v for k, v in plain["costs"].items() if k not in PARTS}
        plain["costs"]["restart_s"] = value
        return
    *path, last = place.split(".")
    node: Any = plain
    for part in path:
        node = node.get(part) if isinstance(node, dict) else None
    if not isinstance(node, dict) or last not in node:
        known = [*(node if isinstance(node, dict) else plain)]
        near = difflib.get_close_matches(last, known, n=1)
        hint = f"Did you mean {near[0]}?" if near else f"Known there: {', '.join(known)}."
        raise UsageError(f"there is no value {place}", hint)
    node[last] = copy.deepcopy(value)  # what is put deeper later is not the caller's
