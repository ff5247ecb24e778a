"""A package that is called shows its function."""

import inspect

import pytest

import chaos
import chaos.app.audit


@pytest.mark.parametrize("name", ["audit", "run"])
def test_a_package_that_is_called_shows_its_function(name: str) -> None:
    called = getattr(chaos, name)
    __import__(f"chaos.{name}")  # Python sets the attribute anew

    assert getattr(chaos, name) is called
    assert next(iter(inspect.signature(called).parameters)) in {"script", "scenario"}
    assert f"chaos.{name}(" in (inspect.getdoc(called) or "")
