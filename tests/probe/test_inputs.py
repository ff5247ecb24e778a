"""What a model is given in training, sample by sample, and by whom it is called."""

import copy
import gc
import io
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from chaos.model.event import Inputs
from chaos.probe.state.inputs import SAMPLES_MAX, InputWindow, Owner
from chaos.probe.state.roots import SEARCH_STEPS_MAX, CopiedRootHook, RootModules
from tests.probe.scripted import Scripted

ROWS = torch.arange(12.0).reshape(4, 3)
OWNER = Owner(torch.nn.Linear(3, 1))


def given(*calls: tuple[tuple[Any, ...], dict[str, Any]]) -> Inputs | None:
    window = InputWindow()
    for args, kwargs in calls:
        window.add_call(args, kwargs, OWNER)
    return window.close_window().load_inputs()


def samples(*args: Any, **kwargs: Any) -> list[str]:
    inputs = given((args, kwargs))
    assert inputs is not None
    assert inputs.samples is not None
    return [inputs.samples[at : at + 8] for at in range(0, len(inputs.samples), 8)]


def test_a_sample_is_the_same_whatever_the_batch_it_came_in() -> None:
    four, two = samples(ROWS), samples(ROWS[[3, 0]])

    assert len(set(four)) == 4
    assert two == [four[3], four[0]]


def test_micro_batches_are_one_step_in_their_order() -> None:
    together = given(((ROWS[:2],), {}), ((ROWS[2:],), {}))
    other = given(((ROWS[2:],), {}), ((ROWS[:2],), {}))

    assert together is not None
    assert other is not None
    assert together.count == 4
    assert together.samples == "".join(samples(ROWS))
    assert together.digest != other.digest


def test_a_sample_is_made_of_all_that_belongs_to_it() -> None:
    labels = torch.tensor([0, 1, 2, 3])

    assert samples(x=ROWS, y=labels) != samples(x=ROWS, y=labels.flip(0))
    assert samples({"x": ROWS, "y": [labels]}) != samples({"x": ROWS, "y": [labels + 1]})
    assert samples(x=ROWS, y=labels) == samples(y=labels, x=ROWS)


def test_samples_that_cannot_be_told_apart_are_not_counted() -> None:
    inputs = given(((ROWS, torch.ones(3)), {}))

    assert inputs is not None
    assert (inputs.count, inputs.samples) == (0, None)
    other = given(((ROWS, torch.zeros(3)), {}))
    assert other is not None
    assert inputs.digest != other.digest


def test_a_large_step_has_a_digest_and_no_samples() -> None:
    inputs = given(((torch.zeros(SAMPLES_MAX + 1, 1),), {}))

    assert inputs is not None
    assert (inputs.count, inputs.samples) == (SAMPLES_MAX + 1, None)


def test_what_another_model_computed_is_no_input() -> None:
    assert given(((ROWS * torch.ones(3, requires_grad=True),), {}), (("text",), {"n": 3})) is None


def test_a_batch_that_is_overwritten_later_was_seen_before() -> None:
    window, batch = InputWindow(), ROWS.clone()
    window.add_call((batch,), {}, OWNER)
    batch.zero_()

    read = window.close_window().load_inputs()
    assert read == given(((ROWS,), {}))
    assert window.close_window().load_inputs() is None


# -- who is called ------------------------------------------------------------------------------


