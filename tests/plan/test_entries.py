"""What the seed decides of a scenario: equal for equal seeds, within its ranges and its budget."""

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.pause_worker import PauseWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.model.draws import Every, Lifetimes, UpTo
from chaos.model.fault_entry import FaultEntry
from chaos.model.launcher import Launcher
from chaos.model.plan import Plan
from chaos.model.scenario import FailureBudget, Job, Scenario
from chaos.model.trigger import AtMoment, AtRecovery, AtStart, AtStep, AtTime
from chaos.plan.entries import draw_entries
from chaos.plan.make import make_plan
from chaos.scenario_file.load import load_scenario
from chaos.scenario_file.text import render_drawn_scenario

CWD = Path("/home/me/project")
seeds = st.integers(0, 2**64)
KILL = KillWorker()


def scenario(
    *entries: FaultEntry,
    workers: int = 4,
    budget: int | None = None,
    lives: Lifetimes | None = None,
    launcher: Launcher = "ray",
) -> Scenario:
    failure = None if budget is None else FailureBudget(max_failures=budget)
    job = Job(script="train.py", workers=workers, failure=failure, launcher=launcher)
    return Scenario(scenario="x", job=job, faults=entries, lifetimes=lives)


def planned(of: Scenario, seed: int, folder: Path = CWD) -> Plan:
    return make_plan(of, file=folder / "x.chaos.yaml", seed=seed, cwd=folder)


def ranged(epochs: tuple[int, int], steps: tuple[int, int], ranks: tuple[int, int]) -> FaultEntry:
    return FaultEntry(
        at=AtStep(epoch=epochs[0], step=steps[0], rank=ranks[0]),
        up_to=UpTo(epoch=epochs[1], step=steps[1], rank=ranks[1]),
        kill_worker=KILL,
    )


def pairs(least: int, most: int) -> st.SearchStrategy[tuple[int, int]]:
    return st.tuples(st.integers(least, most), st.integers(least, most)).map(
        lambda pair: (min(pair), max(pair))
    )


entries = st.builds(ranged, pairs(0, 9), pairs(1, 9), pairs(0, 3))


@given(of=st.lists(entries, max_size=4), seed=seeds)
def test_an_equal_seed_gives_an_equal_plan_within_the_ranges(
    of: list[FaultEntry], seed: int
) -> None:
    plan = planned(scenario(*of), seed)

    assert plan == planned(scenario(*of), seed)
    assert len(plan.ops) == len(of)
    for op, entry in zip(plan.ops, of, strict=True):
        assert isinstance(op.at, AtStep)
        assert isinstance(entry.at, AtStep)
        assert entry.up_to is not None
        for key in ("epoch", "step", "rank"):
            assert getattr(entry.at, key) <= getattr(op.at, key) <= getattr(entry.up_to, key)


@given(of=entries, other=entries, seed=seeds)
def test_each_entry_is_drawn_without_regard_to_the_others(
    of: FaultEntry, other: FaultEntry, seed: int
) -> None:
    after = draw_entries(scenario(other, of), seed=seed)

    assert draw_entries(scenario(ranged((0, 9), (1, 9), (0, 3)), of), seed=seed)[1] == after[1]


@given(seed=seeds)
def test_a_scenario_without_ranges_keeps_its_entries(seed: int) -> None:
    plain = (
        FaultEntry(at=AtStep(epoch=1, step=2), kill_worker=KILL),
        FaultEntry(at=AtRecovery(recovering_from=0, rank=1), kill_worker=KILL),
    )

    plan = planned(scenario(*plain), seed)
    assert draw_entries(scenario(*plain), seed=seed) == plain
    assert not plan.is_drawn


def test_every_number_of_a_range_comes_up_about_as_often() -> None:
    of = scenario(ranged((2, 4), (1, 2), (0, 0)))
    drawn = [draw_entries(of, seed=seed)[0].at for seed in range(600)]
    counts = [sum(isinstance(at, AtStep) and at.epoch == n for at in drawn) for n in (2, 3, 4)]

    # 200 each are expected, with a standard deviation of 11.5.
    assert all(140 < count < 260 for count in counts), counts


