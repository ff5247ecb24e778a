"""A batch of Keras is seen once: with its model before it, and before the job's own callbacks."""

import sys
from types import ModuleType
from typing import Any

import pytest

from chaos.errors import InjectedError
from chaos.probe.libraries import watch_batches

Told = list[str]


def library(told: Told) -> Any:
    """Make as much of Keras as is used; the job's callbacks, which may report, tell of it."""

    class CallbackList:
        def __init__(self, model: str) -> None:
            self.model = model

        def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
            told.append(f"callbacks before {batch}")

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            told.append(f"callbacks after {batch}: {logs}")

    made: Any = ModuleType("keras")
    made.callbacks = ModuleType("keras.callbacks")
    made.callbacks.CallbackList = CallbackList
    return made


def fit(name: str, model: str, *, batches: int = 1) -> None:
    """Train as both versions of Keras do."""
    callbacks = sys.modules[name].callbacks.CallbackList(model)
    for batch in range(batches):
        callbacks.on_train_batch_begin(batch)
        callbacks.on_train_batch_end(batch, logs="loss")


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Told:
    """Import two libraries that look like the real ones; gives what was told, in order."""
    told: Told = []
    for name in ("keras", "tf_keras"):
        monkeypatch.setitem(sys.modules, name, library(told))
    return told


def watch(told: Told) -> None:
    watch_batches(lambda model: told.append(f"begins {model}"), lambda: told.append("done"))


@pytest.mark.parametrize("name", ["keras", "tf_keras"])
def test_a_step_begins_after_the_callbacks_and_is_counted_before_them(
    name: str, told: Told
) -> None:
    watch(told)

    fit(name, "a model")

    assert told == ["callbacks before 0", "begins a model", "done", "callbacks after 0: loss"]


def test_a_library_that_is_watched_twice_counts_a_batch_once(told: Told) -> None:
    watch(told)
    watch(told)

    fit("keras", "a model", batches=3)

    assert told.count("done") == 3


def test_a_library_that_is_imported_by_the_train_function_is_watched_from_then_on(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    later = sys.modules["tf_keras"]
    monkeypatch.delitem(sys.modules, "tf_keras")
    watch(told)
    monkeypatch.setitem(sys.modules, "tf_keras", later)
    watch(told)

    fit("keras", "one")
    fit("tf_keras", "other")

    assert [what for what in told if not what.startswith("callbacks")] == [
        "begins one",
        "done",
        "begins other",
        "done",
    ]


def test_a_library_that_is_not_imported_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("keras", "tf_keras"):
        monkeypatch.delitem(sys.modules, name, raising=False)

    watch([])

    assert not {"keras", "tf_keras"} & set(sys.modules)


def test_another_library_of_that_name_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "keras", ModuleType("keras"))

    watch([])


def test_callbacks_that_were_given_no_model_have_steps_all_the_same(told: Told) -> None:
    watch(told)
    callbacks = sys.modules["keras"].callbacks.CallbackList("a model")
    del callbacks.model

    callbacks.on_train_batch_begin(0)
    callbacks.on_train_batch_end(0)

    assert told == ["callbacks before 0", "done", "callbacks after 0: None"]


def test_harm_that_was_ordered_reaches_fit_before_a_callback_can_report(told: Told) -> None:
    def strike() -> None:
        raise InjectedError

    watch_batches(lambda _: None, strike)

    with pytest.raises(InjectedError):
        fit("keras", "a model")
    assert told == ["callbacks before 0"]
