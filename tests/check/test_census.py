"""Which values of a census are named where training differs, and which are not."""

from collections.abc import Mapping

from chaos.check import census
from chaos.check.analysis import RunAnalysis
from chaos.check.judge import judge
from chaos.model import event as ev
from chaos.model.events.state import IN_LOADER
from chaos.model.history import Baseline, History
from chaos.model.places import TrainingPlace
from tests.accepted import expect_text
from tests.check.parts import KILLED
from tests.check.tamper import shifted

Values = Mapping[str, object]


def counted(history: History, *taken: tuple[int, int, Values], loop: int | None = None) -> History:
    """Return a history with a census of rank 0 before the first state of an attempt's epoch."""
    entries = list(history)
    for attempt, epoch, values in taken:
        seen = (
            n
            for n, e in History(entries).select_events(ev.StateSeen)
            if _at(e) == (attempt, 0, epoch)
        )
        at = next(seen)
        held = tuple(
            ev.Held(path=path, digest=repr(value), text=repr(value) * isinstance(value, float))
            for path, value in values.items()
        )
        event = ev.CensusTaken(attempt=attempt, rank=0, epoch=epoch, step=0, held=held, loop=loop)
        entries.insert(
            at, type(entries[0])(time_ns=entries[at].time_ns, source="x", seq=0, event=event)
        )
    return History(entries)


def _at(event: ev.StateSeen) -> tuple[int, int, int]:
    return event.attempt, event.rank, event.epoch


def analysed(before: Values, there: Values, here: Values) -> RunAnalysis:
    """Return a run that differs from its resume on; values at the start, and at the resume."""
    plain = KILLED.history()
    resumed = next(e.epoch for _, e in plain.select_events(ev.StateSeen) if e.attempt == 1)
    ours = counted(shifted(plain, resumed), (0, 0, before), (1, resumed, here))
    theirs = counted(KILLED.baseline(), (0, 0, before), (0, resumed, there))
    return RunAnalysis(KILLED.plan(), ours, Baseline([theirs]))


def named(before: Values, there: Values, here: Values) -> list[str]:
    return [str(one) for one in census.find_candidates(analysed(before, there, here))]


def test_a_value_that_began_anew_is_named_with_both() -> None:
    (candidate,) = named({"kl.value": 0.2}, {"kl.value": 0.3}, {"kl.value": 0.2})
    expect_text(candidate)


def test_what_is_another_value_and_no_number_is_named_without_one() -> None:
    expect_text(named({"names": "a"}, {"names": "b"}, {"names": "c"})[0], "another value")
    expect_text(named({"names": "a"}, {"names": "b"}, {"names": "a"})[0], "the first value")


def test_what_never_moves_or_is_the_same_or_has_no_counterpart_is_not_named() -> None:
    start = {"begun": 0.0, "count": 0.0, "old": 1.0}

    assert not named(start, {"begun": 0.0}, {"begun": 3.0})  # the epoch at which it resumed
    assert not named(start, {"count": 5.0}, {"count": 5.0})
    assert not named(start, {"count": 5.0}, {"old": 5.0})


def test_a_module_that_never_trains_is_named_where_it_is_another_one() -> None:
    start = {"trainer.reference.state_dict()": "of the start"}

    (candidate,) = census.find_candidates(
        analysed(start, start, {"trainer.reference.state_dict()": "of the resume"})
    )

    assert candidate.path == "trainer.reference.state_dict()"
    assert not named(start, start, start)


def test_a_census_tells_what_is_new_since_the_one_before() -> None:
    start = {"kl": 0.2, "same": 1.0}

    assert named(start, {"kl": 0.3}, {"kl": 0.3, "same": 1.0}) == []  # still held in the baseline
    assert named({"kl": 0.2, "same": "a"}, {"same": "b"}, {"kl": 0.2, "same": "b"}) == []


def test_what_differs_where_the_outermost_loop_begins_comes_first_and_apart() -> None:
    before: Values = {"count": 0.0, "queue": "a"}
    there: Values = {"count": 5.0, "queue": "b"}
    found = analysed(before, there, there)  # before the first forward call all is right again
    epoch = next(place.epoch for place in census.find_resume_places(found).values())
    ours, theirs = found.history, found.aligned_baseline
    assert theirs is not None
    for loop, here in enumerate(({**there, "count": 0.0}, {**before})):
        ours = counted(ours, (0, 0, before), (1, epoch, here), loop=loop)
        theirs = counted(theirs, (0, 0, before), (0, epoch, there), loop=loop)
    looked = RunAnalysis(found.plan, ours, Baseline([theirs]))

    assert [one.path for one in census.find_loop_candidates(looked)] == ["count", "queue"]
    assert not census.find_candidates(looked)
    assert census.find_resume_places(looked) == census.find_resume_places(found)


def test_what_a_loaders_processes_were_given_counts_where_it_moves_elsewhere() -> None:
    copy = f"data.epoch{IN_LOADER}"
    start: Values = {"data.epoch": 0.0, copy: 0.0}

    (candidate,) = named(start, {"data.epoch": 2.0, copy: 0.0}, {"data.epoch": 2.0, copy: 2.0})
    expect_text(candidate)
    assert not named({copy: 0.0}, {copy: 0.0}, {copy: 2.0})


def test_what_differs_before_the_fault_is_not_named() -> None:
    found = analysed({"time": 1.0}, {"time": 2.0}, {"time": 3.0})
    first = next(e for _, e in found.history.select_events(ev.CensusTaken))
    at = next(n for n, _ in found.history.select_events(ev.CensusTaken))
    entries = list(found.history)
    held = (ev.Held(path="time", digest="another"),)
    event = ev.CensusTaken(attempt=0, rank=0, epoch=first.epoch, step=0, held=held)
    entries[at] = type(entries[0])(time_ns=entries[at].time_ns, source="x", seq=0, event=event)

    assert not census.find_candidates(RunAnalysis(found.plan, History(entries), found.baseline))


def test_numbers_of_objects_that_began_anew_come_first() -> None:
    before: Values = {"loss": 0.1, "log": "a", "opt.count": 0.5, "opt.other": 0.7}
    there: Values = {"loss": 0.2, "log": "b", "opt.count": 0.6, "opt.other": 0.8}
    here: Values = {"loss": 0.1, "log": "a", "opt.count": 0.5, "opt.other": 0.9}

    paths = [one.path for one in census.find_candidates(analysed(before, there, here))]

    assert paths == ["opt.count", "loss", "log", "opt.other"]


def test_the_headline_names_them_and_no_verdict_depends_on_them() -> None:
    found = analysed({"kl": 0.2}, {"kl": 0.3}, {"kl": 0.2})
    resumed = next(e.epoch for _, e in found.history.select_events(ev.StateSeen) if e.attempt == 1)
    without = judge(found.plan, shifted(KILLED.history(), resumed), Baseline([KILLED.baseline()]))

    verdict = judge(found.plan, found.history, found.baseline)

    assert "; at the resume `kl` was 0.2, its first value, and 0.3 in" in verdict.headline
    assert [r.status for r in verdict.results] == [r.status for r in without.results]


def test_the_places_at_which_values_are_given_back_are_those_of_the_resumes() -> None:
    found = analysed({"kl": 0.2}, {"kl": 0.3}, {"kl": 0.2})
    resumed = next(e.epoch for _, e in found.history.select_events(ev.StateSeen) if e.attempt == 1)

    assert census.find_resume_places(found) == {1: TrainingPlace(resumed, 0)}