class Net(torch.nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(3, 1)

    def forward(self, x: Any, scale: Any = None) -> Any:
        found = self.inner(x)
        return found if scale is None else found * scale


class Seen:
    """Roots, and every call of theirs."""

    def __init__(self) -> None:
        self.calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
        self.first = 0
        self.roots = RootModules(
            Scripted(model_called=self._called, root_found=self._found), self._failed
        )
        self.roots.watch(list)

    def _called(self, args: tuple[Any, ...], kwargs: dict[str, Any], owner: Owner) -> None:
        del owner
        self.calls.append((args, kwargs))

    def _found(self) -> None:
        self.first += 1

    def _failed(self, where: str, error: Exception) -> None:
        raise AssertionError(where) from error


@pytest.fixture
def seen() -> Iterator[Seen]:
    seen = Seen()
    yield seen
    seen.roots.end_search()


def test_the_outermost_module_is_the_root_and_its_keywords_are_seen_at_once(seen: Seen) -> None:
    net, loss = Net(), torch.nn.MSELoss()

    loss(net(ROWS, scale=ROWS[:, :1]), torch.zeros(4, 1))

    assert seen.roots.list_roots() == [net]
    assert seen.first == 1
    assert [set(kwargs) for _, kwargs in seen.calls] == [{"scale"}]


def test_a_part_that_was_called_first_is_no_root_once_the_whole_is_called(seen: Seen) -> None:
    net = Net()
    net.inner(ROWS)
    net(ROWS)
    seen.roots.end_search()
    net(ROWS)

    assert seen.roots.list_roots() == [net]
    assert len(seen.calls) == 3


def test_validation_is_not_training(seen: Seen) -> None:
    net = Net()
    net(ROWS)
    net.eval()
    net(ROWS)
    net.train()
    with torch.no_grad():
        net(ROWS)

    assert len(seen.calls) == 1


def test_what_cannot_be_trained_is_no_root(seen: Seen) -> None:
    teacher = Net().requires_grad_(False)

    teacher(ROWS)

    assert seen.roots.list_roots() == []


def test_the_search_leaves_no_hook_on_modules_in_general(seen: Seen) -> None:
    Net()(ROWS)
    seen.roots.end_search()

    assert not torch.nn.modules.module._global_forward_pre_hooks
    Net()(ROWS)
    assert len(seen.calls) == 1


def test_a_copy_is_not_watched_and_a_saved_module_carries_nothing_of_ours(seen: Seen) -> None:
    net = Net()
    net(ROWS)
    seen.roots.end_search()
    copied = copy.deepcopy(net)
    copied(ROWS)
    assert len(seen.calls) == 1
    assert [type(hook) for hook in copied._forward_pre_hooks.values()] == [CopiedRootHook]

    file = io.BytesIO()
    seen.roots.call_unhooked(lambda: torch.save(net, file))
    net(ROWS)

    assert b"chaos" not in file.getvalue()
    assert len(seen.calls) == 2


def test_a_compiled_model_is_one_root(seen: Seen) -> None:
    net = Net()
    compiled = torch.compile(net, backend="eager")

    for _ in range(2):
        compiled(ROWS)
    seen.roots.end_search()
    compiled(ROWS)

    assert len(seen.roots.list_roots()) == 1
    assert len(seen.calls) == 3


def test_a_model_that_is_wrapped_anew_is_one_root(seen: Seen) -> None:
    net = Net()
    first = torch.nn.Sequential(net)
    first(ROWS)
    seen.roots.count_searched_step([torch.optim.SGD(first.parameters(), lr=0.1)])
    second = torch.nn.Sequential(net)
    second(ROWS)
    assert seen.roots.list_roots() == [first]

    seen.roots.begin_search()
    second(ROWS)

    assert seen.roots.list_roots() == [second]


def test_roots_are_looked_for_until_all_that_is_trained_belongs_to_one(seen: Seen) -> None:
    critic, generator = Net(), Net()
    trained = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (critic, generator)]

    critic(ROWS)
    seen.roots.count_searched_step(trained)
    generator(ROWS)
    seen.roots.count_searched_step(trained)

    assert seen.roots.list_roots() == [critic, generator]
    assert not seen.roots.is_searching


def test_a_parameter_of_no_module_is_not_looked_for_for_ever(seen: Seen) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)

    for _ in range(SEARCH_STEPS_MAX):
        assert seen.roots.is_searching
        seen.roots.count_searched_step([optimizer])

    assert not seen.roots.is_searching


