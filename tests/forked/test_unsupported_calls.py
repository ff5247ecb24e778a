"""TensorFlow is not forked once it has computed."""

import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from chaos.errors import ComputedEarlyError
from chaos.launch.forked.unsupported_calls import refuse_to_fork_tensorflow

pytestmark = pytest.mark.timeout(240)


@pytest.mark.parametrize(
    ("context", "is_refused"),
    [
        (None, False),  # imported, and never used
        (SimpleNamespace(_initialized=False), False),
        (SimpleNamespace(_initialized=True), True),
    ],
)
def test_tensorflow_is_not_forked_once_it_has_computed(
    context: Any, is_refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    module: Any = ModuleType("tensorflow.python.eager.context")
    module._context = context
    monkeypatch.setitem(sys.modules, module.__name__, module)

    with pytest.raises(ComputedEarlyError) if is_refused else nullcontext():
        refuse_to_fork_tensorflow()


def test_where_tensorflow_is_not_imported_anything_is_forked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "tensorflow.python.eager.context", raising=False)

    refuse_to_fork_tensorflow()
