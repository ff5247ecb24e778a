"""What a Keras model and its optimizer hold, and what neither of them has made yet."""

import importlib.util
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch

from chaos.model.event import Component
from chaos.probe.state.keras_parts import take_keras_parts
from chaos.probe.state.part import UnreadComponent
from chaos.probe.state.watch import find_kind

RATE = np.float32(0.25)


class Variable:
    """As much of a variable of TensorFlow's as is used."""

    def __init__(self, name: str, *numbers: float, dtype: Any = "float32") -> None:
        self.name, self._numbers = name, np.array(numbers, dtype)
        self.synchronization = "VariableSynchronization.AUTO"

    def numpy(self) -> Any:
        return self._numbers if self._numbers.size != 1 else self._numbers[0]


class Spread:
    """One that a strategy has spread over ranks: its copies, and what reading it would take."""

    def __init__(self, *copies: Variable, each_for_itself: bool = False) -> None:
        self.name, self.values = copies[0].name, copies
        how = "ON_READ" if each_for_itself else "ON_WRITE"
        self.synchronization = f"VariableSynchronization.{how}"

    def numpy(self) -> Any:
        raise AssertionError("to read it takes all ranks")


@dataclass
class Optimizer:
    """As much of an optimizer of Keras 3 as is used; in `tf_keras` `variables` may be a method."""

    steps: int = 0
    slots: tuple[Any, ...] = ()
    rate: Any = RATE

    @property
    def iterations(self) -> Variable:
        return Variable("adam/iteration", self.steps, dtype="int64")

    @property
    def variables(self) -> list[Any]:
        return [self.iterations, Variable("adam/learning_rate", 0.25), *self.slots]

    def get_config(self) -> dict[str, Any]:
        return {"name": "adam", "learning_rate": self.rate}


@dataclass
class Model:
    """As much of `keras.Model` as is used."""

    held: tuple[Any, ...] = ()
    optimizer: Any = None
    built: bool = True
    trainable_weights: list[Any] = field(default_factory=list)

    @property
    def weights(self) -> list[Any]:
        if not self.built:
            raise ValueError("Weights for this model have not yet been created")
        return list(self.held)


def seen(parts: Iterable[UnreadComponent]) -> dict[str, Component]:
    return {part.name: part.build_component() for part in parts}


def of(*models: Any, full: bool = True) -> dict[str, Component]:
    return seen(take_keras_parts(models, full=full))


KERNEL = Variable("dense/kernel", 3, 4)
MOMENTUM = Variable("adam/dense_kernel_momentum", 1, 2)


def test_weights_slots_steps_and_learning_rate_are_parts_with_their_sizes() -> None:
    found = of(Model((KERNEL,), Optimizer(7, (MOMENTUM,))))

    assert (found["model.weights"].size, found["model.weights"].count) == (5.0, 1)
    assert found["optimizer.slots"].size == pytest.approx(5**0.5)
    assert (found["optimizer.iterations"].count, found["optimizer.lr"].size) == (7, 0.25)
    assert not any(part.pending for part in found.values())


def test_other_numbers_are_another_model() -> None:
    one, other = of(Model((KERNEL,))), of(Model((Variable("dense/kernel", 3, 5),)))

    assert one["model.weights"].digest != other["model.weights"].digest


def test_weights_in_another_order_are_another_model() -> None:
    bias = Variable("dense/bias", 1)

    assert of(Model((KERNEL, bias))) != of(Model((bias, KERNEL)))


def test_the_same_weights_under_another_number_are_the_same_model() -> None:
    one, other = of(Model((KERNEL,))), of(Model((Variable("dense_2/kernel", 3, 4),)))

    assert one == other


def test_a_new_optimizer_holds_nothing_and_that_is_known() -> None:
    found = of(Model((KERNEL,), Optimizer()))

    for name in ("optimizer.slots", "optimizer.iterations"):
        assert (found[name].digest, found[name].count, found[name].pending) == ("", 0, False)


def test_slots_that_will_be_restored_in_the_first_step_are_pending() -> None:
    assert of(Model((KERNEL,), Optimizer(steps=7)))["optimizer.slots"].pending


def test_a_model_that_is_built_in_the_first_step_is_pending() -> None:
    found = of(Model((KERNEL,), built=False))

    assert (found["model.weights"].pending, found["model.weights"].count) == (True, 0)


def test_a_rank_looks_at_its_own_copy() -> None:
    spread = Spread(KERNEL)

    assert of(Model((spread,))) == of(Model((KERNEL,)))


def test_what_takes_all_ranks_to_read_is_left_out() -> None:
    mean = Spread(Variable("moving_mean", 9), each_for_itself=True)

    assert of(Model((KERNEL, mean))) == of(Model((KERNEL,)))


