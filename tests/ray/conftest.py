"""One demo for all tests that look at it: it takes minutes."""

import pytest

from tests.ray.command import DEMO, Ran, chaos


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """Do what `make demo` does, once for all tests that look at it."""
    reports = tmp_path_factory.mktemp("demo")
    return chaos("run", *DEMO, reports=reports)
