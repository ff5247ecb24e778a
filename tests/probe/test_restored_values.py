"""Values that a clean run kept, given to another run as it resumes."""

import json
import pickle
import random
import sys
import threading
import types
from collections import defaultdict, deque
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from chaos.model.places import TrainingPlace
from chaos.probe.state.census import Census
from chaos.probe.state.restored_values import (
    GIVE,
    KEEP,
    HeldValue,
    LoopTrace,
    ValueOrders,
    _extract_content,
    set_value,
)
from chaos.run.clock import SystemClock
from tests.probe.counting import Control, Slotted, taken


def stream(ease: float) -> Generator[float, None, None]:
    while True:
        yield ease
        ease += 1.0


def test_what_a_function_that_yields_holds_while_it_waits_is_read_and_given_back() -> None:
    waiting, unbegun = stream(0.5), stream(2.0)
    next(waiting)

    found = taken(data=[waiting], unbegun=unbegun)

    assert (found["data[0].ease"], found["unbegun.ease"]) == ("0.5", "2.0")
    assert set_value(HeldValue(0.5, waiting, "ease"), 4.0)
    assert next(waiting) == 5.0
    waiting.close()
    assert not taken(waiting=waiting)


def test_what_cannot_be_pickled_is_not_kept_and_a_factory_stays(tmp_path: Path) -> None:
    names: dict[str, int] = defaultdict(lambda: len(names), one=0)
    order = {"paths": [], "places": [[0, 0]], "loops": []}
    (tmp_path / KEEP).write_text(json.dumps(order), encoding="utf-8")
    orders = ValueOrders(tmp_path, attempt=0, rank=0)
    held = {"names": names, "lock": threading.Lock()}

    orders.exchange_values(
        None, {path: HeldValue(value, None, None) for path, value in held.items()}
    )
    orders.write_values(TrainingPlace(0, 0))

    kept = pickle.loads((tmp_path / "kept-0-0-0.pkl").read_bytes())[None]
    assert kept.keys() == {"names"}
    other: dict[str, int] = defaultdict(lambda: 7)
    assert set_value(HeldValue(other, None, None), pickle.loads(kept["names"]))
    assert (other["one"], other["two"]) == (0, 7)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ([1, 2], [3]),
        ({"a": 1}, {"b": 2}),
        ({1}, {2}),
        (deque([1]), deque([2, 3])),
        (torch.zeros(2), torch.ones(2)),
        (np.zeros(2), np.ones(2)),
    ],
)
def test_content_is_given_back_where_it_is(old: Any, new: Any) -> None:
    holder = types.SimpleNamespace(held=old)

    assert set_value(HeldValue(old, holder, "held"), new)

    assert holder.held is old
    assert np.array_equal(np.array(list(old)), np.array(list(new)))


def test_a_tensor_in_a_container_stays_the_one_that_others_hold() -> None:
    mean, roots = torch.zeros(2), [torch.zeros(2), torch.zeros(3)]
    held, many = {"mean": mean, "gone": 1}, {"roots": roots}
    first = roots[0]

    assert set_value(HeldValue(held, many, "held"), {"mean": torch.ones(2), "new": 2})
    assert set_value(HeldValue(roots, many, "roots"), [torch.ones(2), torch.ones(4)])

    assert mean.tolist() == first.tolist() == [1.0, 1.0]
    assert held.keys() == {"mean", "new"}
    assert roots[1].tolist() == [1.0] * 4


def test_other_values_are_put_in_their_place() -> None:
    control, names, slotted, one = Control(), {"a": 1}, Slotted(), 1

    def step() -> int:
        return one

    assert set_value(HeldValue(0.25, control, "value"), 0.5)
    assert set_value(HeldValue(1, names, "a"), 2)
    assert set_value(HeldValue(3, slotted, "count"), 4)
    assert set_value(HeldValue(1, step, "one"), 6)
    assert not set_value(HeldValue(1, (1,), 0), 2)

    assert (control.value, names["a"], slotted.count, step()) == (0.5, 2, 4, 6)


def test_a_variable_of_a_running_function_is_given_back() -> None:
    def given() -> int:
        count = 1
        assert set_value(HeldValue(1, sys._getframe(), "count"), 9)
        return count

    assert given() == 9


@pytest.mark.parametrize(
    "make",
    [
        lambda: random.Random(1),
        lambda: torch.Generator().manual_seed(1),
        lambda: np.random.default_rng(1),
        lambda: np.random.RandomState(1),
    ],
)
def test_values_that_a_clean_run_keeps_come_to_another_run(
    make: Callable[[], Any], tmp_path: Path
) -> None:
    clean, run = _order(tmp_path, [])
    ahead, anew = make(), make()
    _draw(ahead)
    due, holder = types.SimpleNamespace(n=5), types.SimpleNamespace(n=0)

    keeping = ValueOrders(clean, attempt=0, rank=0)
    keeping.exchange_values(None, {"it": HeldValue(ahead, due, "it"), "n": HeldValue(5, due, "n")})
    keeping.write_values(TrainingPlace(1, 0))
    keeping.exchange_values(None, {"it": HeldValue(ahead, due, "it"), "n": HeldValue(5, due, "n")})
    keeping.write_values(TrainingPlace(2, 0))
    giving = ValueOrders(run, attempt=1, rank=0)
    other = ValueOrders(run, attempt=2, rank=0)

    assert giving.wanted_paths == {"it", "n"}
    assert not other.wanted_paths
    assert giving.exchange_values(
        None, {"it": HeldValue(anew, holder, "it"), "n": HeldValue(0, holder, "n")}
    )
    assert not giving.exchange_values(None, {})  # once
    assert giving.is_finished
    assert not keeping.is_finished
    assert holder.n == 5
    assert _draw(anew) == _draw(ahead)


