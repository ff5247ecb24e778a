"""A verdict on a job that torchrun starts speaks of torchrun."""

import pytest

from chaos.check.judge import judge
from chaos.check.launcher_words import spoken
from chaos.model.plan import Plan
from chaos.model.scenario import Job
from tests.check.story import Story


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fit() raised ValueError: x", "torchrun raised ValueError: x"),
        ("attempt 1 was charged to max_failures", "attempt 1 was charged to --max-restarts"),
        ("Ray charged it to no budget", "torchrun charged it to no budget"),
        (
            "1 restart from the newest commit on every rank",
            "1 restart from the newest save on every rank",
        ),
        ("/data/Xray/model.pt was read", "/data/Xray/model.pt was read"),
    ],
)
def test_the_words_are_torchruns(text: str, words: str) -> None:
    assert spoken(text) == words


def test_checks_of_reports_and_commits_are_left_out_by_name() -> None:
    story = Story()
    plan: Plan = story.plan()
    job = Job(launcher="torchrun", script="/x/job.py", workers=plan.job.workers)
    plan = plan.model_copy(update={"job": job, "backend": "torchrun"})

    verdict = judge(plan, story.history())

    told = {result.check: result.summary for result in verdict.results}
    for check in ("metrics", "selection", "retention", "ack", "drain", "bystanders"):
        assert told[check] == "it needs Ray Train, and torchrun started the job"
