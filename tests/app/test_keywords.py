"""`help` lists the keywords of a function."""

import inspect
from dataclasses import fields

import pytest

import chaos
from chaos.app.audit_request import AuditRequest

NAMES = [item.name for item in fields(AuditRequest) if item.name not in ("script", "arguments")]


def test_help_lists_the_keywords_and_an_unknown_one_is_a_mistake() -> None:
    parameters = inspect.signature(chaos.audit).parameters

    assert list(parameters) == ["script", "args", "quiet", *NAMES]
    assert all(
        name in (inspect.getdoc(chaos.audit) or "").partition("Keywords: ")[2] for name in NAMES
    )
    with pytest.raises(TypeError, match="max_runz"):
        chaos.audit("train.py", max_runz=3)  # type: ignore[call-arg]
