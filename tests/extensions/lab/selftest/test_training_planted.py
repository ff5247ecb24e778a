"""Every planted train loop as it is, and struck where its bug shows, on forked processes."""

import ast
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chaos.audit.job_profile import measure_job
from chaos.check.judge import judge
from chaos.extensions.lab.selftest import planted
from chaos.extensions.lab.selftest.catalogue import BUGS, CONTROLS, EXHIBITS, CatalogueJob, Variant
from chaos.extensions.lab.selftest.runs import Ops, TrialCase, build_plan
from chaos.faults.kill_worker import KillWorker
from chaos.launch.forked.backend import ForkBackend
from chaos.model.event import Committed
from chaos.model.history import History
from chaos.model.places import EpochRank
from chaos.model.plan import Op
from chaos.model.trigger import AtMoment, AtStep
from chaos.model.verdict import Verdict
from chaos.run.directory import create_run
from chaos.run.journal import read_history

pytestmark = [pytest.mark.embedded, pytest.mark.timeout(120)]

ROOT = Path(__file__).parents[4]


@dataclass(frozen=True)
class Seen:
    verdict: Verdict
    history: History


Run = Callable[..., Seen]


def sampled(exhibits: Iterable[CatalogueJob]) -> list[Any]:
    """Return exhibits as parameters: a third of them for CI, the rest for the nightly run."""
    marks = ((), pytest.mark.nightly, pytest.mark.nightly)
    return [pytest.param(e, id=e.id, marks=marks[n % 3]) for n, e in enumerate(exhibits)]


def variant(exhibit: CatalogueJob) -> Variant:
    return Variant(
        epochs=exhibit.epochs[0] + 1,
        steps_per_epoch=5,
        cadence=2,
        seed=3,
        batch_size=8,
        optimizer="adam",
    )


def ops(exhibit: CatalogueJob) -> Ops:
    """Return a kill that reveals the bug, or that a control survives."""
    saving = exhibit.places.count("saving") > 1
    at = AtMoment(epoch=2, moment="saving", rank=0) if saving else AtStep(epoch=2, step=1, rank=0)
    return (Op(index=0, at=at, kill_worker=KillWorker()),)


@pytest.fixture(scope="module")
def backend() -> Iterator[ForkBackend]:
    with ForkBackend() as backend:
        yield backend


@pytest.fixture(scope="module")
def choice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("planted") / "choice.json"


@pytest.fixture
def run(backend: ForkBackend, choice: Path, tmp_path: Path) -> Run:
    def run_exhibit(exhibit: CatalogueJob, *strikes: Op, baseline: History | None = None) -> Seen:
        config = variant(exhibit)
        choice.write_text(
            json.dumps({"train_loop": exhibit.train_loop, "config": exhibit.args(config)})
        )
        plan = build_plan(TrialCase(exhibit, config, ()), strikes, backend="fork", cwd=ROOT)
        job = plan.job.model_copy(
            update={
                "train_loop": "tests.extensions.lab.selftest.any_loop:train_loop",
                "args": {"choice": str(choice)},
            }
        )
        plan = plan.model_copy(update={"job": job})
        directory = create_run(tmp_path, "run", plan, {})
        backend.execute(plan, directory, lambda _: None)
        history = read_history(directory.journals)
        return Seen(judge(plan, history, baseline), history)

    return run_exhibit


@pytest.mark.parametrize("exhibit", sampled(EXHIBITS))
def test_left_alone_it_trains_to_its_end_as_the_catalogue_lays_it_out(
    run: Run, exhibit: CatalogueJob
) -> None:
    seen = run(exhibit)

    assert seen.verdict.status == "pass", seen.verdict.headline
    length, course = measure_job(seen.history), exhibit.layout(variant(exhibit))
    for rank in (0, 1):
        assert (
            tuple(length.steps[EpochRank(epoch, rank)] for epoch in length.epochs) == course.steps
        )


@pytest.mark.parametrize("control", sampled(CONTROLS))
def test_a_control_that_is_struck_comes_out_the_same(run: Run, control: CatalogueJob) -> None:
    baseline = run(control).history

    seen = run(control, *ops(control), baseline=baseline)

    assert seen.verdict.status == "pass", seen.verdict.headline


@pytest.mark.parametrize("bug", sampled(BUGS))
def test_a_bug_that_is_struck_where_it_shows_is_found(run: Run, bug: CatalogueJob) -> None:
    strikes = ops(bug)
    assert bug.has_revealing_fault(variant(bug), strikes)
    baseline = run(bug).history

    seen = run(bug, *strikes, baseline=baseline)

    assert seen.verdict.status == "fail", seen.verdict.headline


def test_the_metric_of_early_stopping_worsens_and_recovers_and_then_ends_the_job(run: Run) -> None:
    exhibit = next(e for e in CONTROLS if e.stops_after is not None)

    commits = [event for _, event in run(exhibit).history.select_events(Committed)]

    assert [commit.metrics[0]["waited"] for commit in commits] == [0, 1, 0, 1, 2]


@pytest.mark.parametrize("exhibit", EXHIBITS, ids=lambda exhibit: exhibit.id)
def test_a_bug_is_one_place_of_a_loop_and_a_control_none(exhibit: CatalogueJob) -> None:
    compared = [
        (file.stem, node.comparators[0])
        for file in Path(planted.__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(file.read_bytes()))
        if isinstance(node, ast.Compare) and ast.unparse(node.left) in ("job", "self.job")
    ]
    module = exhibit.train_loop.partition(":")[0].rpartition(".")[2]
    found = [file for file, title in compared if ast.literal_eval(title) == exhibit.title]

    if exhibit.is_control and exhibit.stops_after is None:
        assert not found
    else:
        assert found in ([module], ["training"])
