"""The matrix in the scenarios' README is the one that the scenarios have."""

from chaos.faults.kill_worker import KillWorker
from chaos.faults.raise_in_worker import RaiseInWorker
from chaos.model.fault_entry import FAULTS, FaultEntry
from chaos.model.scenario import Job, Scenario
from chaos.model.trigger import AtMoment, AtRecovery, AtStep
from chaos.scenario_file.load import find_scenarios, load_scenario
from tests.tools.matrix import README, ROOT, covered, current, table, with_matrix

JOB = Job(script="train.py", workers=2)


def scenario(*faults: FaultEntry) -> Scenario:
    return Scenario(scenario="s", job=JOB, faults=faults)


def test_the_matrix_in_the_readme_is_that_of_the_scenarios() -> None:
    assert README.read_text(encoding="utf-8") == current(), "run: make matrix"


def test_every_fault_strikes_in_some_scenario() -> None:
    scenarios = [load_scenario(file) for file in find_scenarios([ROOT / "scenarios"])]

    assert {fault for fault, _ in covered(scenarios)} == set(FAULTS)


def test_a_scenario_counts_once_for_each_place_that_a_fault_strikes_at() -> None:
    step, saving = AtStep(epoch=1, step=2), AtMoment(epoch=1, moment="saving")
    again = AtRecovery(recovering_from=0)
    twice = scenario(
        FaultEntry(at=step, kill_worker=KillWorker()),
        FaultEntry(at=step, kill_worker=KillWorker()),
        FaultEntry(at=again, raise_in_worker=RaiseInWorker()),
    )
    other = scenario(
        FaultEntry(at=step, kill_worker=KillWorker()),
        FaultEntry(at=saving, kill_worker=KillWorker()),
    )

    assert covered([twice, other]) == {
        ("kill_worker", "step"): 2,
        ("kill_worker", "saving"): 1,
        ("raise_in_worker", "recovering_from"): 1,
    }
    assert "| `kill_worker` | 2 | · | 1 | · | · | · | · | · | · | · | · | · | · |" in table(
        [twice, other]
    )


def test_only_what_lies_between_the_markers_is_written() -> None:
    readme = "before\n<!-- matrix: written by make matrix -->\nold\n<!-- end of matrix -->\nafter\n"

    assert with_matrix(readme, "| new |") == readme.replace("old\n", "\n| new |\n\n")