@pytest.mark.parametrize("chance", [0.1, 0.3, 0.9])
def test_a_fault_with_a_chance_is_there_about_as_often(chance: float) -> None:
    entry = FaultEntry(at=AtStep(epoch=1, step=1), chance=chance, kill_worker=KILL)
    there = sum(len(draw_entries(scenario(entry), seed=seed)) for seed in range(1000))

    # Five standard deviations of a binomial.
    assert abs(there - 1000 * chance) < 5 * (1000 * chance * (1 - chance)) ** 0.5


def test_a_certain_chance_is_certain() -> None:
    entry = FaultEntry(at=AtStep(epoch=1, step=1), chance=1.0, kill_worker=KILL)

    assert all(len(draw_entries(scenario(entry), seed=seed)) == 1 for seed in range(100))


def places(*of: FaultEntry, budget: int | None = None, seed: int = 0) -> list[str]:
    drawn = draw_entries(scenario(*of, budget=budget), seed=seed)
    return [str(entry.at).removesuffix(", rank 0") for entry in drawn]


def test_a_fault_comes_again_after_so_many_steps_across_epochs() -> None:
    every = Every(steps=5, steps_per_epoch=4, times=4)
    entry = FaultEntry(at=AtStep(epoch=0, step=3, rank=0), every=every, kill_worker=KILL)

    # In all the steps 3, 8, 13 and 18 of training.
    assert places(entry) == [
        "epoch 0, step 3",
        "epoch 1, step 4",
        "epoch 3, step 1",
        "epoch 4, step 2",
    ]


def test_a_fault_comes_again_after_epochs_attempts_and_seconds() -> None:
    moment = FaultEntry(
        at=AtMoment(epoch=1, moment="committed", rank=0),
        every=Every(epochs=3, times=2),
        kill_worker=KILL,
    )
    start = FaultEntry(
        at=AtStart(starting=1, rank=0), every=Every(attempts=1, times=2), kill_worker=KILL
    )
    clock = FaultEntry(
        at=AtTime(seconds=2.0, rank=0), every=Every(seconds=1.5, times=2), kill_worker=KILL
    )

    assert places(moment) == ["epoch 1, committed", "epoch 4, committed"]
    assert places(start) == ["the start of attempt 1", "the start of attempt 2"]
    assert places(clock) == ["2 s after the start", "3.5 s after the start"]


@given(seed=seeds, budget=st.integers(1, 12), single=st.integers(0, 3), chance=st.floats(0.1, 1.0))
def test_until_the_budget_is_gone_there_is_never_more(
    seed: int, budget: int, single: int, chance: float
) -> None:
    until = Every(epochs=1, until="budget")
    again = FaultEntry(at=AtStep(epoch=0, step=1), every=until, chance=chance, kill_worker=KILL)
    beside = [FaultEntry(at=AtStep(epoch=20 + n, step=1), kill_worker=KILL) for n in range(single)]
    of = scenario(again, again, *beside, budget=max(budget, single))

    drawn = draw_entries(of, seed=seed)
    assert len(drawn) <= max(budget, single)
    if chance == 1.0:
        assert len(drawn) == max(budget, single)


def test_a_budget_is_used_up_by_what_draws_on_it_alone() -> None:
    until = Every(epochs=1, until="budget")
    again = FaultEntry(at=AtStep(epoch=0, step=1), every=until, kill_worker=KILL)
    pause = FaultEntry(at=AtStep(epoch=1, step=1), pause_worker=PauseWorker(for_s=0.1))
    notice = FaultEntry(at=AtStep(epoch=1, step=1), preempt_node=PreemptNode(notice_s=1))
    kinds = [entry.kind for entry in draw_entries(scenario(again, notice, budget=3), seed=0)]

    assert kinds == ["kill_worker"] * 3 + ["preempt_node"]
    # A pause may end an attempt by a time-out of the job's: its retry is left.
    assert len(draw_entries(scenario(again, pause, budget=3), seed=0)) <= 4


