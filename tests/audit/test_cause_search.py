"""The fewest values without which training is not the baseline's."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.audit.cause_search import (
    CauseOutcome,
    CauseSearch,
    Paths,
    _list_idle_paths,
    find_minimal_paths,
    find_nearest_cause,
    has_trained_equally,
)
from chaos.audit.folder import AuditFolder
from chaos.check.census import CensusDifference
from chaos.check.judge import judge_analysis
from chaos.model import event as ev
from chaos.model.events.state import IN_LOADER
from chaos.model.history import Baseline, History
from chaos.model.places import START
from tests.accepted import expect_text
from tests.audit.backend import FakeBackend, Ticking
from tests.check.story import Story, Strike
from tests.check.tamper import analysis_of, changed

names = st.lists(st.sampled_from("abcdefghijkl"), unique=True, min_size=1)


@given(names, st.data())
def test_the_cause_is_found_whatever_it_is(paths: list[str], data: st.DataObject) -> None:
    cause = data.draw(st.sets(st.sampled_from(paths), min_size=1))

    found = find_minimal_paths(tuple(paths), lambda part: cause <= set(part))

    assert found is not None
    assert set(found) == cause


@given(names, st.sets(st.frozensets(st.sampled_from("abcdefghijkl"), min_size=1)))
def test_none_of_what_is_found_can_be_left_out(
    paths: list[str], causes: set[frozenset[str]]
) -> None:
    def is_right(part: Paths) -> bool:
        return any(cause <= set(part) for cause in causes)

    found = find_minimal_paths(tuple(paths), is_right)

    assert (found is not None) == is_right(tuple(paths))
    if found is not None:
        assert not any(is_right(tuple(p for p in found if p != path)) for path in found)


@given(names)
def test_what_all_together_do_not_mend_costs_few_runs(paths: list[str]) -> None:
    tried: list[Paths] = []

    def is_right(part: Paths) -> bool:
        tried.append(part)
        return False

    assert find_minimal_paths(tuple(paths), is_right) is None
    assert len(tried) <= 3


@pytest.mark.parametrize("layer_count", [2, 7])
def test_a_flag_that_every_layer_has_is_found_in_few_runs(layer_count: int) -> None:
    flags = [f"net.body.{n}.frozen" for n in range(layer_count)]
    modes = [f"net.body.{n}.training" for n in range(layer_count)]
    tried: list[Paths] = []

    def is_right(part: Paths) -> bool:
        tried.append(part)
        return {*flags} <= {*part}

    paths = tuple(path for pair in zip(modes, flags, strict=True) for path in pair)

    assert find_minimal_paths(paths, is_right) == tuple(flags)
    assert len(tried) <= 8


def test_one_of_two_objects_with_a_counter_is_the_cause_alone() -> None:
    paths = ("job.lr", "job.epoch", "job.meter.count", "job.other.count")

    cause = find_minimal_paths(paths, lambda part: "job.other.count" in part)

    assert cause == ("job.other.count",)


def test_what_differs_earliest_is_tried_before_what_may_follow_from_it() -> None:
    tried: list[Paths] = []

    def is_right(part: Paths) -> bool:
        tried.append(part)
        return "count" in part or {"queue", "asked"} <= {*part}

    every = ("count", "queue", "asked")

    assert find_nearest_cause(("count",), every, is_right) == (("count",), ("count",))
    assert tried == [("count",)]
    assert find_nearest_cause((), ("queue", "asked"), is_right)[1] == ("queue", "asked")
    assert find_nearest_cause(("queue",), ("queue", "asked"), is_right)[1] == ("queue", "asked")
    assert find_nearest_cause((), (), is_right) == ((), None)


def test_the_sentence_of_a_copy_says_where_it_lies() -> None:
    epoch = CensusDifference(f"data.epoch{IN_LOADER}", "3", "0", is_initial=False)

    expect_text(CauseOutcome((epoch,), (epoch,)).sentence)


def test_the_sentence_says_what_was_set_and_no_more() -> None:
    value = CensusDifference("kl.value", "0.2", "0.3", is_initial=True)
    roots = CensusDifference("opt.roots", "", "", is_initial=False)

    expect_text(CauseOutcome((value, roots), (value,)).sentence, "value roots value sentence")
    expect_text(CauseOutcome((value, roots), (value, roots)).sentence, "roots value roots sentence")
    expect_text(CauseOutcome((value,), None).sentence, "value None sentence")
    assert "nothing could be given back" in CauseOutcome((), None).sentence
    besides = CauseOutcome((value, roots), (value,), idle=("opt.roots", "rng.torch")).sentence
    expect_text(besides, "besides")
    many = CauseOutcome((value,), (value,), idle=("a", "b", "c", "d")).sentence
    expect_text(many, "many")
    unread = CauseOutcome((), None, left_out=("bank",)).sentence
    expect_text(unread, "unread")
    within = CauseOutcome((value,), (value,), is_exact=False).sentence
    expect_text(within, "within")
    assert "bit" not in within


KILLED = Story((Strike(2, 3, 1),))


def trained_equally(history: History, check: str) -> bool:
    analysis = analysis_of(KILLED, history)
    return has_trained_equally(analysis, judge_analysis(analysis), check)


def test_another_wrong_metric_does_not_hide_that_samples_are_mended() -> None:
    wrong_metric = changed(
        KILLED.history(),
        ev.Committed,
        lambda e: e.epoch == 3,
        metrics=lambda e: (e.metrics[0], {**e.metrics[1], "accuracy": 0.5}),
    )

    assert trained_equally(wrong_metric, "samples")
    assert not trained_equally(wrong_metric, "trajectory")


def test_losses_that_differ_are_not_mended_whatever_the_samples_are() -> None:
    wrong_loss = changed(
        KILLED.history(),
        ev.StepDone,
        lambda e: (e.attempt, e.epoch, e.step) == (1, 2, 4),
        losses=lambda e: (e.losses[0] + 1.0,),
    )

    assert trained_equally(KILLED.history(), "samples")
    assert not trained_equally(wrong_loss, "samples")


@pytest.mark.parametrize("last_attempt", [0, 1])
def test_a_run_that_stops_before_the_end_has_mended_nothing(last_attempt: int) -> None:
    *_, last_step = (e for _, e in KILLED.history().select_events(ev.StepDone))
    stopped = History(
        [
            entry
            for entry in KILLED.history()
            if not isinstance(entry.event, ev.StepDone)
            or (entry.event.attempt <= last_attempt and entry.event.losses != last_step.losses)
        ]
    )

    assert not trained_equally(stopped, "samples")
    assert not trained_equally(stopped, "trajectory")


def search_values(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    candidates: tuple[CensusDifference, ...],
    try_paths: Callable[..., bool],
) -> CauseSearch:
    """Return a search among these values, of which none is a file and no run is looked at."""
    monkeypatch.setattr(CauseSearch, "_try_paths", try_paths)
    monkeypatch.setattr(CauseSearch, "_find_file_cause", lambda *_: None)
    monkeypatch.setattr(CauseSearch, "_watch_closely", lambda *_: (None, Path()))
    monkeypatch.setattr("chaos.check.census.find_candidates", lambda _: ())
    monkeypatch.setattr("chaos.check.census.find_shared_generators", lambda _: candidates)
    monkeypatch.setattr("chaos.check.census.find_resume_places", lambda _: {1: START})
    plan = Story().plan().replace(backend="fork")
    audit_folder = AuditFolder(folder, {})
    return CauseSearch(FakeBackend(), Ticking(), audit_folder, plan, Baseline([Story().baseline()]))


@pytest.mark.parametrize("tried_generator", [True, False])
def test_a_generator_that_was_given_in_vain_is_not_the_cause_though_time_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, tried_generator: bool
) -> None:
    def try_paths(search: CauseSearch, paths: Paths, *_: object) -> bool:
        if paths != ("rng.torch",) or not tried_generator:
            raise TimeoutError
        search._failed_paths.add("rng.torch")
        return False

    generator = CensusDifference("rng.torch", "", "", is_initial=True)
    value = CensusDifference("collate.mean", "", "", is_initial=True)
    search = search_values(monkeypatch, tmp_path, (generator, value), try_paths)
    analysis = analysis_of(Story((Strike(2, 3, 1),)))

    if not tried_generator:
        with pytest.raises(TimeoutError):
            search.find_cause(analysis)
        return
    outcome = search.find_cause(analysis)

    assert (outcome.cause, outcome.generators) == (None, ("rng.torch",))
    assert outcome.is_cut_short


def test_the_fewest_values_that_mended_are_named_though_time_ends(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    paths = tuple("abcdefgh")

    def try_paths(search: CauseSearch, tried: Paths, *_: object) -> bool:
        if len(tried) == 2:
            raise TimeoutError
        is_right = {"a", "d"} <= {*tried}
        if is_right:
            search._idle_by_paths[tried] = ()
        return is_right

    values = tuple(CensusDifference(path, "", "", is_initial=True) for path in paths)
    outcome = search_values(monkeypatch, tmp_path, values, try_paths).find_cause(
        analysis_of(Story((Strike(2, 3, 1),)))
    )

    assert [value.path for value in outcome.cause or ()] == ["a", "b", "c", "d"]
    expect_text(outcome.sentence, "time ended")


@pytest.mark.parametrize(("other", "is_named"), [("difficulty", False), ("level", True)])
def test_a_variable_that_a_function_has_from_another_is_one_value(
    *, other: str, is_named: bool
) -> None:
    values = {
        path: CensusDifference(path, "", "", is_initial=True)
        for path in ("update.difficulty", other)
    }

    idle = _list_idle_paths(tuple(values), ("update.difficulty",), values, [*values.values()])

    assert [*idle] == [other] * is_named
