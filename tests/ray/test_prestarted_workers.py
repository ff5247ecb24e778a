"""Workers that were started beforehand, on a real cluster: they are used, and change nothing."""

from pathlib import Path

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.launch.ray import compat
from chaos.model.event import Leftover, WorkersPrestarted
from chaos.model.history import History
from chaos.run.directory import RunDirectory
from tests.ray.command import Ran, chaos, strays

pytestmark = [
    pytest.mark.ray,
    pytest.mark.nightly,
    pytest.mark.timeout(900),
    pytest.mark.skipif(not compat.can_prestart(), reason="grpcio is not installed"),
]

KILLED = "tests/ray/one_worker.chaos.yaml"


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prestarted")


@pytest.fixture(scope="module")
def with_them(reports: Path) -> Ran:
    return chaos("run", KILLED, "--prestart-workers", reports=reports)


def history_of(ran: Ran) -> History:
    (run,) = ran.runs()
    return RunDirectory(run).load_history()


def test_the_next_attempts_workers_had_been_waiting_and_its_losses_are_the_baselines(
    with_them: Ran,
) -> None:
    pools = [event for _, event in history_of(with_them).select_events(WorkersPrestarted)]

    assert with_them.code == 0, with_them.output
    assert [(pool.attempt, pool.used_count, pool.error) for pool in pools] == [
        (0, 0, None),
        (1, 1, None),
    ]
    assert "recoveries are shorter" in with_them.output


def test_nobody_who_waited_in_vain_is_left_or_blamed(with_them: Ran) -> None:
    assert not list(history_of(with_them).select_events(Leftover))
    assert not strays()


def test_the_same_plan_without_them_comes_to_the_same(with_them: Ran, tmp_path: Path) -> None:
    (run,) = with_them.runs()
    again = chaos("replay", run, "--yes", reports=tmp_path)

    def came_to(ran: Ran) -> object:
        (folder,) = ran.runs()
        directory = RunDirectory(folder)
        analysis = RunAnalysis(
            directory.load_plan(),
            directory.load_history(),
            directory.load_history("baseline.jsonl"),
        )
        steps = analysis.run.lineage.steps.items()
        return {place: [(s.step, s.losses) for s in done] for place, done in steps}

    assert again.code == 0, again.output
    assert not list(history_of(again).select_events(WorkersPrestarted))
    assert came_to(again) == came_to(with_them)
