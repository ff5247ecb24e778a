"""Which losses can be planted at a resume: what had moved by then, and came back."""

from collections.abc import Mapping

import pytest

from chaos.check.analysis import RunAnalysis
from chaos.extensions.controls.selection import (
    Control,
    LossSite,
    find_part_controls,
    find_resume,
    find_value_controls,
    list_loop_targets,
    select_lasting,
)
from chaos.model import event as ev
from chaos.model.history import Baseline, History
from chaos.model.places import START, TrainingPlace
from tests.check.parts import KILLED, TWICE
from tests.check.story import Story
from tests.check.test_census import counted

Values = Mapping[str, object]


def resume_of(first: Values, later: Values, resumed: Values) -> tuple[RunAnalysis, LossSite]:
    """Return a right run with a resume; values at the start, in a clean run there, and in it."""
    plain = KILLED.history()
    epoch = next(e.epoch for _, e in plain.select_events(ev.StateSeen) if e.attempt == 1)
    run = counted(plain, (0, 0, first), (1, epoch, resumed))
    clean = counted(KILLED.baseline(), (0, 0, first), (0, epoch, later))
    analysis = RunAnalysis(KILLED.plan(), run, Baseline([clean]))
    resume = find_resume(analysis)
    assert resume is not None
    assert resume.place == TrainingPlace(epoch, 0)
    return analysis, resume


def value_paths(first: Values, later: Values, resumed: Values) -> list[str]:
    return [control.path for control in find_value_controls(*resume_of(first, later, resumed))]


def test_a_value_that_moved_and_came_back_can_be_lost() -> None:
    assert value_paths({"meter.count": 0.0}, {"meter.count": 8.0}, {"meter.count": 8.0}) == [
        "meter.count"
    ]


@pytest.mark.parametrize(
    ("path", "first", "later", "resumed"),
    [
        ("fixed", 1.0, 1.0, 1.0),
        ("lost", 0.0, 3.0, 0.0),
        ("adam.hooks", "a", "b", "b"),
        ("schedule.last_epoch", 0.0, 2.0, 2.0),
        ("rng.torch", "a", "b", "b"),
    ],
)
def test_what_stays_or_is_lost_already_or_is_of_a_part_of_the_state_is_left_out(
    path: str, first: object, later: object, resumed: object
) -> None:
    assert value_paths({path: first}, {path: later}, {path: resumed}) == []


def test_numbers_of_objects_come_before_variables() -> None:
    first, later = {"a": 0.0, "b.c": 0.0, "d.e": "x"}, {"a": 1.0, "b.c": 1.0, "d.e": "y"}

    assert value_paths(first, later, later) == ["b.c", "a", "d.e"]


def test_parts_of_the_state_come_in_the_order_of_their_weight_and_an_optimizer_is_one() -> None:
    analysis, resume = resume_of({"n": 0.0}, {"n": 1.0}, {"n": 1.0})

    parts = [control.part for control in find_part_controls(analysis, resume)]

    assert parts[0] == "model"
    assert parts.count("optimizer") == 1
    assert parts.index("optimizer") < parts.index("optimizer.lr")


def test_a_run_without_a_restart_has_no_resume_to_lose_anything_at() -> None:
    clean = Story().baseline()

    assert find_resume(RunAnalysis(Story().plan(), clean, Baseline([clean]))) is None


def test_of_several_resumes_it_is_the_last_which_no_other_can_undo() -> None:
    run = TWICE.history()
    epochs = {e.attempt: e.epoch for _, e in reversed([*run.select_events(ev.StateSeen)])}
    run = counted(run, *((attempt, epochs[attempt], {"n": 0.0}) for attempt in epochs))

    resume = find_resume(RunAnalysis(TWICE.plan(), run, Baseline([TWICE.baseline()])))

    assert resume is not None
    assert resume.attempt == max(epochs) == 2


def test_an_optimizer_is_named_by_any_of_its_moments_and_by_nothing_of_another() -> None:
    optimizer = Control("optimizer", "state: optimizer")

    assert optimizer.is_named({"optimizer.exp_avg"})
    assert not optimizer.is_named({"optimizer.1.exp_avg", "optimizer.lr", "model"})
    assert Control("optimizer.1", "state: optimizer.1").is_named({"optimizer.1.exp_avg"})
    assert Control("meter.count", "meter.count").is_named({"meter.count"})


def test_a_batch_and_the_number_of_a_loop_are_no_values_that_come_back() -> None:
    controls = [Control(path, path) for path in ("step", "epoch", "batch", "rng.torch")]
    clean_run = counted(Story().baseline(), (0, 0, {"step": 0, "epoch": 0}), loop=0)

    lasting = select_lasting(controls, clean_run, START, {"epoch"})

    assert [control.path for control in lasting] == ["step", "rng.torch"]


def test_a_variable_that_the_loop_makes_is_no_value_that_comes_back() -> None:
    loop = ev.LoopBody(file="train.py", first=10, last=20)
    lines = {
        name: ev.CodeLine(file="train.py", line=line, first=line)
        for name, line in {"step": 5, "label": 12}.items()
    }
    clean_run = counted(Story().baseline(), (0, 0, {"step": 0, "label": 0}), loop=0)
    entry = clean_run[0]
    named = ev.NamesGiven(attempt=0, rank=0, lines=lines, parts={}, loops=(loop,))
    first_entry = type(entry)(time_ns=entry.time_ns, source="x", seq=0, event=named)
    controls = [Control(path, path) for path in lines]

    lasting = select_lasting(controls, History([first_entry, *clean_run]), START, ())

    assert lasting == controls[:1]


def test_without_a_loop_only_values_of_objects_are_known_to_last() -> None:
    controls = [Control(path, path) for path in ("step", "meter.count")]

    assert select_lasting(controls, History([]), START, ()) == controls[1:]


def test_the_variables_of_a_loop_are_those_before_in() -> None:
    source = "for epoch, (a, b) in rows:\n    x = 1\n    for step in b:\n        y = 2\n"

    assert {*list_loop_targets(source, 2)} == {"epoch", "a", "b"}
    assert {*list_loop_targets(source, 4)} == {"step"}
