"""The census of plain values: what it reaches, and what it leaves alone."""

import queue
import random
import sys
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import singledispatch
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
from torch import nn

from chaos.probe.job_code import find_outer_loops, is_job_file
from chaos.probe.state import census as module
from chaos.probe.state.census import Census
from chaos.run.clock import SystemClock
from tests.probe.counting import Control, taken

COUNTED = 7  # a global of this file, which is a job's as far as a census knows


class Deep:
    def __init__(self, depth: int) -> None:
        self.value, self.within = depth, Deep(depth - 1) if depth else None


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


def test_objects_of_the_jobs_own_classes_are_reached_further_than_those_of_libraries() -> None:
    found = taken(deep=Deep(8))

    assert f"deep{'.within' * 5}.value" in found
    assert f"deep{'.within' * 6}.value" not in found


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


@pytest.mark.parametrize(("has_loop", "count"), [(False, 1), (True, 0)])
def test_a_function_that_a_library_calls_for_each_step_is_a_loop_body(
    *, has_loop: bool, count: int
) -> None:
    """Lightning's `training_step` masks what the model is then given, in no loop of the job."""
    found: list[tuple[int, ...]] = []
    first = sys._getframe().f_lineno

    class Model(nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            bodies = find_outer_loops(sys._getframe(1))
            found.append(tuple(loop.first - first for loop in bodies if loop.first > first))
            return x

    model = Model()

    def training_step(x: torch.Tensor) -> torch.Tensor:
        """Say what it does."""
        masked = x * 2
        return model(masked)

    def training_loop(x: torch.Tensor) -> torch.Tensor:
        for _ in range(0):
            pass
        return model(x)

    step = training_loop if has_loop else training_step
    singledispatch(step)(torch.ones(1))  # a library that calls it
    torch.no_grad()(step)(torch.ones(1))  # torch: the loop is the job's

    assert [len(bodies) for bodies in found] == [count, 0]
