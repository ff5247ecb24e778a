"""What cannot be drawn is refused with its line, and what can be is read."""

from pathlib import Path

import pytest

from chaos.errors import ScenarioError
from chaos.scenario_file.load import find_scenarios, load_scenario

HEAD = "scenario: x\njob: {script: job.py, workers: 2, failure: {max_failures: 2}}\n"
ENTRY = f"{HEAD}faults:\n  - at: {{epoch: 1, step: 2, rank: 0}}\n    kill_worker: {{}}\n"
TORCHRUN = HEAD.replace("workers: 2", "workers: 2, launcher: torchrun")
LIVES = "lifetimes: {mean_steps: 9, epochs: 4, steps_per_epoch: 6}\n"


def loaded(folder: Path, text: str) -> None:
    (folder / "job.py").touch()
    file = folder / "x.chaos.yaml"
    file.write_text(text)
    load_scenario(file)


WRONG = {
    "range that goes back": (
        f"{ENTRY}    up_to:\n      epoch: 0\n",
        "7: up_to.epoch must be >= at.epoch (1), got 0",
    ),
    "range of what at does not name": (
        f"{ENTRY}    up_to: {{seconds: 3}}\n",
        "6: up_to.seconds needs at.seconds, where the range begins",
    ),
    "rank beyond the workers": (
        f"{ENTRY}    up_to: {{rank: 2}}\n",
        "6: up_to.rank must be below job.workers (2), got 2. Ranks count from 0.",
    ),
    "empty range": (f"{ENTRY}    up_to: {{}}\n", "6: up_to needs one of epoch, step"),
    "unknown key of a range": (
        f"{ENTRY}    up_to: {{epcoh: 3}}\n",
        "6: unknown key 'epcoh' in up_to. Did you mean epoch?",
    ),
    "chance of nothing": (f"{ENTRY}    chance: 0\n", "6: chance must be a number > 0 and <= 1"),
    "chance above one": (f"{ENTRY}    chance: 30\n", "6: chance must be a number > 0 and <= 1"),
    "no distance": (f"{ENTRY}    every: {{times: 3}}\n", "6: every needs one of epochs, steps"),
    "two distances": (
        f"{ENTRY}    every: {{epochs: 1, seconds: 2, times: 3}}\n",
        "6: every needs one of epochs, steps",
    ),
    "no end": (f"{ENTRY}    every: {{epochs: 1}}\n", "6: every needs either times or"),
    "steps without their epoch": (
        f"{ENTRY}    every: {{steps: 4, times: 2}}\n",
        "6: every.steps and every.steps_per_epoch go together",
    ),
    "seconds of a step": (
        f"{ENTRY}    every: {{seconds: 4, times: 2}}\n",
        "6: every.seconds needs a place that is `seconds`",
    ),
    "step behind its epoch": (
        f"{ENTRY}    every: {{steps: 1, steps_per_epoch: 1, times: 2}}\n",
        "6: step 2 lies behind the last of an epoch, 1",
    ),
    "one attempt": (
        f"{ENTRY.replace('rank: 0', 'attempt: 1')}    every: {{epochs: 1, times: 2}}\n",
        "6: every goes on in later attempts, and at.attempt names one",
    ),
    "more than a day": (
        ENTRY.replace("{epoch: 1, step: 2, rank: 0}", "{seconds: 1}")
        + "    every: {seconds: 86000, times: 2}\n",
        "6: every goes on for more than a day",
    ),
    "no budget": (
        ENTRY.replace(", failure: {max_failures: 2}", "")
        + "    every: {epochs: 1, until: budget}\n",
        "6: `until: budget` needs a limit, job.failure.max_failures",
    ),
    "no limit": (
        ENTRY.replace("max_failures: 2", "max_failures: -1")
        + "    every: {epochs: 1, until: budget}\n",
        "6: `until: budget` needs a limit, job.failure.max_failures",
    ),
    "nothing is left": (
        ENTRY.replace("max_failures: 2", "max_failures: 1")
        + "    every: {epochs: 1, until: budget}\n"
        + "  - {at: {epoch: 2, step: 1}, kill_worker: {}}\n",
        "6: nothing is left of job.failure.max_failures (1)",
    ),
    "budget of what charges none": (
        ENTRY.replace("kill_worker: {}", "slow_worker: {delay_s: 1}")
        + "    every: {epochs: 1, until: budget}\n",
        "6: slow_worker takes nothing from a budget",
    ),
    "budget beside what returns by itself": (
        ENTRY
        + "    every: {epochs: 1, until: budget}\n"
        + "  - {at: {epoch: 2, step: 1}, poison_step: {}}\n",
        "6: `until: budget` cannot count poison_step, which comes again by itself",
    ),
    "recovery from many": (
        (
            f"{ENTRY}    every: {{epochs: 1, times: 2}}\n"
            "  - {at: {recovering_from: 0}, kill_worker: {}}\n"
        ),
        "7: entry 0 of faults comes again and again, and recovering_from means one fault",
    ),
    "nodes that are not there": (
        ENTRY.replace("kill_worker", "kill_node")
        + "    every: {epochs: 1, times: 3}\ncluster: {nodes: 4}\n",
        "7: after its 3 node faults the cluster holds 1 of 2 workers",
    ),
    "two means": (
        HEAD + "lifetimes: {mean_steps: 9, mean_h: 2, step_s: 1, epochs: 4, steps_per_epoch: 6}\n",
        "3: lifetimes needs either mean_steps or mean_h",
    ),
    "hours without a step": (
        HEAD + "lifetimes: {mean_h: 2, epochs: 4, steps_per_epoch: 6}\n",
        "3: lifetimes.mean_h and lifetimes.step_s go together",
    ),
    "lives beside a kill": (
        ENTRY + LIVES,
        "6: lifetimes counts every attempt that ends, and kill_worker may end one too",
    ),
    "lives of an elastic job": (
        HEAD.replace("workers: 2", "workers: 2, min_workers: 1") + LIVES,
        "3: lifetimes needs a machine for each worker",
    ),
    "lives without retries": (
        HEAD.replace("max_failures: 2", "max_failures: 0") + LIVES,
        "3: job.failure.max_failures allows no loss",
    ),
    "nodes of one agent": (
        TORCHRUN + LIVES.replace("{", "{lost: node, "),
        "3: `lost: node` needs several nodes under torchrun",
    ),
    "epochs of one step under torchrun": (
        TORCHRUN + LIVES.replace("epoch: 6", "epoch: 1"),
        "3: under torchrun lifetimes needs epochs of two steps or more",
    ),
    "lives on nodes that are not there": (
        HEAD + LIVES.replace("{", "{lost: node, ") + "cluster: {nodes: 3}\n",
        "4: after its 2 node faults the cluster holds 1 of 2 workers",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_cannot_be_drawn_is_refused_at_its_line(tmp_path: Path, name: str) -> None:
    text, said = WRONG[name]

    with pytest.raises(ScenarioError) as caught:
        loaded(tmp_path, text)
    assert str(caught.value).startswith(f"{tmp_path}/x.chaos.yaml:{said}")


@pytest.mark.parametrize(
    "text",
    [
        f"{ENTRY}    up_to: {{epoch: 3, step: 2, rank: 1}}\n    chance: 1\n",
        f"{ENTRY}    every: {{steps: 7, steps_per_epoch: 6, until: budget}}\n",
        ENTRY.replace("{epoch: 1, step: 2, rank: 0}", "{seconds: 2}") + "    up_to: {seconds: 5}\n",
        HEAD + LIVES + "faults:\n  - {at: {epoch: 1, step: 1}, slow_worker: {delay_s: 1}}\n",
        TORCHRUN.replace("workers: 2", "workers: 4")
        + "cluster: {nodes: 2}\n"
        + LIVES.replace("{", "{lost: node, ")
        + "expect: {outcome: error}\n",
    ],
)
def test_what_can_be_drawn_is_read(tmp_path: Path, text: str) -> None:
    loaded(tmp_path, text)


def test_what_was_drawn_for_a_run_is_no_scenario_of_the_folder(tmp_path: Path) -> None:
    loaded(tmp_path, ENTRY)
    drawn = tmp_path / "run" / "drawn.chaos.yaml"
    drawn.parent.mkdir()
    drawn.write_text(ENTRY)
    assert drawn in find_scenarios([tmp_path])

    drawn.with_name("plan.json").touch()
    assert find_scenarios([tmp_path]) == (tmp_path / "x.chaos.yaml",)
    assert find_scenarios([drawn]) == (drawn,)
