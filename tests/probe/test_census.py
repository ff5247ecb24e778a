"""The census of plain values: what it reaches, what it leaves alone, and what is given back."""

import json
import pickle
import queue
import random
import sys
import threading
import types
import weakref
from collections import defaultdict, deque
from collections.abc import Callable, Generator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

from chaos.model.places import TrainingPlace
from chaos.probe.job_code import find_outer_loops, is_job_file
from chaos.probe.state import census as module
from chaos.probe.state.census import Census
from chaos.probe.state.plain_values import ELEMENTS_MAX
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

COUNTED = 7  # a global of this file, which is a job's as far as a census knows


def taken(*, frame: types.FrameType | None = None, **named: Any) -> dict[str, str]:
    census = Census(SystemClock().now_ns)
    if frame is not None:
        census.add_frames(frame)
    census.add_values(named.items())
    census.expand_all()
    return {held.path: held.text for held in census.entries}


class Control:
    def __init__(self) -> None:
        self.value, self.window = 0.25, deque([1.0, 2.0])


def stream(ease: float) -> Generator[float, None, None]:
    while True:
        yield ease
        ease += 1.0


class Deep:
    def __init__(self, depth: int) -> None:
        self.value, self.within = depth, Deep(depth - 1) if depth else None


class Slotted:
    __slots__ = ("count", "unset")

    def __init__(self) -> None:
        self.count = 3


