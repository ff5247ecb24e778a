"""A world of memory, and a journal on the disk."""

from pathlib import Path

import pytest

from chaos.run.clock import SystemClock
from chaos.run.journal import Journal
from tests.world import FakeWorld


@pytest.fixture
def world() -> FakeWorld:
    return FakeWorld()


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path, "chaos", role="chaos", clock=SystemClock())