def test_inputs_within_transforms_of_torch_func_are_read(seen: Seen) -> None:
    net, window = Net(), InputWindow()
    weights = {name: own.detach() for name, own in net.named_parameters()}

    def loss(weights: Any, rows: Any) -> Any:
        window.add_call((rows,), {}, OWNER)
        return torch.func.functional_call(net, weights, (rows,)).sum()

    found = torch.func.grad(loss)(weights, ROWS)
    torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, ROWS)

    inputs = window.close_window().load_inputs()
    assert inputs is not None
    assert inputs == given(((ROWS,), {}), ((ROWS,), {}))
    plain = net(ROWS).sum()
    assert torch.equal(found["inner.weight"], torch.autograd.grad(plain, net.inner.weight)[0])


def test_calls_of_modules_that_no_optimizer_trains_are_none_of_training(seen: Seen) -> None:
    net, window = Net(), InputWindow()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    seen.roots.end_search()
    roots = RootModules(Scripted(model_called=window.add_call), seen._failed)
    roots.watch(list)
    try:
        for _ in range(40):  # as a range test does: a copy may lie where the one before it lay
            copy.deepcopy(net)(ROWS)
        net(ROWS)
        tried = window.close_window(lambda: [optimizer]).load_inputs()
        net(ROWS)
        plain = window.close_window(lambda: [optimizer]).load_inputs()
        copy.deepcopy(net)(ROWS)
        alone = window.close_window(lambda: [optimizer]).load_inputs()
    finally:
        roots.end_search()

    assert tried == plain == alone
    assert plain is not None
    assert plain.count == len(ROWS)


def test_validation_is_a_call_in_evaluation_mode_without_gradients(seen: Seen) -> None:
    validations: list[int] = []
    seen.roots.end_search()
    roots = RootModules(Scripted(validation_begins=lambda: validations.append(1)), seen._failed)
    roots.watch(list)
    net = Net()
    try:
        net(ROWS)
        with torch.no_grad():
            net(ROWS)  # a teacher, or a second call of a step
        net.eval()
        net(ROWS)  # a part that is frozen, and trained through
        assert not validations
        with torch.inference_mode():
            net(ROWS)
            net.requires_grad_(False)
            net(ROWS)  # the teacher of a later phase
    finally:
        roots.end_search()

    assert validations == [1]


def test_a_module_is_seen_although_it_lies_where_one_lay_that_is_gone(seen: Seen) -> None:
    for _ in range(40):
        Net()(ROWS)

    assert len(seen.calls) == 40


# -- which calls are of a step --------------------------------------------------------------------


@dataclass
class Scores:
    """A batch of outputs, as libraries return them."""

    found: Any
    step: int = 0


class Training:
    """A net whose calls fill a window, and the rows of each step's inputs."""

    def __init__(self, net: torch.nn.Module | None = None) -> None:
        self.net = Net() if net is None else net
        self.window = InputWindow()
        self.failures: list[str] = []
        self.roots = RootModules(Scripted(model_called=self.window.add_call), self._failed)
        self.roots.watch(list)

    def step(self) -> list[str]:
        """Close the window; the rows by their first letters."""
        inputs = self.window.close_window().load_inputs()
        if inputs is None:
            return []
        assert inputs.samples is not None
        known = {samples(batch(name))[0]: name for name in "abcd"}
        return [known[inputs.samples[at : at + 8]] for at in range(0, len(inputs.samples), 8)]

    def _failed(self, where: str, error: Exception) -> None:
        self.failures.append(f"{where}: {error}")


def batch(name: str) -> torch.Tensor:
    return torch.full((1, 3), float(ord(name)))


@pytest.fixture
def training() -> Iterator[Callable[..., Training]]:
    made: list[Training] = []

    def make(net: torch.nn.Module | None = None) -> Training:
        made.append(Training(net))
        return made[-1]

    yield make
    for one in made:
        one.roots.end_search()
        assert not one.failures


def test_a_batch_that_is_left_out_after_its_call_is_none_of_a_step(training: Any) -> None:
    job = training()

    kept = job.net(batch("a"))  # its graph lives on
    job.net(batch("b")).sum().backward()
    assert job.step() == ["b"]
    job.net(batch("c"))
    job.net(batch("d")).sum().backward()

    assert job.step() == ["d"]
    del kept