@given(seed=seeds)
def test_a_recovery_follows_its_cause_or_is_not_there(seed: int) -> None:
    before = FaultEntry(
        at=AtStep(epoch=0, step=1), every=Every(epochs=1, times=3), chance=0.5, kill_worker=KILL
    )
    cause = FaultEntry(at=AtStep(epoch=9, step=1), chance=0.5, kill_node=KillNode())
    after = FaultEntry(at=AtRecovery(recovering_from=1), kill_worker=KILL)
    ops = planned(scenario(before, cause, after), seed).ops

    recoveries = [op.at for op in ops if isinstance(op.at, AtRecovery)]
    assert len(recoveries) == sum(op.kind == "kill_node" for op in ops)
    assert all(ops[at.recovering_from].kind == "kill_node" for at in recoveries)


def test_spare_nodes_are_there_for_every_node_that_is_drawn() -> None:
    entry = FaultEntry(
        at=AtStep(epoch=0, step=1), every=Every(epochs=1, times=3), kill_node=KillNode()
    )

    assert planned(scenario(entry), seed=0).shape.nodes == 4 + 3


# -- lifetimes ------------------------------------------------------------------------------------

lives = st.builds(
    Lifetimes,
    mean_steps=st.floats(0.5, 50),
    shape=st.floats(0.3, 5),
    epochs=st.integers(1, 20),
    steps_per_epoch=st.integers(2, 9),
    most=st.integers(1, 30),
)


@given(
    of=lives,
    seed=seeds,
    budget=st.none() | st.integers(1, 8),
    launcher=st.sampled_from(["ray", "torchrun"]),
)
def test_losses_are_at_places_that_their_attempt_comes_to(
    of: Lifetimes, seed: int, budget: int | None, launcher: Launcher
) -> None:
    """Each attempt begins with an epoch, and every loss lies in front of it.

    A place that no attempt has passed needs no attempt; one that was passed before needs its own.
    """
    ops = planned(scenario(lives=of, budget=budget, launcher=launcher), seed).ops

    assert len(ops) <= min(of.most, of.most if budget is None else budget)
    begin, furthest = 0, 0
    for number, op in enumerate(ops):
        assert isinstance(op.at, AtStep)
        assert (op.kind, op.at.step <= of.steps_per_epoch, op.at.epoch < of.epochs) == (
            "kill_worker",
            True,
            True,
        )
        place = op.at.epoch * of.steps_per_epoch + op.at.step
        assert place > begin
        assert op.at.attempt == (number if place <= furthest else None)
        assert launcher == "ray" or op.at.step < of.steps_per_epoch
        begin, furthest = op.at.epoch * of.steps_per_epoch, max(furthest, place)


def test_machines_last_for_their_mean_in_steps_that_are_made() -> None:
    """Four machines of mean 100: a loss every 25 steps."""
    of = scenario(
        lives=Lifetimes(mean_steps=100, epochs=100_000, steps_per_epoch=5, most=1000),
    )
    ops = draw_entries(of, seed=3)
    made, begin = 0, 0
    for entry in ops:
        assert isinstance(entry.at, AtStep)
        made += entry.at.epoch * 5 + entry.at.step - begin
        begin = entry.at.epoch * 5

    # Of 1,000 losses the mean distance has a standard error of 0.8.
    assert abs(made / len(ops) - 25) < 4
    assert {entry.at.rank for entry in ops} == {0, 1, 2, 3}


@pytest.mark.parametrize("launcher", ["ray", "torchrun"])
def test_losses_come_anywhere_between_two_saves(launcher: Launcher) -> None:
    """A loss costs half of an epoch's eight steps on average, as `chaos preflight` has it."""
    lives = Lifetimes(mean_steps=500, epochs=100_000, steps_per_epoch=8, most=1000)
    ops = draw_entries(scenario(lives=lives, launcher=launcher), seed=5)
    lost = sum(entry.at.step for entry in ops if isinstance(entry.at, AtStep)) / len(ops)

    # The mean of 1,000 uniform numbers up to 8 has a standard error of 0.07.
    assert abs(lost - 4) < 0.4


