"""A report that comes before its attempt trains anything ends no epoch."""

import pytest

from chaos.check.analysis import RunTables
from chaos.check.restarts import build_restarts
from chaos.resume.attempt import build_attempts
from tests.check.shorthand import told_in


@pytest.mark.parametrize(
    ("line", "epochs", "due"),
    [
        pytest.param("g e s r c s r c", [0, 1], None, id="validated at the fresh start"),
        pytest.param("g e s r c s g<c0 e s r c", [0, 1], None, id="and at a resume"),
        pytest.param("g s r c s g<c0 e e s r c", [0, 1], None, id="at a resume alone, twice"),
        pytest.param("g e g e s r c", [0], None, id="killed before it trained"),
        pytest.param("g s r c g<c0 e", [0, 1], None, id="nothing left but its last report"),
        pytest.param("g s r c g<c0 e", [0], 1, id="nothing left but to validate"),
        pytest.param("g s r c g<c0 e e", [0, 1], 2, id="nothing left but to validate and report"),
        pytest.param("g e e e", [0, 1, 2], None, id="no step is ever seen"),
    ],
)
def test_epochs_are_what_was_trained(line: str, epochs: list[int], due: int | None) -> None:
    found = build_attempts(told_in(line), due)

    assert sorted({commit.epoch for a in found for commit in a.commits}) == epochs


def test_its_checkpoint_may_be_gone_on_from() -> None:
    course = RunTables(told_in("g e s g s r c"))

    [restart] = build_restarts(course.history, course.attempts, course.lineage, ())

    assert restart.newest_commit is not None
    assert restart.newest_commit.epoch == -1
    assert set(course.checkpoint_commits) == {"e0", "c0"}
