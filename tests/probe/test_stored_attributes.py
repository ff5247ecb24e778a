"""The attributes of an object, read without a call of its code."""

import random
from typing import Any

import numpy as np
import torch

from tests.probe.counting import Control, Slotted, taken


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
