"""Every recorded run is judged as it was."""

import pytest

from tests.recorded.guard import accepted, answers


@pytest.mark.timeout(300)
def test_every_recorded_run_is_judged_as_it_was() -> None:
    before, now = accepted(), answers()

    assert now.keys() == before.keys()
    assert [(run, before[run], now[run]) for run in now if now[run] != before[run]] == []
    assert len(before) >= 200
