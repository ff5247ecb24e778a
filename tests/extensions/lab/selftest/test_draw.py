"""What is drawn: repeatable, within the job, and all of it reachable."""

from hypothesis import given
from hypothesis import strategies as st

from chaos.extensions.lab.selftest.catalogue import BUGS, CONTROLS, EXHIBITS, ReportLayout
from chaos.extensions.lab.selftest.runs import (
    CONTROL_FAULTS,
    WORKERS,
    TrialCase,
    build_cases,
    select_sample,
)
from chaos.model.trigger import AtMoment, AtStep, Trigger

seeds = st.integers(0, 10_000)


def drawn(seed: int, **changes: int) -> tuple[TrialCase, ...]:
    return build_cases(EXHIBITS, seed=seed, **{"runs_per_bug": 7, "controls": 48, **changes})


def exists(course: ReportLayout, at: Trigger) -> bool:
    if isinstance(at, AtStep):
        return at.epoch < course.reports and 1 <= at.step <= course.steps[at.epoch]
    assert isinstance(at, AtMoment)
    if at.moment == "saving" and course.saves == "in its own directory":
        return 1 <= at.epoch <= course.reports
    return at.epoch < course.reports


@given(seeds)
def test_one_seed_gives_one_test_and_another_gives_another(seed: int) -> None:
    assert drawn(seed) == drawn(seed)
    assert drawn(seed) != drawn(seed + 1)


@given(seeds, st.sets(st.sampled_from(EXHIBITS), min_size=1))
def test_what_is_drawn_for_a_job_does_not_depend_on_the_other_jobs(seed: int, some: set) -> None:  # type: ignore[type-arg]
    chosen = [exhibit for exhibit in EXHIBITS if exhibit in some]

    alone = build_cases(chosen, seed=seed, runs_per_bug=7, controls=48)

    assert alone == tuple(case for case in drawn(seed) if case.exhibit in some)


@given(seeds)
def test_every_strike_is_at_a_place_that_the_job_has_and_a_rank_comes_to(seed: int) -> None:
    for case in drawn(seed):
        course = case.exhibit.layout(case.variant)
        for op in (op for ops in case.runs for op in ops):
            assert exists(course, op.at), (case.exhibit.id, course, op)
            assert op.at.rank in range(WORKERS)
            if isinstance(op.at, AtMoment) and op.at.moment == "saving":
                assert op.at.rank in case.exhibit.saving_ranks


@given(seeds, st.integers(0, 60), st.integers(1, 20))
def test_as_many_runs_are_drawn_as_were_asked_for(seed: int, controls: int, bugs: int) -> None:
    found = drawn(seed, controls=controls, runs_per_bug=bugs)
    runs = {e.id: sum(len(c.runs) for c in found if c.exhibit == e) for e in EXHIBITS}

    assert all(runs[bug.id] == bugs for bug in BUGS)
    assert sum(runs[control.id] for control in CONTROLS) == controls


@given(seeds)
def test_every_control_meets_every_kind_of_fault(seed: int) -> None:
    for control in CONTROLS:
        strikes = [ops for c in drawn(seed) if c.exhibit == control for ops in c.runs]

        assert len(strikes) >= len(CONTROL_FAULTS)
        kinds = {ops[0].kind for ops in strikes}
        assert kinds == {"kill_worker", "kill_node", "preempt_node"}
        assert any(len(ops) > 1 for ops in strikes)
        assert any(op.target_rank != op.at.rank for ops in strikes for op in ops)


@given(seeds)
def test_of_two_kills_the_second_is_still_ahead_when_the_first_has_struck(seed: int) -> None:
    for case in drawn(seed):
        course = case.exhibit.layout(case.variant)
        for first, second in (ops for ops in case.runs if len(ops) > 1):
            assert first.at.rank == second.at.rank
            assert course.compute_sort_key(first.at) <= course.compute_sort_key(second.at)
            assert second.at.epoch >= course.find_resume_epoch(first) - 1


@given(seeds)
def test_most_runs_of_a_bug_are_where_it_can_show(seed: int) -> None:
    for bug in BUGS:
        runs = [(c.variant, ops) for c in drawn(seed) if c.exhibit == bug for ops in c.runs]

        revealing = sum(bug.has_revealing_fault(variant, ops) for variant, ops in runs)

        assert revealing >= len(runs) * 5 // 7


@given(seeds)
def test_a_sample_has_every_job_once_and_every_bug_where_it_shows(seed: int) -> None:
    chosen = select_sample(drawn(seed))

    assert {case.exhibit.id for case in chosen} == {exhibit.id for exhibit in EXHIBITS}
    for case in chosen:
        (ops,) = case.runs
        assert case.exhibit.is_control or case.exhibit.has_revealing_fault(case.variant, ops)
