"""`chaos.declare` is light, and does nothing where chaos does not run."""

import subprocess
import sys

import pytest

import chaos
from chaos import declaration


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declaration, "_declared", {})
    monkeypatch.setattr(declaration, "_listeners", [])


def test_outside_of_a_run_nothing_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(declaration.TOKEN_ENV, raising=False)
    chaos.declare("sampler", {"epoch": 1})

    assert declaration.list_declared_parts() == []


def test_in_a_run_a_name_means_what_it_was_declared_as_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(declaration.TOKEN_ENV, "t")
    told: list[str] = []
    chaos.declare("b", 1)
    declaration.add_declare_listener(told.append)
    chaos.declare("a", 2)
    chaos.declare("b", 3)

    assert declaration.list_declared_parts() == [("a", 2), ("b", 3)]
    assert told == ["b", "a", "b"]


def test_importing_chaos_imports_neither_torch_nor_ray_nor_pydantic() -> None:
    code = (
        "import sys, chaos; print(sorted({'torch', 'ray', 'pydantic', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
