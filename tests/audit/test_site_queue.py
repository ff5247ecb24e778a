"""Places that only a restart shows: learnt from struck runs, and struck as well."""

from pathlib import Path

import pytest

from chaos.audit.audit import SiteChoice
from chaos.audit.budget import Budget
from chaos.audit.card import Card
from chaos.audit.chains import join_places
from chaos.audit.parts import find_omissions
from chaos.audit.site_category import INSIDE_LOAD
from chaos.audit.site_queue import EarlierSites, SiteQueue
from chaos.audit.site_sample import choose_fault_sites
from chaos.model.trigger import AtRecovery
from tests.accepted import expect_text
from tests.audit.backend import FakeBackend, audit_of
from tests.audit.test_site_sample import extent_of

LOADS_ALONE = SiteChoice(groups=(INSIDE_LOAD,))


def audited(folder: Path, *, lanes: int = 1, **given: object) -> Card:
    backend = FakeBackend(epochs=3, steps=2, loads=(1,))
    return audit_of(folder, backend, count_lanes=lambda _: lanes, **given).run()


@pytest.mark.parametrize("lanes", [1, 3])
def test_a_rank_that_loads_after_a_restart_is_struck_inside_its_load(
    tmp_path: Path, lanes: int
) -> None:
    card = audited(tmp_path, lanes=lanes)

    inside = [run for run in card.runs if run.group == INSIDE_LOAD]
    assert sorted(run.place.epoch for run in inside) == [1, 2]
    assert {run.ops[1].at for run in inside} == {
        AtRecovery(recovering_from=0, stage="loading", rank=1)
    }
    assert card.ended == "all"
    assert not card.is_partial
    assert {run.number for run in card.runs} == set(range(card.run_count))


def test_what_the_last_run_shows_is_struck_after_it(tmp_path: Path) -> None:
    choice = SiteChoice(groups=("last epoch", INSIDE_LOAD))

    card = audited(tmp_path, lanes=3, choice=choice)

    assert {run.group for run in card.runs} == {"last epoch", INSIDE_LOAD}
    assert card.ended == "all"


def test_a_job_that_is_not_seen_to_load_has_no_such_place(tmp_path: Path) -> None:
    card = audit_of(tmp_path, FakeBackend(epochs=3, steps=2)).run()

    why = find_omissions(card)[INSIDE_LOAD]
    expect_text(why)


def test_a_load_that_no_other_strike_has_shown_is_not_struck(tmp_path: Path) -> None:
    card = audited(tmp_path, choice=LOADS_ALONE)

    assert card.runs == ()
    assert card.exit_code == 2
    assert "no fault was injected" in card.sentence


def test_a_budget_holds_for_what_was_learnt_as_well(tmp_path: Path) -> None:
    card = audited(tmp_path, budget=Budget(runs=9))

    assert len(card.runs) == 9
    assert card.ended == "budget"


def test_what_a_repeated_run_of_an_earlier_audit_may_show_is_waited_for() -> None:
    sites = choose_fault_sites(extent_of(epochs=4, steps=6), seed=0)
    several = join_places(sorted(sites[:2], key=lambda site: site.order))
    earlier = EarlierSites(failed={several.key}, combined=(several,))
    queue = SiteQueue(extent_of(epochs=4, steps=6), lambda _: (), earlier_sites=earlier)

    run = queue.next_run()

    assert run.sites == (several,)
    assert queue.is_empty
    assert queue.is_waiting, str(queue)


def test_a_repeated_run_that_is_given_back_waits_again() -> None:
    several = join_places(choose_fault_sites(extent_of(epochs=4, steps=6), seed=0)[:2])
    earlier = EarlierSites(combined=(several,))
    queue = SiteQueue(extent_of(epochs=4, steps=6), lambda _: (), earlier_sites=earlier)

    queue.return_sites(queue.next_run().sites)

    assert not queue.is_waiting
    assert queue.next_run().sites == (several,)


def test_the_table_of_a_queue_has_each_site_with_its_reason() -> None:
    profile = extent_of(epochs=4, steps=6)
    queue = SiteQueue(profile, lambda profile: choose_fault_sites(profile, seed=0))

    queue.next_run()

    lines = str(queue).splitlines()
    assert len(lines) == len(queue.sites)
    assert lines[0].startswith("needed")
    assert [line for line in lines if line.startswith("running") and "in run 0" in line]