def test_a_call_is_of_the_step_before_which_it_is_backpropagated(training: Any) -> None:
    job = training()
    first = job.net(batch("a"))
    second = job.net(batch("b"))
    first.sum().backward()
    assert job.step() == ["a"]

    third = job.net(batch("c"))
    second.sum().backward(retain_graph=True)
    assert job.step() == ["b"]
    third.sum().backward()
    second.sum().backward()

    assert job.step() == ["c"]


def test_micro_batches_are_counted_in_the_order_of_their_calls(training: Any) -> None:
    job = training()
    outputs = [job.net(batch(name)) for name in "abc"]

    for output in reversed(outputs):
        output.sum().backward()

    assert job.step() == ["a", "b", "c"]


def test_where_no_call_is_backpropagated_all_are_of_the_step(training: Any) -> None:
    job = training()

    for name in "ab":
        job.net(batch(name))

    assert job.step() == ["a", "b"]
    assert job.step() == []


def test_a_call_whose_outputs_have_no_graph_is_of_the_step(training: Any) -> None:
    job = training()

    class Counting(Net):
        def forward(self, x: Any, scale: Any = None) -> Any:
            return super().forward(x, scale).sum().item()

    Counting()(batch("a"))
    job.net(batch("b"))

    job.net(batch("c")).sum().backward()

    assert job.step() == ["a", "c"]


@pytest.mark.parametrize(
    "wrap",
    [
        lambda found: {"found": found, "no": None},
        lambda found: (1, [found.detach(), (found,)]),
        Scores,
        lambda found: found.expand(2, 1)[0],
        lambda found: {"found": found.unbind()},
    ],
)
def test_outputs_may_lie_within_containers(training: Any, wrap: Callable[..., Any]) -> None:
    class Wrapped(Net):
        def forward(self, x: Any, scale: Any = None) -> Any:
            return wrap(super().forward(x, scale))

    def leaf(value: Any) -> Any:
        """Return the first tensor that has a graph."""
        if isinstance(value, torch.Tensor):
            return value if value.requires_grad else None
        if isinstance(value, Scores):
            return value.found
        inner = list(value.values()) if isinstance(value, dict) else value
        found = map(leaf, inner if isinstance(inner, tuple | list) else ())
        return next((x for x in found if x is not None), None)

    job = training(Wrapped())
    job.net(batch("a"))
    leaf(job.net(batch("b"))).sum().backward()

    assert job.step() == ["b"]


def test_outputs_may_be_changed_in_place(training: Any) -> None:
    class Views(Net):
        def forward(self, x: Any, scale: Any = None) -> Any:
            return super().forward(x, scale).squeeze()

    job = training(Views())
    job.net(batch("a"))
    output = job.net(batch("b"))
    output.mul_(2.0)
    output.sum().backward()

    assert job.step() == ["b"]


def test_gradients_may_be_asked_for_without_backward(training: Any) -> None:
    job = training()
    job.net(batch("a"))

    torch.autograd.grad(job.net(batch("b")).sum(), list(job.net.parameters()))

    assert job.step() == ["b"]


def test_a_step_within_a_call_counts_the_call_once(training: Any) -> None:
    steps: list[list[str]] = []

    class Manual(Net):  # as a wrapper of a training step with its own optimizer steps
        def forward(self, x: Any, scale: Any = None) -> Any:
            super().forward(x, scale).sum().backward()
            steps.append(job.step())
            return super().forward(x, scale)

    job = training(Manual())
    job.net(batch("a"))
    job.net(batch("b")).sum().backward()

    assert steps == [["a"], ["b"]]
    assert job.step() == []


def test_a_call_that_raises_is_none_of_a_step(training: Any) -> None:
    class Small(Net):
        def forward(self, x: Any, scale: Any = None) -> Any:
            if x[0, 0] == ord("a"):
                raise MemoryError
            return super().forward(x, scale)

    job = training(Small())
    job.net(batch("c")).sum().backward()
    assert job.step() == ["c"]

    with pytest.raises(MemoryError):
        job.net(batch("a"))
    job.net(batch("b")).sum().backward()

    assert job.step() == ["b"]


