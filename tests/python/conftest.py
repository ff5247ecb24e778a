"""One call that runs a scenario of `scenarios/python`, without its faults and with them."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chaos import runner
from chaos.launch.python.backend import PythonBackend
from chaos.model.history import History
from chaos.model.plan import Plan, PlanBackend
from chaos.plan.make import make_plan
from chaos.report.outcome import FinishedRun
from chaos.run.directory import create_run
from chaos.run.journal import read_history
from chaos.scenario_file.load import load_scenario

SCENARIOS = Path(__file__).parents[2] / "scenarios/python"
RunScenario = Callable[..., FinishedRun]


@pytest.fixture(scope="session")
def commands() -> Iterator[PythonBackend]:
    with PythonBackend() as backend:
        yield backend


@pytest.fixture(scope="session")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return one folder for all: commands that work in another are forked from another root."""
    return tmp_path_factory.mktemp("desk")


@pytest.fixture
def run(
    desk: Path, tmp_path: Path, commands: PythonBackend, monkeypatch: pytest.MonkeyPatch
) -> RunScenario:
    """Return a function that runs a scenario by its name, or another file; with changes of it.

    One that has run may run once more on another backend, by the same run without faults.
    """
    clean: dict[object, History] = {}
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    for left in desk.iterdir():  # by the last test
        shutil.rmtree(left) if left.is_dir() else left.unlink()

    def of(plan: Plan, baseline: History | None = None) -> FinishedRun:
        directory = create_run(desk / "reports" / plan.slug, "run", plan, {})
        runner.execute(commands, plan, directory, baseline)
        history = read_history(directory.journals)
        return runner.judge_run(directory, plan, history, baseline, duration_s=1.0)

    def ran(name: str | Path, backend: PlanBackend = "fork", **job: object) -> FinishedRun:
        file = SCENARIOS / f"{name}.chaos.yaml" if isinstance(name, str) else name
        plan = make_plan(load_scenario(file), file=file, seed=0, cwd=desk, backend=backend)
        plan = plan.model_copy(update={"job": plan.job.model_copy(update=job)})
        if name not in clean:
            alone = of(plan.build_baseline_plan())
            assert alone.verdict.status == "pass", alone.verdict.headline
            clean[name] = alone.history
        done = of(plan, clean[name])
        shutil.rmtree(desk / "reports")  # another run of it may follow
        return done

    return ran
