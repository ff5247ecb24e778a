"""A corruption counts once the worker has reported it; the order says what to change."""

import pytest
from pydantic import ValidationError

from chaos.faults.corrupt_tensor import CorruptTensor
from chaos.faults.order import Corrupt
from tests.accepted import expect_text
from tests.faults.conftest import Release
from tests.world import RANK_1, FakeWorld


def test_a_corruption_counts_once_the_worker_has_reported_it(release: Release) -> None:
    fault = CorruptTensor(tensor="gradient", how="sign", lasting=True)

    outcome = fault.inject(FakeWorld(), RANK_1, release)

    (order,) = release.orders
    assert isinstance(order, Corrupt)
    assert (order.tensor, order.how, order.bit, order.is_lasting) == (
        "gradient",
        "sign",
        None,
        True,
    )
    assert outcome.status == "ok"


def test_a_tensor_that_was_never_there_was_not_corrupted(release: Release) -> None:
    outcome = CorruptTensor(tensor="optimizer").inject(FakeWorld(obeys=False), RANK_1, release)

    assert outcome.status == "fail"
    expect_text(outcome.detail)


def test_a_bit_goes_with_a_flipped_bit_alone() -> None:
    with pytest.raises(ValidationError, match="bit goes with"):
        CorruptTensor(how="nan", bit=3)


def test_its_words_name_what_was_changed_and_where() -> None:
    every = CorruptTensor(tensor="optimizer", ranks="all")

    expect_text(every.describe_injection(0, "at epoch 1, step 2"))
    assert str(CorruptTensor(bit=30)).endswith("(weight, bit 30)")
