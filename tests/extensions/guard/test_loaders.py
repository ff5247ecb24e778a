"""Steps that begin a pass over the data, by the loader that their batch came from."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler
from torch.utils.data.dataloader import _BaseDataLoaderIter

from chaos.extensions.guard.loaders import LoaderPasses


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> LoaderPasses:
    """Return passes of torch's loaders, which are as before when the test is over."""
    monkeypatch.setattr(DataLoader, "__iter__", DataLoader.__iter__)
    monkeypatch.setattr(_BaseDataLoaderIter, "__next__", _BaseDataLoaderIter.__next__)
    made = LoaderPasses()
    made._watch(sys.modules[DataLoader.__module__])
    return made


def steps_of(passes: LoaderPasses, batches: Iterator[object]) -> list[bool]:
    return [passes.has_new_pass() for _ in batches]


@pytest.mark.parametrize("workers", [0, 1])
def test_the_first_step_of_each_pass_begins_it(passes: LoaderPasses, workers: int) -> None:
    lasting = bool(workers)  # the same iterator for each pass
    loader = DataLoader(range(3), num_workers=workers, persistent_workers=lasting)
    assert [steps_of(passes, iter(loader)) for _ in range(2)] == [[True, False, False]] * 2


def test_an_evaluation_within_a_pass_begins_none(passes: LoaderPasses) -> None:
    trained = iter(DataLoader(range(4)))
    seen = []
    for _ in trained:
        seen.append(passes.has_new_pass())
        list(DataLoader(range(2)))
    assert seen == [True, False, False, False]


def test_loaders_that_take_turns_begin_once_each(passes: LoaderPasses) -> None:
    one, other = (iter(DataLoader(range(3))) for _ in range(2))
    found = []
    for _ in range(3):
        for batches in (one, other):
            next(batches)
            found.append(passes.has_new_pass())
    assert found == [True, True, False, False, False, False]


def test_data_that_no_loader_gives_begin_no_pass(passes: LoaderPasses) -> None:
    assert not passes.has_new_pass()
    with torch.no_grad():
        list(DataLoader(range(2)))  # an evaluation
    assert not passes.has_new_pass()


def test_an_order_of_a_generator_of_the_loaders_own_is_known(passes: LoaderPasses) -> None:
    iter(DataLoader(range(3), shuffle=True))
    assert not passes.has_private_generators
    own = torch.Generator()
    iter(DataLoader(range(3), sampler=RandomSampler(range(3), generator=own)))
    assert passes.has_private_generators


def test_workers_that_stay_draw_for_themselves(passes: LoaderPasses) -> None:
    for lasting in (False, True):
        iter(DataLoader(range(3), num_workers=1, persistent_workers=lasting))
        assert passes.has_private_generators is lasting


def test_an_iterator_of_the_jobs_own_is_left_as_it_is(passes: LoaderPasses) -> None:
    del passes

    class Own(DataLoader[int]):  # type: ignore[misc]
        def _get_iterator(self) -> Any:
            return Refusing()

    assert list(Own(range(3))) == []


class Refusing:
    def __setattr__(self, name: str, value: object) -> None:
        raise TypeError(name)

    def __iter__(self) -> "Refusing":
        return self

    def __next__(self) -> int:
        raise StopIteration
