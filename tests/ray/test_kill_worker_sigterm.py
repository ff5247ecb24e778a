"""SIGTERM ends a worker of Ray's, wherever its rank is held; no right job is blamed for it."""

from pathlib import Path

import pytest

from tests.ray.command import chaos

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]


@pytest.mark.parametrize(
    "scenario",
    [
        "term_while_loading",
        pytest.param("term_at_a_step", marks=pytest.mark.nightly),
        pytest.param("term_before_first_step", marks=pytest.mark.nightly),
    ],
)
def test_a_rank_that_gets_sigterm_where_it_is_held_is_gone(scenario: str, tmp_path: Path) -> None:
    ran = chaos("run", f"scenarios/worker/{scenario}.chaos.yaml", reports=tmp_path)

    assert ran.code == 0, ran.output
