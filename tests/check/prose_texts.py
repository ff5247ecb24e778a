"""The sentences of findings as they were last accepted, with the facts that each is made of.

    python -m tests.check.prose_texts    take today's sentences for right

`prose_texts.json` has examples of each kind: one for each branch of the function that describes it.
Other tests compare kinds and facts, so that a better sentence changes this file alone.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from chaos.check import prose  # noqa: F401 (each of its modules registers its kinds)
from chaos.check.kinds.base import Facts
from chaos.check.prose.registry import describe_finding
from chaos.model.launcher import LAUNCHER_FACTS

FILE = Path(__file__).with_suffix(".json")


def list_facts_types(base: type[Facts] = Facts) -> Iterator[type[Facts]]:
    """Yield the type of each kind's facts."""
    for facts_type in base.__subclasses__():
        if "kind" in vars(facts_type):  # else it is a base of several
            yield facts_type
        yield from list_facts_types(facts_type)


def load_examples() -> list[dict[str, Any]]:
    """Return the examples: each with a kind, a launcher, facts and the accepted sentence."""
    examples: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))
    return examples


def decode_facts(kind: str, facts: dict[str, Any]) -> Facts:
    """Return the facts of a finding from JSON."""
    facts_type = next(each for each in list_facts_types() if each.kind == kind)
    decoded: Facts = TypeAdapter(facts_type).validate_python(facts)
    return decoded


def describe_example(example: dict[str, Any]) -> str:
    """Return today's sentence of an example."""
    facts = decode_facts(example["kind"], example["facts"])
    return describe_finding(facts, LAUNCHER_FACTS[example["launcher"]].words)


def write_examples(examples: list[dict[str, Any]]) -> None:
    """Write examples with today's sentences, by kind."""
    texts = []
    for example in sorted(examples, key=lambda each: str(each["kind"])):
        fields = {**example, "sentence": describe_example(example)}
        rows = (f"{json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in fields.items())
        texts.append("{" + ",\n ".join(rows) + "}")
    FILE.write_text("[\n" + ",\n".join(texts) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    write_examples(load_examples())
