"""For `pytest scenarios/smoke`: a cluster, a baseline and a run take longer than a unit test."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
TIMEOUT_S = 600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give scenarios the time that their own `limits` leave them, where pytest-timeout is there."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.timeout(TIMEOUT_S))