class Net(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.drop = torch.nn.Linear(2, 2), torch.nn.Dropout(0.5)
        self.register_buffer("bias", torch.zeros(1), persistent=False)
        self.register_buffer("mean", torch.zeros(1))
        self.seen = 4


def looked_at() -> tuple[Callable[[], int], dict[str, str]]:
    """Return what is seen within a function; pytest puts a call of `locals` into a test."""
    steps, control = 5, Control()

    def step() -> int:
        return steps + int(control.value)

    return step, taken(frame=sys._getframe())


def test_values_are_reached_from_variables_closures_and_globals() -> None:
    step, found = looked_at()

    assert found["COUNTED"] == "7"
    assert found["steps"] == "5"
    assert found["control.value"] == "0.25"
    assert "control.window" in found
    assert taken(step=step)["step.control.value"] == "0.25"


class Trainer:
    def __init__(self) -> None:
        self.control, self.seen = Control(), 2

    def train(self) -> dict[str, str]:
        return Loop().run()


class Loop:
    def __init__(self) -> None:
        self.seen = 3

    def run(self) -> dict[str, str]:
        return taken(frame=sys._getframe())


def test_what_a_function_that_yields_holds_while_it_waits_is_read_and_given_back() -> None:
    waiting, unbegun = stream(0.5), stream(2.0)
    next(waiting)

    found = taken(data=[waiting], unbegun=unbegun)

    assert (found["data[0].ease"], found["unbegun.ease"]) == ("0.5", "2.0")
    assert set_value(HeldValue(0.5, waiting, "ease"), 4.0)
    assert next(waiting) == 5.0
    waiting.close()
    assert not taken(waiting=waiting)


def test_objects_of_the_jobs_own_classes_are_reached_further_than_those_of_libraries() -> None:
    found = taken(deep=Deep(8))

    assert f"deep{'.within' * 5}.value" in found
    assert f"deep{'.within' * 6}.value" not in found


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


def test_the_object_of_a_method_is_named_by_its_class() -> None:
    found = Trainer().train()

    assert (found["Trainer.seen"], found["Loop.seen"]) == ("2", "3")
    assert found["Trainer.control.value"] == "0.25"


def test_of_modules_and_optimizers_what_no_state_dict_has() -> None:
    net = Net()
    optimizer = torch.optim.Adam(net.parameters())
    optimizer.count = 2

    found = taken(net=net, optimizer=optimizer)

    assert found["net.seen"] == "4"
    assert found["net.bias"] == "0.0"
    assert found["net.drop.p"] == "0.5"
    assert found["net.training"] == "True"
    assert found["optimizer.count"] == "2"
    assert not {path for path in found if "mean" in path or "weight" in path or "lr" in path}


def test_a_container_of_tensors_is_one_value_with_its_members() -> None:
    def digest(roots: dict[int, torch.Tensor]) -> str:
        census = Census(SystemClock().now_ns)
        census.add_values({"roots": roots}.items())
        (held,) = census.entries
        return held.digest

    one = {0: torch.ones(2)}

    assert digest(one) == digest({0: torch.ones(2)})
    assert len({digest(one), digest({}), digest({0: torch.zeros(2)})}) == 3


def test_a_container_that_holds_itself_ends_a_census_as_any_other() -> None:
    around: list[object] = [1.0]
    around.append(around)
    names: dict[str, object] = {}
    names["self"] = [names]

    assert not taken(around=around, names=names).keys() - {"around[0]"}


def test_the_middle_of_a_window_of_tensors_counts_however_it_is_held() -> None:
    def digests(middle: float) -> list[str]:
        window = deque(torch.full((2000,), middle) for _ in range(2))
        census = Census(SystemClock().now_ns)
        census.add_values({"window": window, "many": [window], "by": {"name": window}}.items())
        census.expand_all()
        return [held.digest for held in census.entries]

    assert len(digests(1.0)) == 3
    assert not set(digests(1.0)) & set(digests(2.0))


def test_an_object_that_several_paths_reach_has_the_shortest() -> None:
    control = Control()

    found = taken(loaded={"extra": {"control": control}}, control=control)

    assert "control.value" in found
    assert not any(path.startswith("loaded") for path in found)


def test_no_text_of_a_string_is_kept_and_nothing_large_is_read() -> None:
    census = Census(SystemClock().now_ns)
    large = torch.zeros(ELEMENTS_MAX + 1)
    census.add_values({"key": "secret", "large": large, "many": [0] * ELEMENTS_MAX}.items())

    assert [(held.path, held.text) for held in census.entries] == [("key", "")]
    assert census.omitted_paths == ["large", "many"]


class Compression:
    """A hook that keeps what it did not send, as PowerSGD does."""

    def __init__(self) -> None:
        self.residual = {0: torch.ones(2)}

    def exchange(self, state: Any, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        raise NotImplementedError  # the test calls nothing that communicates


def test_an_object_that_only_a_communication_hook_holds_has_the_name_of_its_class(
    tmp_path: Path,
) -> None:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        model = nn.parallel.DistributedDataParallel(nn.Linear(2, 2))
        model.register_comm_hook(Control(), Compression().exchange)
        census = Census(SystemClock().now_ns)
        census.add_values(module.find_hook_owners([model, nn.Linear(1, 1)]))
        census.expand_all()
    finally:
        dist.destroy_process_group()

    paths = {held.path for held in census.entries}
    assert paths == {"Compression.residual", "Control.value", "Control.window"}


def test_slots_generators_and_members_of_members() -> None:
    found = taken(
        slotted=Slotted(),
        mine=random.Random(1),
        arrays=np.random.default_rng(1),
        torchs=torch.Generator(),
        hooks=[Control(), {"deep": Control()}],
    )

    assert found["slotted.count"] == "3"
    assert {"mine", "arrays", "torchs"} <= found.keys()
    assert found["hooks[0].value"] == "0.25"
    assert found["hooks[1]['deep'].value"] == "0.25"


class Touchy:
    """An object of which every method that could be called by accident raises."""

    def __init__(self) -> None:
        self.fine = 1

    def _raise(self, *_: object) -> Any:
        raise AssertionError("the job's code was called")

    __eq__ = __len__ = __getattr__ = __repr__ = __str__ = __bool__ = __iter__ = _raise
    __getitem__ = __hash__ = __contains__ = __call__ = state_dict = __reduce_ex__ = _raise
    __getstate__ = __array__ = __float__ = __int__ = __index__ = _raise
    asked = property(_raise)


class Hidden:
    def __getattribute__(self, name: str) -> Any:
        raise AssertionError("the job's code was called")


class Replaced:
    __dict__ = property(lambda _: 1 / 0)


class Pretends:
    __class__ = property(lambda _: 1 / 0)


class Strict(type):
    def __hash__(cls) -> int:
        raise AssertionError("the job's code was called")


class Made(metaclass=Strict):
    pass


class Words(str):
    __slots__ = ()

    def __eq__(self, _: object) -> bool:
        raise AssertionError("the job's code was called")

    __hash__ = str.__hash__


class Many(list[int]):
    def __iter__(self) -> Any:
        raise AssertionError("the job's code was called")


def test_no_code_of_the_job_is_called() -> None:
    odd = [Touchy(), Hidden(), Replaced(), Pretends(), Words("x"), Many([1]), Touchy, Made()]

    found = taken(odd=odd, touchy=Touchy(), names={"a": Touchy()})

    assert found["odd[0].fine"] == found["touchy.fine"] == found["names['a'].fine"] == "1"


def let_go() -> tuple[dict[str, str], object]:
    control = Control()
    gone = weakref.ref(control)
    found = taken(frame=sys._getframe())
    del control
    return found, gone()


def test_what_a_function_lets_go_of_is_gone() -> None:
    found, left = let_go()

    assert found["control.value"] == "0.25"
    assert left is None


def test_the_dictionary_that_a_function_has_of_its_variables_is_left_as_it_is() -> None:
    first = 1
    mine = locals()
    later = first + 1
    before = dict(mine)

    found = taken(frame=sys._getframe())

    assert later == 2
    assert mine == before
    assert "later" not in found


WAITING = ("futures[0]._result", "futures[1]._result", "queue.queue")


def read_digests(ahead: "Ahead") -> dict[str, str]:
    census = Census(SystemClock().now_ns)
    census.add_values([("ahead", ahead)])
    census.expand_all()
    return {entry.path: entry.digest for entry in census.entries}


class Ahead:
    def __init__(self) -> None:
        self.futures, self.queue = deque[Future[torch.Tensor]](), queue.Queue[torch.Tensor](3)
        for number in range(2):
            self.futures.append(Future())
            self.queue.put(torch.full((2,), number))
        self.futures[0].set_result(torch.zeros(2))


def test_batches_that_were_made_ahead_are_read_where_they_wait() -> None:
    ahead = Ahead()
    before = read_digests(ahead)
    ahead.futures[1].set_result(torch.ones(2))
    ahead.queue.get()
    after = read_digests(ahead)

    assert {*before} == {*after} == {f"ahead.{name}" for name in WAITING}
    changed = {path for path in before if before[path] != after[path]}
    assert changed == {"ahead.futures[1]._result", "ahead.queue.queue"}


def evaluated() -> dict[str, str]:
    model, control = nn.Linear(2, 1), Control()
    model.eval()
    found = taken(frame=sys._getframe())
    del control
    return found


def counted_by_text() -> dict[str, str]:
    control = Control()
    eval("control.value")
    found = taken(frame=sys._getframe())
    del control
    return found


def test_a_model_that_a_function_evaluates_hides_none_of_its_variables() -> None:
    assert evaluated()["control.value"] == "0.25"
    assert "control.value" not in counted_by_text()


def test_within_a_function_transform_a_tensor_has_no_content() -> None:
    seen: list[dict[str, str]] = []

    def loss(x: torch.Tensor) -> torch.Tensor:
        seen.append(taken(x=x, kept=[x], one=1))
        return (x * x).sum()

    torch.func.grad(loss)(torch.ones(2))

    assert seen == [{"one": "1"}]


def test_libraries_have_no_variables_of_the_job() -> None:
    assert not is_job_file(torch.__file__)
    assert not is_job_file(module.__file__)
    assert not is_job_file(random.__file__)
    assert is_job_file(__file__)


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


class Odd(nn.Module):  # type: ignore[misc]
    """A module whose own methods must not be called."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.BatchNorm1d(2)

    def modules(self) -> Any:
        raise AssertionError

    parameters = state_dict = named_modules = modules


def test_a_module_of_which_nothing_is_compared_is_one_value_whatever_it_contains() -> None:
    odd, trained = Odd(), nn.Linear(2, 2)
    both = nn.ModuleList([nn.Linear(1, 1), trained])
    census = Census(
        SystemClock().now_ns,
        compared_tensors=frozenset(map(id, trained.parameters())),
        keeps_all=True,
    )

    census.add_values([("odd", odd), ("again", odd.inner), ("trained", trained), ("both", both)])
    census.expand_all()

    saved = [held.path for held in census.entries if held.path.endswith("()")]
    assert saved == ["odd.state_dict()", "both.0.state_dict()"]


class Contrast(nn.Module):  # type: ignore[misc]
    """An encoder that is trained, and beside it a queue of the keys that it has made."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(2, 2)
        self.register_buffer("queue", torch.zeros(4))
        self.register_buffer("mask", torch.zeros(4), persistent=False)


def test_a_buffer_of_a_module_of_which_a_part_is_trained_is_a_value() -> None:
    model = Contrast()
    compared = frozenset(id(parameter) for parameter in model.encoder.parameters())
    census = Census(SystemClock().now_ns, compared_tensors=compared)
    census.add_values([("model", model)])
    census.expand_all()
    paths = [held.path for held in census.entries]

    assert [path for path in paths if path.endswith(("queue", "mask"))] == [
        "model.queue",
        "model.mask",
    ]
    assert not any("weight" in path for path in paths)


def test_a_module_is_given_back_as_it_was_kept() -> None:
    ahead, anew = nn.BatchNorm1d(2), nn.BatchNorm1d(2)
    ahead(torch.randn(8, 2))
    with torch.no_grad():
        ahead.weight.add_(1)
    kept = _extract_content(ahead)

    assert set_value(HeldValue(anew, None, None), kept)

    theirs, ours = ahead.state_dict(), anew.state_dict()
    assert all(torch.equal(theirs[name], ours[name]) for name in theirs)


def test_a_large_module_is_left_out_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MODULE_MAX", 2)
    census = Census(SystemClock().now_ns)

    census.add_values([("net", nn.Linear(2, 1)), ("small", nn.Linear(1, 1))])
    census.expand_all()

    assert census.omitted_paths == ["net.state_dict()"]
    assert any(held.path == "small.state_dict()" for held in census.entries)


def test_scalars_of_numpy_in_a_container_are_plain_values() -> None:
    census = Census(SystemClock().now_ns)

    census.add_values(
        [("drawn", [np.int64(1), 2]), ("plain", [1, 2]), ("others", [np.int64(3), 2])]
    )

    drawn, plain, others = (held.digest for held in census.entries)
    assert drawn == plain != others


def test_what_a_method_has_reached_is_reached_before_it_runs_as_well() -> None:
    class Agent:
        def __init__(self) -> None:
            self.level = 3

    def reached(wanted: str) -> object:
        agent = Agent()
        census = Census(SystemClock().now_ns, frozenset({wanted}))
        census.add_values([("Agent", Agent), ("agent", agent)])
        census.expand_all()
        return census.wanted_values[wanted].value

    assert reached("Agent.level") == reached("agent.level") == 3


def test_a_parameter_that_no_optimizer_has_is_a_value() -> None:
    own, compared = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(2))
    census = Census(SystemClock().now_ns, compared_tensors=frozenset({id(compared)}))

    census.add_values([("own", own), ("compared", compared)])

    assert [held.path for held in census.entries] == ["own"]


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


def test_the_loops_around_a_frame_are_found() -> None:
    found: list[tuple[int, ...]] = []
    first = sys._getframe().f_lineno

    def inner() -> None:
        while True:
            "no statement"
            found.append(tuple(loop.first - first for loop in find_outer_loops(sys._getframe())))
            break

    for _ in range(1):
        inner()
    inner()

    assert found[0][-2:] == (9, 5)
    assert found[1][-1] == 5


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