def test_a_call_that_returns_nothing_while_an_error_is_handled_did_not_raise(training: Any) -> None:
    class Keeping(Net):  # it keeps its loss itself
        def forward(self, x: Any, scale: Any = None) -> None:
            self.loss = super().forward(x, scale).sum()

    job = training(Keeping())
    job.net(batch("c"))
    job.net.loss.backward()
    assert job.step() == ["c"]

    try:
        raise MemoryError  # noqa: TRY301 - it is being handled as the net is called
    except MemoryError:
        job.net(batch("a"))  # once more, after the memory was freed
    job.net.loss.backward()

    assert job.step() == ["a"]


def test_a_root_that_calls_itself_is_followed_call_by_call(training: Any) -> None:
    class Twice(Net):
        def forward(self, x: Any, scale: Any = None) -> Any:
            inner = self(torch.full((1, 3), float(ord("b")))) if x[0, 0] == ord("a") else 0.0
            return super().forward(x, scale) + inner

    job = training(Twice())
    job.net(batch("c")).sum().backward()
    assert job.step() == ["c"]

    job.net(batch("a"))  # left out, with the call in it
    job.net(batch("d")).sum().backward()

    assert job.step() == ["d"]


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_call_that_is_recomputed_is_of_the_step(training: Any, use_reentrant: bool) -> None:
    job = training()
    job.net(batch("c")).sum().backward()
    job.step()

    job.net(batch("a"))
    rows = batch("b").requires_grad_(use_reentrant)
    found = torch.utils.checkpoint.checkpoint(
        lambda x: job.net(x.detach()), rows, use_reentrant=use_reentrant
    )
    found.sum().backward()

    assert job.step() == ["b"]


def test_calls_within_transforms_of_torch_func_are_kept(training: Any) -> None:
    job = training()
    weights = {name: own.detach() for name, own in job.net.named_parameters()}
    job.net(batch("c")).sum().backward()

    def loss(weights: Any, rows: Any) -> Any:
        return torch.func.functional_call(job.net, weights, (rows,)).sum()

    torch.func.grad(loss)(weights, batch("a"))
    torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, batch("b"))

    assert job.step() == ["c", "a", "b"]


def test_dropped_calls_are_those_that_were_backpropagated(training: Any) -> None:
    job = training()
    job.net(batch("a")).sum().backward()
    job.net(batch("b"))
    waiting = job.net(batch("c"))

    job.window.drop_calls()
    waiting.sum().backward()

    assert job.step() == ["c"]


def test_no_graph_is_kept_alive(training: Any) -> None:
    job = training()
    job.net(batch("a")).sum().backward()
    call = weakref.ref(job.window._calls[0])
    job.step()
    left_out = job.net(batch("b"))
    waits = weakref.ref(job.window._calls[0])
    job.net(batch("c")).sum().backward()
    job.step()
    gc.disable()
    try:
        assert call() is None
        assert waits() is not None
        del left_out
        assert waits() is None
    finally:
        gc.enable()


def test_a_compiled_step_contains_nothing_of_ours(training: Any) -> None:
    job = training()
    job.net(batch("a")).sum().backward()
    job.step()

    loss = torch.compile(lambda rows: job.net(rows).sum(), backend="eager", fullgraph=True)
    loss(batch("b")).backward()
    job.net(batch("c")).sum().backward()

    assert job.step() == ["c"]


def test_the_outputs_of_a_compiled_model_are_followed(training: Any) -> None:
    job = training()
    compiled = torch.compile(job.net, backend="eager")
    compiled(batch("a"))

    compiled(batch("b")).sum().backward()

    assert job.step() == ["b"]


def test_an_error_in_a_hook_is_recorded_and_does_not_fail_the_step() -> None:
    class Broken:
        def record_return(self, outputs: Any) -> None:
            raise ValueError(outputs.shape)

    failures: list[str] = []
    roots = RootModules(
        Scripted(model_called=lambda *_: Broken()), lambda where, _: failures.append(where)
    )
    roots.watch(list)
    try:
        Net()(ROWS).sum().backward()
    finally:
        roots.end_search()

    assert failures == ["outputs"]
