"""What a profile adds to a band, and what a band says of the state."""

from dataclasses import replace

import pytest

from chaos.check.judge import judge
from chaos.check.prediction_band import Interval, Key
from chaos.check.tolerance import Allowance, PredictionBands
from chaos.check.values import NumberPair
from chaos.model.bounds import Tolerance
from chaos.model.expect import Profile
from chaos.model.history import Baseline
from chaos.model.places import StatePlace
from tests.check.parts import KILLED, fresh, lost, part

FIRST, LATER = 7, 8  # the numbers of two steps: the first after a resume, and another


def allowance(profile: Profile) -> Allowance:
    """Learn from runs that all had 2.0 here: what is left is the profile's own."""
    number = Interval(2.0, 0.0)
    losses: dict[Key, Interval] = {(0, 1, step, 0): number for step in (FIRST, LATER)}
    metrics: dict[Key, Interval] = {(1, "accuracy", 0): number}
    sizes: dict[Key, Interval] = {(0, 1, FIRST, "entered", "model"): number}
    return Allowance(
        bands=PredictionBands(profile, 5, losses=losses, metrics=metrics, sizes=sizes),
        first_step_numbers=frozenset({FIRST}),
    )


@pytest.mark.parametrize(
    ("profile", "step", "slack"),
    [
        ("strict", FIRST, 1e-6),
        ("strict", LATER, 1e-6),
        ("standard", FIRST, 1e-5 + 2 * 2e-3),
        ("standard", LATER, 5e-3 + 2 * 2e-3),
        ("relaxed", FIRST, 1e-4 + 2 * 7.5e-3),
        ("relaxed", LATER, 1e-2 + 2 * 7.5e-3),
    ],
)
def test_a_profile_allows_less_at_the_first_step_after_a_resume(
    profile: Profile, step: int, slack: float
) -> None:
    def allows(off: float) -> bool:
        pair = NumberPair(1, step, 0, "loss", 2.0 + off, 2.0, step, 1)
        return allowance(profile).allows(pair)

    for side in (1, -1):
        assert allows(side * slack * 0.99)
        assert not allows(side * slack * 1.01)


@pytest.mark.parametrize(
    ("profile", "part"), [("strict", 1e-6), ("standard", 2e-3), ("relaxed", 7.5e-3)]
)
def test_metrics_and_sizes_have_no_scale_and_get_a_part_of_themselves(
    profile: Profile, part: float
) -> None:
    def allows(off: float) -> tuple[bool, bool, bool]:
        pair = NumberPair(1, None, 0, "accuracy", 2.0 + off, 2.0, LATER, 1)
        place = StatePlace(0, 1, FIRST, "entered")
        return (
            allowance(profile).allows(pair),
            allowance(profile).allows_size("model", place, 2.0 + off, 2.0),
            allowance(profile).allows_size("model", None, 2.0 + off, 2.0),
        )

    assert allows(2 * part * 0.99) == (True, True, True)
    assert allows(2 * part * 1.01) == (False, False, False)


def test_a_number_that_no_clean_run_had_lies_in_no_band() -> None:
    pair = NumberPair(9, FIRST, 0, "loss", 2.0, 2.1, FIRST, 1)

    assert not allowance("relaxed").allows(pair)
    assert allowance("relaxed").allows(replace(pair, run_value=2.1))
    assert not allowance("relaxed").allows_size("model", StatePlace(0, 9, 0, "entered"), 2.0, 2.1)


def test_within_a_band_a_part_that_is_as_at_the_beginning_is_reset() -> None:
    baseline = Baseline([KILLED.baseline() for _ in range(5)])

    verdict = judge(KILLED.plan(band="strict"), lost("model", fresh("model")), baseline)

    assert verdict.broken[0].check == "state"
    assert part(verdict, "model").standing == "reset"


def test_only_without_any_leeway_must_all_be_equal_to_the_last_bit() -> None:
    assert Allowance().is_exact
    assert not allowance("strict").is_exact
    assert not Allowance(Tolerance()).is_exact
