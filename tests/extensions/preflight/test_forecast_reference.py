"""The model agrees with a simulator that shares no formula with it."""

import numpy as np
import pytest

from chaos.extensions.preflight.question import Question
from tests.extensions.preflight.reference import foretold, questions, referred

# CI asks every fourth; all of them take half a minute.
CASES = [
    pytest.param(*case, marks=[pytest.mark.nightly] if number % 4 else [])
    for number, case in enumerate(questions())
]


@pytest.mark.parametrize(("name", "asked"), CASES, ids=lambda one: str(one)[:40])
def test_model_and_reference_come_to_the_same(name: str, asked: Question) -> None:
    ours, theirs = foretold(asked, 1000), referred(asked, 24, seed=11)

    error = np.sqrt(ours.var(axis=0) / len(ours) + theirs.var(axis=0) / len(theirs))
    apart = np.abs(ours.mean(axis=0) - theirs.mean(axis=0))
    # Of 55 figures none is five standard errors off by luck; 3 % is what a step is worth.
    assert (apart <= 5 * error + 0.03 * theirs.mean(axis=0)).all(), name
