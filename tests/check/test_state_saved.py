"""What a run loads beside what it saved: to the last bit, however far its numbers may lie."""

from typing import Any

import msgspec
import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.bounds import Tolerance
from chaos.model.history import Baseline, History
from chaos.model.verdict import CheckResult, Verdict
from tests.accepted import expect_text
from tests.check.parts import KILLED
from tests.check.tamper import changed, restored_wrong
from tests.findings import expect_finding

MOMENTUM = "optimizer.momentum_buffer"
SIZE = 12 / 7  # of the momentum after two epochs of six steps
WIDE = Tolerance(absolute=0.2, relative=0.2)


def drawn_anew(history: History, seed: int) -> History:
    """Return the history of a job whose tensors are others in every run, and much the same."""

    def other(part: ev.Component) -> ev.Component:
        if not part.name.startswith(("model", "optimizer.m", "ema")) or part.size is None:
            return part
        assert isinstance(part.size, float)
        size = part.size * (1 + seed / 1e4)
        return msgspec.structs.replace(part, digest=f"{part.digest}{seed}", size=size)

    def parts(seen: ev.StateSeen) -> tuple[ev.Component, ...]:
        return tuple(other(part) for part in seen.components)

    history = changed(history, ev.StateSeen, components=parts)
    return changed(history, ev.StepDone, losses=lambda e: (e.losses[0] * (1 + seed / 1e4),))


RUN = drawn_anew(KILLED.history(), 4)
ALLOWANCES: list[dict[str, Any]] = [{"band": "standard"}, {"loss_tolerance": WIDE}]


def judged(history: History, **expect: Any) -> Verdict:
    clean = [drawn_anew(KILLED.baseline(), seed) for seed in range(1, 8)]
    return judge(KILLED.plan(**expect), history, Baseline(clean))


def state(history: History, **expect: Any) -> CheckResult:
    found = judged(history, **expect).results
    return next(result for result in found if result.check == "state")


def loaded(digest: str, size: float) -> History:
    momentum = ev.Component(name=MOMENTUM, digest=digest, size=size, count=2)
    return restored_wrong(RUN, MOMENTUM, momentum, moment="entered")


def at(epoch: int) -> ev.Component:
    """Return the run's own momentum as it left an epoch."""
    left = [e for _, e in RUN.select_events(ev.StateSeen) if (e.moment, e.epoch) == ("left", epoch)]
    return next(part for part in left[0].components if part.name == MOMENTUM)


OWN = SIZE * (1 + 4 / 1e4)


@pytest.mark.parametrize("allowance", ALLOWANCES)
def test_what_was_saved_is_right_whatever_the_baseline_has(allowance: dict[str, Any]) -> None:
    assert judged(RUN, **allowance).status == "pass"
    assert state(RUN, **allowance).measures["components_compared"] == 10


@pytest.mark.parametrize("allowance", ALLOWANCES)
def test_another_state_of_the_same_norm_is_found(allowance: dict[str, Any]) -> None:
    result = state(loaded("swapped", at(1).size), **allowance)  # type: ignore[arg-type]

    assert result.status == "fail"
    expect_finding(
        result,
        "part-changed",
        part=MOMENTUM,
        standing="different",
        resumed_at=(2, 0),
        expects_own_state=True,
    )
    value, expected_value = (result.anomalies[0].facts[n] for n in ("value", "expected_value"))
    assert value == expected_value


def test_the_state_of_another_moment_is_found_however_near_its_norm_is() -> None:
    near = msgspec.structs.replace(at(0), size=OWN * 1.0005)
    history = changed(
        loaded(near.digest, OWN * 1.0005),
        ev.StateSeen,
        lambda e: (e.attempt, e.epoch, e.moment) == (0, 0, "left"),
        components=lambda e: tuple(near if p.name == MOMENTUM else p for p in e.components),
    )

    assert state(history, loss_tolerance=WIDE).status == "fail"


def test_a_norm_within_the_tolerance_and_too_far_for_rounding_is_found() -> None:
    result = state(loaded("odd", OWN * 1.01), loss_tolerance=WIDE)

    assert result.status == "fail"
    expect_finding(
        result,
        "part-changed",
        value={"size": 1.732},
        expected_value={"size": 1.715},
        expects_own_state=True,
    )


@pytest.mark.parametrize("allowance", ALLOWANCES)
def test_what_may_have_been_rounded_in_its_file_is_in_doubt(allowance: dict[str, Any]) -> None:
    result = state(loaded("rounded", OWN * 1.001), **allowance)

    assert result.status == "inconclusive"
    expect_text(result.summary)


@pytest.mark.parametrize("allowance", ALLOWANCES)
def test_what_is_gone_is_found(allowance: dict[str, Any]) -> None:
    history = restored_wrong(RUN, MOMENTUM, None, moment="entered")

    assert f"{MOMENTUM} is not restored" in state(history, **allowance).summary
