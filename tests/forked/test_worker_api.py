"""A job may use all of Ray Train's worker API, and gets from it what Ray would give."""

import pytest

from chaos.model.event import Committed, FitReturned
from tests.forked.conftest import ROOT, Judged, RunJob

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def judged(run: RunJob) -> Judged:
    return run(script=ROOT / "tests/ray/jobs/worker_api.py", workers=2)


def test_collectives_context_and_loaders_answer_as_on_ray(judged: Judged) -> None:
    assert judged.verdict.status == "pass", judged.verdict.headline
    last = [event.metrics for _, event in judged.history.select_events(Committed)][-1]
    assert [record["node rank"] for record in last] == [0, 0]
    assert {record["told"] for record in last} == {0}
    assert {record["batches"] for record in last} == {2}
    assert {record["device"] for record in last} == {"cpu"}
    assert {record["reported"] for record in last} == {2}  # the best and the latest
    assert {record["preempted"] for record in last} == {False}


def test_retention_by_score_keeps_the_best_and_the_latest(judged: Judged) -> None:
    """Ray 2.60 never deletes the checkpoint that a restart needs, whatever its score."""
    said = (judged.directory.logs / "driver.log").read_text()
    (returned,) = [event for _, event in judged.history.select_events(FitReturned)]

    assert returned.checkpoint == "checkpoint_3"
    assert "latest checkpoint_3 kept ['checkpoint_1'] parts ['part-0.txt', 'part-1.txt']" in said