def test_a_moving_mean_of_a_job_that_is_not_spread_is_a_weight() -> None:
    mean = Variable("moving_mean", 9)
    mean.synchronization = "VariableSynchronization.ON_READ"

    assert of(Model((KERNEL, mean)))["model.weights"].count == 2


def test_an_older_optimizer_gives_its_variables_when_asked() -> None:
    class Older(Optimizer):
        def variables(self) -> list[Any]:  # type: ignore[override]
            return [self.iterations, *self.slots]

    assert of(Model((KERNEL,), Older(7, (MOMENTUM,))))["optimizer.slots"].count == 1


def test_a_schedules_learning_rate_follows_from_the_steps_and_is_no_part() -> None:
    found = of(Model((KERNEL,), Optimizer(rate={"class_name": "CosineDecay"})))

    assert "optimizer.lr" not in found


def test_a_model_that_was_never_compiled_has_no_optimizer() -> None:
    assert set(of(Model((KERNEL,)))) == {"model.weights"}


def test_several_models_are_numbered() -> None:
    model = Model((KERNEL,), Optimizer(7, (MOMENTUM,)))

    assert set(of(model, model)) - set(of(model)) == {
        "model.weights.1",
        "optimizer.slots.1",
        "optimizer.iterations.1",
        "optimizer.1.lr",
    }


def test_between_epochs_there_are_no_sizes_and_no_settings() -> None:
    found = of(Model((KERNEL,), Optimizer(7, (MOMENTUM,))), full=False)

    assert "optimizer.lr" not in found
    assert found["model.weights"].size is None


def test_numbers_that_torch_does_not_have_are_read_all_the_same() -> None:
    one, other = (Variable("names", name, dtype="U1") for name in "ab")  # type: ignore[arg-type]

    assert of(Model((one,))) != of(Model((other,)))


def test_on_jax_a_model_is_not_read_while_it_trains() -> None:
    class OnJax(Model):
        def jax_state_sync(self) -> None: ...

    assert of(OnJax((KERNEL,))) == {}


def test_what_makes_a_step_is_told_apart() -> None:
    class Unbuilt:
        @property
        def trainable_weights(self) -> list[Any]:
            raise ValueError("Weights for this model have not yet been created")

    optimizer = torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1)

    assert [find_kind(made) for made in (optimizer, Unbuilt(), object())] == [
        "optimizer",
        "keras",
        "booster",
    ]


REAL = """
import os, sys, tempfile
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, tensorflow as tf, {keras} as keras
from chaos.probe.libraries import watch_batches
from chaos.probe.state.keras_parts import keras_parts

entered, done = [], []
watch_batches(lambda m: entered.append(parts(m)), lambda: done.append(None))

def parts(model):
    return {{part.name: part.component() for part in keras_parts([model], full=True)}}

def trained(path=None):
    keras.utils.set_random_seed(0)
    layers = [keras.layers.Dense(3), keras.layers.BatchNormalization(), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile(optimizer=keras.optimizers.Adam(0.25), loss="mse")
    if path:
        tf.train.Checkpoint(model=model).read(path)
    x = np.arange(16, dtype="float32").reshape(8, 2)
    model.fit(x, x[:, :1], batch_size=4, shuffle=False, verbose=0)
    return model

model = trained()
assert len(entered) == len(done) == 2
first, second = entered
assert first["model.weights"].pending and not second["model.weights"].pending
assert (first["optimizer.iterations"].count, second["optimizer.iterations"].count) == (0, 1)
assert not first["optimizer.slots"].pending and first["optimizer.slots"].count == 0
assert second["optimizer.slots"].count == 12 and second["optimizer.lr"].size == 0.25
left = parts(model)
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "state")
    tf.train.Checkpoint(model=model).write(path)
    went_on = trained(path)
third = entered[2]
assert third["optimizer.iterations"] == left["optimizer.iterations"], third
assert third["optimizer.slots"].pending and third["model.weights"].pending
assert parts(went_on)["optimizer.iterations"].count == 4
print("seen")
"""


@pytest.mark.timeout(180)
@pytest.mark.parametrize("keras", ["keras", "tf_keras"])
def test_what_keras_itself_restores_late_is_pending(keras: str) -> None:
    if not all(map(importlib.util.find_spec, ("tensorflow", keras))):
        pytest.skip("pip install ray-train-chaos[tensorflow]")

    ran = subprocess.run(
        [sys.executable, "-c", REAL.format(keras=keras)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.stdout == "seen\n", ran.stderr[-2000:]
