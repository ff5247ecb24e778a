"""A package that is called shows its function."""

import inspect
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

import chaos
import chaos.app.audit
from chaos.callable_module import make_callable


@pytest.mark.parametrize("name", ["audit", "run"])
def test_a_package_that_is_called_shows_its_function(name: str) -> None:
    called = getattr(chaos, name)
    __import__(f"chaos.{name}")  # Python sets the attribute anew

    assert getattr(chaos, name) is called
    assert next(iter(inspect.signature(called).parameters)) in {"script", "scenario"}
    assert f"chaos.{name}(" in (inspect.getdoc(called) or "")


def train(script: str, *, quiet: bool = False) -> None:
    """Train."""


def train_quietly(script: str = "train.py") -> None: ...


def train_with(script: str, *, quiet: bool = False, **options: int) -> None:
    """Train."""


@pytest.mark.parametrize(
    ("function", "doc"),
    [
        (train, "train(script, **keywords)\n\nTrain."),
        (train_quietly, "train(script='train.py')"),
        (train_with, "train(script, **options)\n\nTrain."),
    ],
)
def test_the_docstring_has_what_the_function_has(
    monkeypatch: pytest.MonkeyPatch, function: Callable[..., None], doc: str
) -> None:
    functions, package = ModuleType("functions"), ModuleType("package.train")
    monkeypatch.setitem(sys.modules, "functions", functions)
    monkeypatch.setitem(sys.modules, "package.train", package)
    monkeypatch.setattr(function, "__name__", "train")
    functions.train = function  # type: ignore[attr-defined]

    make_callable("package.train", "functions")

    assert package.__doc__ == doc
