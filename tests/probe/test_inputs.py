"""What a model is given in training, sample by sample, and by whom it is called."""

import copy
import io
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from chaos.model.event import Inputs
from chaos.probe.state.inputs import SAMPLES_MAX, InputWindow
from chaos.probe.state.roots import SEARCH_STEPS_MAX, NoHook, Owner, Roots

ROWS = torch.arange(12.0).reshape(4, 3)
OWNER = Owner(torch.nn.Linear(3, 1))


def given(*calls: tuple[tuple[Any, ...], dict[str, Any]]) -> Inputs | None:
    window = InputWindow()
    for args, kwargs in calls:
        window.called(args, kwargs, OWNER)
    return window.close().read()


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
    window.called((batch,), {}, OWNER)
    batch.zero_()

    read = window.close().read()
    assert read == given(((ROWS,), {}))
    assert window.close().read() is None


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
        self.roots = Roots(self._called, self._found, self._failed)
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

    assert seen.roots.all() == [net]
    assert seen.first == 1
    assert [set(kwargs) for _, kwargs in seen.calls] == [{"scale"}]


def test_a_part_that_was_called_first_is_no_root_once_the_whole_is_called(seen: Seen) -> None:
    net = Net()
    net.inner(ROWS)
    net(ROWS)
    seen.roots.end_search()
    net(ROWS)

    assert seen.roots.all() == [net]
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

    assert seen.roots.all() == []


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
    assert [type(hook) for hook in copied._forward_pre_hooks.values()] == [NoHook]

    file = io.BytesIO()
    seen.roots.without_hooks(lambda: torch.save(net, file))
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

    assert len(seen.roots.all()) == 1
    assert len(seen.calls) == 3


def test_a_model_that_is_wrapped_anew_is_one_root(seen: Seen) -> None:
    net = Net()
    first = torch.nn.Sequential(net)
    first(ROWS)
    seen.roots.searched_a_step([torch.optim.SGD(first.parameters(), lr=0.1)])
    second = torch.nn.Sequential(net)
    second(ROWS)
    assert seen.roots.all() == [first]

    seen.roots.begin_search()
    second(ROWS)

    assert seen.roots.all() == [second]


def test_roots_are_looked_for_until_all_that_is_trained_belongs_to_one(seen: Seen) -> None:
    critic, generator = Net(), Net()
    trained = [torch.optim.SGD(net.parameters(), lr=0.1) for net in (critic, generator)]

    critic(ROWS)
    seen.roots.searched_a_step(trained)
    generator(ROWS)
    seen.roots.searched_a_step(trained)

    assert seen.roots.all() == [critic, generator]
    assert not seen.roots.is_searching


def test_a_parameter_of_no_module_is_not_looked_for_for_ever(seen: Seen) -> None:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)

    for _ in range(SEARCH_STEPS_MAX):
        assert seen.roots.is_searching
        seen.roots.searched_a_step([optimizer])

    assert not seen.roots.is_searching


def test_inputs_within_transforms_of_torch_func_are_read(seen: Seen) -> None:
    net, window = Net(), InputWindow()
    weights = {name: own.detach() for name, own in net.named_parameters()}

    def loss(weights: Any, rows: Any) -> Any:
        window.called((rows,), {}, OWNER)
        return torch.func.functional_call(net, weights, (rows,)).sum()

    found = torch.func.grad(loss)(weights, ROWS)
    torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, ROWS)

    inputs = window.close().read()
    assert inputs is not None
    assert inputs == given(((ROWS,), {}), ((ROWS,), {}))
    plain = net(ROWS).sum()
    assert torch.equal(found["inner.weight"], torch.autograd.grad(plain, net.inner.weight)[0])


def test_calls_of_modules_that_no_optimizer_trains_are_none_of_training(seen: Seen) -> None:
    net, window = Net(), InputWindow()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    seen.roots.end_search()
    roots = Roots(window.called, lambda: None, seen._failed)
    roots.watch(list)
    try:
        for _ in range(40):  # as a range test does: a copy may lie where the one before it lay
            copy.deepcopy(net)(ROWS)
        net(ROWS)
        tried = window.close(lambda: [optimizer]).read()
        net(ROWS)
        plain = window.close(lambda: [optimizer]).read()
        copy.deepcopy(net)(ROWS)
        alone = window.close(lambda: [optimizer]).read()
    finally:
        roots.end_search()

    assert tried == plain == alone
    assert plain is not None
    assert plain.count == len(ROWS)


def test_validation_is_a_call_in_evaluation_mode_without_gradients(seen: Seen) -> None:
    validations: list[int] = []
    seen.roots.end_search()
    roots = Roots(
        lambda *_: None, lambda: None, seen._failed, validates=lambda: validations.append(1)
    )
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
    finally:
        roots.end_search()

    assert validations == [1]


def test_a_module_is_seen_although_it_lies_where_one_lay_that_is_gone(seen: Seen) -> None:
    for _ in range(40):
        Net()(ROWS)

    assert len(seen.calls) == 40
