"""Each kind of finding reads as it did when its sentences were last accepted."""

from typing import Any

import pytest

from chaos.check.anomaly import encode_facts
from chaos.check.prose.registry import list_entries
from tests.check.prose_texts import decode_facts, describe_example, load_examples

EXAMPLES = load_examples()


@pytest.mark.parametrize("example", EXAMPLES, ids=[each["kind"] for each in EXAMPLES])
def test_a_finding_reads_as_accepted(example: dict[str, Any]) -> None:
    assert describe_example(example) == example["sentence"], (
        "`python -m tests.check.prose_texts` accepts the new sentences"
    )


@pytest.mark.parametrize("example", EXAMPLES, ids=[each["kind"] for each in EXAMPLES])
def test_the_facts_of_an_example_are_those_of_its_kind(example: dict[str, Any]) -> None:
    assert encode_facts(decode_facts(example["kind"], example["facts"])) == example["facts"]


def test_each_kind_has_an_example() -> None:
    assert {each["kind"] for each in EXAMPLES} == {entry.kind for entry in list_entries()}