def test_hours_are_steps_by_the_time_of_a_step() -> None:
    hours = Lifetimes(mean_h=2, step_s=360, epochs=9, steps_per_epoch=4)
    steps = Lifetimes(mean_steps=20, epochs=9, steps_per_epoch=4)

    assert planned(scenario(lives=hours), 7).ops == planned(scenario(lives=steps), 7).ops


def test_a_node_is_lost_with_the_lowest_rank_on_it() -> None:
    of = Lifetimes(mean_steps=3, epochs=50, steps_per_epoch=4, lost="node", most=40)
    job = Job(script="train.py", workers=4)
    two_each = Scenario.model_validate(
        {"scenario": "x", "job": job, "lifetimes": of, "cluster": {"cpus_per_node": 2}}
    )
    plan = planned(two_each, seed=1)

    assert {op.kind for op in plan.ops} == {"kill_node"}
    assert {op.at.rank for op in plan.ops} == {0, 2}
    assert plan.shape.nodes == 2 + len(plan.ops)


# -- written out ----------------------------------------------------------------------------------


@given(of=st.lists(entries, max_size=3), seed=seeds, other=seeds)
def test_what_was_drawn_is_a_scenario_that_is_the_same_plan_with_any_seed(
    tmp_path_factory: pytest.TempPathFactory, of: list[FaultEntry], seed: int, other: int
) -> None:
    folder = tmp_path_factory.mktemp("drawn")
    (folder / "train.py").touch()
    drawn = planned(scenario(*of), seed, folder)
    file = folder / "drawn.chaos.yaml"
    file.write_text(render_drawn_scenario(drawn, folder=folder))

    again = make_plan(load_scenario(file), file=file, seed=other, cwd=folder)
    named = {"file": drawn.file, "slug": drawn.slug, "seed": seed, "is_drawn": drawn.is_drawn}
    assert again.model_copy(update=named) == drawn


def test_what_was_drawn_keeps_all_that_the_scenario_sets(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    file = tmp_path / "x.chaos.yaml"
    file.write_text(
        "scenario: x\n"
        "job: {script: train.py, workers: 4, launcher: torchrun, failure: {max_failures: 3}}\n"
        "cluster: {nodes: 2}\n"
        "faults:\n  - {at: {epoch: 1, step: 1}, up_to: {epoch: 4}, kill_worker: {}}\n"
        "expect: {lost_steps: {max: 3}, ignore_metrics: [time]}\n"
        "watch: {every: 2}\n"
        "limits: {run_s: 60, gate_s: 5}\n"
    )
    drawn = make_plan(load_scenario(file), file=file, seed=3, cwd=tmp_path)
    text = tmp_path / "drawn.chaos.yaml"
    text.write_text(render_drawn_scenario(drawn, folder=tmp_path))
    again = make_plan(load_scenario(text), file=file, seed=3, cwd=tmp_path)

    assert again.model_copy(update={"is_drawn": True}) == drawn


def test_the_steps_that_are_counted_by_are_in_the_plan() -> None:
    every = Every(steps=5, steps_per_epoch=4, times=2)
    entry = FaultEntry(at=AtStep(epoch=0, step=3), every=every, kill_worker=KILL)
    of = Lifetimes(mean_steps=4, epochs=30, steps_per_epoch=6)

    assert planned(scenario(entry), 0).stated_steps == (4,)
    assert planned(scenario(lives=of), 0).stated_steps == (6,)
    assert planned(scenario(ranged((0, 1), (1, 1), (0, 0))), 0).stated_steps == ()


def test_lifetimes_follow_one_another_in_training_or_name_their_attempt() -> None:
    of = Lifetimes(mean_steps=4, epochs=30, steps_per_epoch=6)
    ats = [entry.at for entry in draw_entries(scenario(lives=of, workers=2), seed=0)]

    for before, at in pairwise(ats):
        assert isinstance(before, AtStep)
        assert isinstance(at, AtStep)
        assert at.attempt is not None or (at.epoch, at.step) > (before.epoch, before.step)
