"""A home without tokens of the user's; one suite for all tests that look at it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.launch.ray.authentication import FILE, MODE, TOKEN
from tests.ray.command import DEMO, SAMPLE, Ran, chaos


@pytest.fixture(autouse=True, scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Have clusters find no token but the tests' own: what the user keeps decides no test."""
    made = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(made))
        for name in (MODE, TOKEN, FILE):
            patch.delenv(name, raising=False)
        yield made


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(SAMPLE, id="sample"),
        pytest.param(DEMO, id="all", marks=pytest.mark.nightly),
    ],
)
def chosen(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """Return the scenarios that run: a sample before a merge, all of them nightly."""
    files: tuple[str, ...] = request.param
    return files


@pytest.fixture(scope="session")
def demo(chosen: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Run the chosen scenarios once, for all tests that look at them."""
    reports = tmp_path_factory.mktemp("demo")
    return chaos("run", *chosen, reports=reports)
