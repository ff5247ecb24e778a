"""A boosting round is seen once: with its booster before it, and when its trees are there."""

import sys
from types import ModuleType
from typing import Any

import pytest

from chaos.probe.libraries import watch_rounds
from chaos.probe.state.components import take_booster_parts


class XGBooster:
    """As much of `xgboost.Booster` as is used."""

    def __init__(self) -> None:
        self.trees: list[str] = []

    def update(self, tree: str) -> None:
        self.trees.append(tree)

    def num_boosted_rounds(self) -> int:
        return len(self.trees)

    def save_raw(self, _: str) -> bytearray:
        return bytearray(";".join(self.trees).encode())


class LightBooster:
    """As much of `lightgbm.Booster` as is used."""

    def __init__(self, *, asked_for: int) -> None:
        self.trees: list[str] = []
        self.asked_for = asked_for

    def update(self, tree: str) -> bool:
        self.trees.append(tree)
        return False

    def current_iteration(self) -> int:
        return len(self.trees)

    def model_to_string(self) -> str:
        return f"{';'.join(self.trees)}\nparameters:\n[num_iterations: {self.asked_for}]"


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Watch two libraries that look like the real ones; gives what was told, in order."""
    for name, booster in (("xgboost", XGBooster), ("lightgbm", LightBooster)):
        library: Any = ModuleType(name)
        library.Booster = type(name, (booster,), {"update": booster.update})
        monkeypatch.setitem(sys.modules, name, library)
    told: list[tuple[str, int]] = []
    watched: list[Any] = []

    def begins(booster: Any) -> None:
        watched.append(booster)
        told.append(("begins", len(booster.trees)))

    watch_rounds(begins, lambda: told.append(("done", len(watched[-1].trees))))
    return told


def test_a_round_of_xgboost_begins_without_its_tree_and_is_done_with_it(
    rounds: list[tuple[str, int]],
) -> None:
    sys.modules["xgboost"].Booster().update("a")

    assert rounds == [("begins", 0), ("done", 1)]


def test_what_a_round_of_lightgbm_returns_reaches_its_caller(
    rounds: list[tuple[str, int]],
) -> None:
    assert sys.modules["lightgbm"].Booster(asked_for=1).update("a") is False
    assert rounds == [("begins", 0), ("done", 1)]


def test_a_library_that_is_not_imported_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("xgboost", "lightgbm"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    watch_rounds(lambda _: None, lambda: None)

    assert "xgboost" not in sys.modules


def test_a_booster_without_trees_holds_nothing() -> None:
    parts = [part.build_component() for part in take_booster_parts([XGBooster()])]

    assert [(part.name, part.digest, part.count) for part in parts] == [("model.trees", "", 0)]


def test_other_trees_are_another_model() -> None:
    one, other = XGBooster(), XGBooster()
    one.update("a")
    other.update("b")

    first, second = (part.build_component() for part in take_booster_parts([one, other]))

    assert (first.name, second.name) == ("model.trees", "model.trees.1")
    assert first.digest != second.digest


def test_the_same_trees_are_the_same_model_however_many_rounds_were_asked_for() -> None:
    one, other = LightBooster(asked_for=12), LightBooster(asked_for=8)
    one.update("a")
    other.update("a")

    first, second = (part.build_component() for part in take_booster_parts([one, other]))

    assert first.digest == second.digest
