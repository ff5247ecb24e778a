"""The campaigns are clean: in CI a few tries of those that are short, nightly all of each."""

import sys
from typing import Any

import pytest

from chaos.run.clock import SystemClock
from tests.campaigns import (
    environments,
    files,
    forks,
    intruder,
    kills,
    losses,
    records,
    restarts,
)
from tests.campaigns.frame import Asked, Campaign


def carry_out(campaign: Campaign, asked: Asked, capsys: pytest.CaptureFixture[str]) -> None:
    """Carry out a campaign, show its line to who looks on, and fail where it is not clean."""
    tally = campaign(asked)
    with capsys.disabled():
        sys.stdout.write(f"\n{tally.line()}\n")
    if tally.skipped:
        pytest.skip(tally.skipped)
    assert not tally.violations, "\n".join(f"{kind}: {what}" for kind, what in tally.violations)


@pytest.mark.parametrize(
    ("campaign", "tries"),
    [
        pytest.param(files.campaign, 60, id="files"),
        pytest.param(records.campaign, 3, id="records", marks=pytest.mark.nightly),
        pytest.param(intruder.campaign, 1, id="intruder", marks=pytest.mark.nightly),
        pytest.param(forks.campaign, 12, id="forks", marks=pytest.mark.nightly),
    ],
)
@pytest.mark.timeout(180)
def test_a_few_tries_are_clean(
    campaign: Campaign, tries: int, capsys: pytest.CaptureFixture[str]
) -> None:
    carry_out(campaign, Asked(tries), capsys)


# Three seeds that are new each night; a line of figures says which.
DAY_NS = 86_400_000_000_000
NEW = tuple(3 * (SystemClock().wall_ns() // DAY_NS) + number for number in range(3))


def nightly(
    campaign: Campaign,
    tries: int,
    minutes: int,
    *marks: Any,
    backend: str = "fork",
    seed: int | None = None,
) -> Any:
    """Return a campaign as a parameter, with a time limit of three times what it may take."""
    own = (pytest.mark.nightly, pytest.mark.timeout(3 * 60 * minutes), *marks)
    name = f"{campaign.__module__.rpartition('.')[2]}-{backend}"
    if seed is None:
        return pytest.param(campaign, Asked(tries, backend=backend), id=name, marks=own)
    # The name has no seed: the processes of one run must agree on it around midnight.
    return pytest.param(
        campaign, Asked(tries, seed, backend), id=f"{name}-new-{seed % 3}", marks=own
    )


@pytest.mark.parametrize(
    ("campaign", "asked"),
    [
        nightly(kills.campaign, 200, 60),
        nightly(kills.campaign, 12, 30, pytest.mark.ray, backend="ray"),
        nightly(files.campaign, 10_000, 15),
        *(nightly(files.campaign, 3_000, 10, seed=seed) for seed in NEW),
        nightly(records.campaign, 2_000, 15),
        nightly(environments.campaign, len(environments.ENVIRONMENTS), 15),
        nightly(intruder.campaign, 20, 15),
        nightly(forks.campaign, 2_000, 15),
        nightly(losses.campaign, 12, 5),
        nightly(restarts.campaign, 2_000, 90),
        nightly(losses.campaign, 36, 45, pytest.mark.ray, backend="ray"),
    ],
)
def test_all_tries_are_clean(
    campaign: Campaign, asked: Asked, capsys: pytest.CaptureFixture[str]
) -> None:
    carry_out(campaign, asked, capsys)