def test_a_module_is_given_back_as_it_was_kept() -> None:
    ahead, anew = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    ahead(torch.randn(8, 2))
    with torch.no_grad():
        ahead.weight.add_(1)
    kept = _extract_content(ahead)

    assert set_value(HeldValue(anew, None, None), kept)

    theirs, ours = ahead.state_dict(), anew.state_dict()
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs)


def _order(folder: Path, loops: list[tuple[str, int, int]]) -> tuple[Path, Path]:
    clean, run = folder / "clean", folder / "run"
    clean.mkdir()
    run.mkdir()
    order = {"paths": ["it", "n"], "loops": loops}
    (clean / KEEP).write_text(json.dumps(order | {"places": [[2, 1]] if loops else [[2, 0]]}))
    due = {"attempts": {"1": [2, 1] if loops else [2, 0]}, "from": str(clean)}
    (run / GIVE).write_text(json.dumps(order | due))
    return clean, run


def test_values_are_given_back_as_the_loops_begin_that_they_were_kept_in(tmp_path: Path) -> None:
    clean, run = _order(tmp_path, [("job.py", 1, 9), ("job.py", 2, 9)])
    keeping, giving = ValueOrders(clean, attempt=0, rank=0), ValueOrders(run, attempt=1, rank=0)
    held: dict[str, int] = {"n": 0}

    def keep(moment: int | None, epoch: int, step: int, value: int) -> bool:
        asked = keeping.needs_census(moment, TrainingPlace(epoch, step))
        if asked:
            keeping.exchange_values(moment, {"n": HeldValue(value, held, "n")})
        return asked

    def give(moment: int | None) -> int:
        if giving.needs_census(moment, TrainingPlace(0, 0)):
            giving.exchange_values(moment, {"n": HeldValue(held["n"], held, "n")})
        return held["n"]

    # The outer loop's is that of the epoch's beginning, the inner one's that of the place.
    assert keep(0, 1, 8, 1)
    assert keep(0, 2, 0, 2)
    assert not keep(1, 2, 0, 3)
    assert keep(1, 2, 1, 4)
    assert keep(None, 2, 1, 5)
    keeping.write_values(TrainingPlace(2, 1))
    assert keep(0, 3, 0, 6)

    assert give(0) == 2
    held["n"] = 9
    assert give(0) == 9, "an outer loop goes on once"
    assert [give(1), give(1)] == [4, 4]
    assert give(None) == 5
    assert giving.is_finished
    assert json.loads((run / "given-1-0.json").read_text()) == ["n"]


def _looped(begun: Any, line: int) -> tuple[list[int], int]:
    trace = LoopTrace([(__file__, line, line + 1)], begun)
    trace.start()
    count, seen = 0, []
    try:
        for step in range(3):
            seen.append(step)
            count += 1
    finally:
        trace.stop()
    return seen, count


def test_the_bodies_of_a_running_functions_loops_are_traced_and_it_keeps_its_variables() -> None:
    first = _looped.__code__.co_firstlineno + 6
    found: list[int] = []

    def begun(number: int, frame: types.FrameType) -> None:
        found.append(number)
        names = frame.f_locals
        if len(found) == 2:
            set_value(HeldValue(names["count"], frame, "count"), 10)
        if type(names) is dict:
            names.clear()  # as a census does

    assert _looped(begun, first) == ([0, 1, 2], 12)
    assert found == [0, 0, 0]
    assert sys.gettrace() is None


def _draw(generator: Any) -> float:
    if isinstance(generator, torch.Generator):
        return float(torch.rand(1, generator=generator))
    return float(generator.random())


def test_a_body_that_begins_with_a_loop_begins_once_each_time() -> None:
    found: list[tuple[int, int]] = []
    epoch = step = -1

    def begun(number: int, _: types.FrameType) -> None:
        found.append((number, epoch))

    first = sys._getframe().f_lineno + 4
    trace = LoopTrace([(__file__, first, first + 1), (__file__, first + 1, first + 1)], begun)
    trace.start()
    for epoch in range(2):  # noqa: B007 - read above
        for step in range(3):
            assert step >= 0
    trace.stop()

    assert found == [(0, 0), (1, 0), (1, 0), (1, 0), (0, 1), (1, 1), (1, 1), (1, 1)]


def test_a_deque_that_lost_its_bound_is_another_value_and_gets_it_back() -> None:
    bounded, unbounded = deque([1.0], maxlen=12), deque([1.0])
    digests = []
    for value in (bounded, unbounded):
        census = Census(SystemClock().now_ns)
        census.add_values([("norms", value)])
        census.expand_all()
        digests.append([held.digest for held in census.entries])
    holder = types.SimpleNamespace(norms=unbounded)

    assert digests[0] != digests[1]
    assert set_value(HeldValue(unbounded, holder, "norms"), bounded)
    assert holder.norms.maxlen == 12
