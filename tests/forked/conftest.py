"""The embedded backend, and one call that runs a job on it and judges the run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from chaos.check.judge import judge
from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.launch.forked.backend import ForkBackend
from chaos.model.expect import Expect
from chaos.model.fault_entry import FaultEntry
from chaos.model.history import History
from chaos.model.plan import Op, Plan, Shape
from chaos.model.scenario import Cloud, FailureBudget, Job, Limits, Retention
from chaos.model.trigger import AtStep
from chaos.model.verdict import Verdict
from chaos.model.watch import Watch
from chaos.run.directory import RunDirectory, create_run
from chaos.run.journal import read_history

ROOT = Path(__file__).parents[2]
TINY = ROOT / "tests/ray/jobs/tiny.py"


@dataclass(frozen=True)
class Judged:
    """A run, and what came of it."""

    verdict: Verdict
    history: History
    directory: RunDirectory

    def result(self, check: str) -> str:
        return next(r.status for r in self.verdict.results if r.check == check)


RunJob = Callable[..., Judged]


@pytest.fixture(scope="session")
def backend() -> Iterator[ForkBackend]:
    with ForkBackend() as backend:
        yield backend


@pytest.fixture
def run(backend: ForkBackend, tmp_path: Path) -> RunJob:
    def run_job(
        *,
        script: Path = TINY,
        workers: int = 1,
        min_workers: int | None = None,
        spares: int = 1,
        keep: int | None = None,
        run_s: float = 30.0,
        ops: tuple[FaultEntry, ...] = (),
        baseline: History | None = None,
        env: dict[str, str] | None = None,
        watch: Watch | None = None,
        expect: Expect | None = None,
        metadata: Cloud | None = None,
        **args: Any,
    ) -> Judged:
        numbered = tuple(Op.from_entry(i, op) for i, op in enumerate(ops))
        plan = Plan(
            scenario="s",
            slug="s",
            file=str(tmp_path / "s.chaos.yaml"),
            seed=0,
            backend="fork",
            cwd=str(tmp_path),
            job=Job(
                script=str(script),
                args=args,
                workers=workers,
                min_workers=min_workers,
                failure=FailureBudget(max_failures=2),
                checkpoint=None if keep is None else Retention(num_to_keep=keep),
                env=env or {},
            ),
            shape=Shape(nodes=workers + spares, cpus_per_node=1, metadata=metadata),
            ops=numbered,
            expect=expect or Expect(),
            watch=watch or Watch(),
            limits=Limits(run_s=run_s),
        )
        directory = create_run(tmp_path, "run", plan, {})
        backend.execute(plan, directory, lambda _: None)
        history = read_history(directory.journals)
        return Judged(judge(plan, history, baseline), history, directory)

    return run_job


def kill(*, epoch: int, step: int, rank: int = 0) -> FaultEntry:
    return FaultEntry(at=AtStep(epoch=epoch, step=step, rank=rank), kill_worker=KillWorker())


def lose_node(*, epoch: int, step: int, rank: int = 0) -> FaultEntry:
    return FaultEntry(at=AtStep(epoch=epoch, step=step, rank=rank), kill_node=KillNode())
