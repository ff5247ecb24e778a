"""The verdict on a job that torchrun starts speaks of torchrun, and of nothing that Ray has.

Recorded runs of Ray Train jobs are told again as torchrun's agent and probe would have recorded
them: the same steps, states and files, and no report, commit or controller.
"""

import re
import tarfile
import tempfile
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import msgspec
import pytest

from chaos.check.judge import judge
from chaos.harness import load_recorded_history
from chaos.model import event as ev
from chaos.model.history import History
from chaos.model.launcher import LAUNCHER_FACTS
from chaos.model.plan import Plan
from chaos.model.scenario import Job
from chaos.model.trigger import AtMoment, AtState
from chaos.model.verdict import Verdict
from chaos.run.directory import RunDirectory
from tests.check.story import Story
from tests.recorded.guard import RUNS

RAYS = re.compile(r"\bRay|commit|fit\(\)|max_failures|max_preemption|report\b")
NEEDS_RAY = "it needs Ray Train, and torchrun started the job"
GONE = (
    ev.BystanderSeen,
    ev.CheckpointDeleted,
    ev.CheckpointRead,
    ev.Committed,
    ev.ControllerState,
    ev.ExperimentEnded,
    ev.JournalOpened,  # lines of it are left out, which would be missing
    ev.Leftover,
    ev.PartUploaded,
    ev.ReportReturned,
    ev.StorageSeen,
    ev.UploadBegun,
    ev.UploadEnded,
    ev.ValidationBegun,
)


def under_torchrun(what: ev.AnyEvent) -> ev.AnyEvent:
    """Return an event as it is recorded under torchrun."""
    told: dict[str, object] = {}
    match what:
        case ev.ReportBegun():
            return ev.EpochEnded(attempt=what.attempt, rank=what.rank, epoch=what.epoch)
        case ev.WorkerStarted():
            told = {"checkpoint": None}
        case ev.FitReturned():
            told = {"launcher": "torchrun", "metrics": {}, "checkpoint": None}
        case ev.FitRaised():
            told = {"launcher": "torchrun", "error": "ChildFailedError", "message": "gone"}
        case ev.FailureDecided():
            errors = dict.fromkeys(what.errors, "ended by SIGKILL")
            told = {"charged": "failures", "error": "a worker ended", "errors": errors}
        case ev.LeftoversSearched():
            told = {"places": ("processes",)}
        case _:
            pass
    return msgspec.structs.replace(what, **told)


def history_under_torchrun(history: History) -> History:
    kept = (entry for entry in history if not isinstance(entry.event, GONE))
    told = [msgspec.structs.replace(entry, event=under_torchrun(entry.event)) for entry in kept]
    return History(told, torn=history.torn)


def plan_under_torchrun(plan: Plan) -> Plan:
    job = Job(launcher="torchrun", script="/x/job.py", workers=plan.job.workers)
    return plan.model_copy(update={"job": job, "backend": "torchrun"})


def runs() -> Iterator[tuple[str, Verdict]]:
    """Yield the recorded runs that torchrun could have had, each with its verdict."""
    with tempfile.TemporaryDirectory() as folder, tarfile.open(RUNS) as archive:
        archive.extractall(folder, filter="data")
        for file in sorted(Path(folder).rglob("plan.json"))[::3]:
            run = RunDirectory(file.parent)
            plan, history, clean = run.load_plan(), load_recorded_history(run), run.load_baseline()
            is_there = all(
                op.fault.needs is None
                and op.kind != "raise_in_worker"  # its recorded proof is Ray's word
                and not isinstance(op.at, AtState)
                and (not isinstance(op.at, AtMoment) or op.at.moment == "saving")
                for op in plan.ops
            )
            if is_there and clean is not None:
                ours, theirs = map(history_under_torchrun, (history, clean))
                yield file.parent.name, judge(plan_under_torchrun(plan), ours, theirs)


def sentences(verdict: Verdict) -> list[str]:
    told = [verdict.headline, verdict.expectation, *verdict.notes]
    told += [resume.sentence for resume in verdict.diagnosis]
    told += [result.summary for result in verdict.results]
    told += [anomaly.message for result in verdict.results for anomaly in result.anomalies]
    return [sentence for sentence in told if sentence != NEEDS_RAY]


def test_no_sentence_on_a_job_of_torchruns_speaks_of_what_ray_has() -> None:
    judged = dict(runs())

    assert len(judged) > 30
    told = {name: sentences(verdict) for name, verdict in judged.items()}
    wrong = {name: [s for s in of if RAYS.search(s)] for name, of in told.items()}
    assert {name: of for name, of in wrong.items() if of} == {}
    assert not [s for of in told.values() for s in of if "the check itself failed" in s]
    assert {verdict.status for verdict in judged.values()} >= {"pass", "fail"}


def test_no_term_of_torchruns_is_rays() -> None:
    words = LAUNCHER_FACTS["torchrun"].words
    terms = [str(getattr(words, field.name)) for field in fields(words)]
    assert not [term for term in terms if RAYS.search(term)]


@pytest.mark.parametrize(
    "check", ["metrics", "selection", "retention", "ack", "drain", "bystanders"]
)
def test_checks_of_reports_and_commits_are_left_out_by_name(check: str) -> None:
    story = Story()

    verdict = judge(plan_under_torchrun(story.plan()), story.history())

    told = {result.check: result.summary for result in verdict.results}
    assert told[check] == NEEDS_RAY
