"""Processes of data loaders: where an audit kills one, and what it then expects."""

import msgspec

from chaos.audit.chains import build_chain
from chaos.audit.job_profile import JobProfile, intersect_profiles, measure_job
from chaos.audit.plans import build_fault_plan
from chaos.audit.site_groups import FaultSite, build_place_groups
from chaos.model import event as ev
from chaos.model.history import History, JournalEntry
from tests.check.story import Story

CLEAN = Story(epochs=3, steps=4)


def profile(*changes: tuple[int, int, int]) -> JobProfile:
    """Return the profile of a run in which rank 0 has so many processes after a step."""
    counts = {(epoch, step): count for epoch, step, count in changes}
    entries: list[JournalEntry] = []
    for entry in CLEAN.history():
        entries.append(entry)
        done = entry.event
        if isinstance(done, ev.StepDone) and done.rank == 0:
            count = counts.get((done.epoch, done.step))
            if count is not None:
                place = {"attempt": 0, "rank": 0, "epoch": done.epoch, "step": done.step}
                changed = ev.LoaderProcesses(**place, count=count)
                entries.append(msgspec.structs.replace(entry, event=changed))
    return measure_job(History(entries))


def places(of: JobProfile) -> list[FaultSite]:
    return [
        g.make_site(0)
        for g in build_place_groups(of, seed=0)
        if g.category == "loader process lost"
    ]


def test_a_process_is_killed_at_the_first_step_of_an_epoch_that_has_one() -> None:
    names = [place.name for place in places(profile((0, 2, 2), (1, 2, 0)))]

    assert names == ["epoch 0, step 3, rank 0", "epoch 1, step 1, rank 0"]


def test_none_is_killed_at_the_last_step_or_where_there_is_none() -> None:
    assert places(profile((0, 3, 2), (0, 4, 0))) == []
    assert places(profile()) == []


def test_its_loss_may_end_no_attempt_and_shares_no_run() -> None:
    found = profile((0, 1, 2))
    place, other = places(found)[1:3]

    assert build_fault_plan(CLEAN.plan(), place, found).expect.attempts is None
    assert build_chain(place, [other], found, longest=8) == (place,)


def test_a_job_that_reports_by_the_clock_has_no_such_place() -> None:
    found = profile((0, 1, 2))

    assert places(intersect_profiles([found, found])) == []
