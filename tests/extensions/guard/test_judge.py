"""The state and the place of a restart, judged by records."""

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.extensions.guard.judge import (
    FileLoad,
    RankEntry,
    compare_state,
    find_origin,
    find_place_defects,
    merge_findings,
)
from chaos.extensions.guard.process import ACCEPTABLE
from chaos.extensions.guard.records import GuardFinding, RankSave
from chaos.extensions.guard.watch import find_start_number
from chaos.model.event import Component, Share
from chaos.model.events.state import GROUPS
from tests.accepted import expect_text
from tests.extensions.guard.saved_states import FRESH, save, start, state, wrong


def entry(parts: Sequence[Component], **changed: object) -> RankEntry:
    return RankEntry(**({"rank": 0, "ranks": 1, "parts": tuple(parts)} | changed))  # type: ignore[arg-type]


def levels(seen: RankEntry, known: RankSave, others: Sequence[RankSave] = ()) -> list[str]:
    answer = compare_state(seen, known, initial_parts=FRESH, all_saves=[known, *others])
    return [finding.level for finding in answer.findings]


@given(st.integers(1, 50), st.sets(st.integers(1, 50)))
def test_a_start_with_the_state_of_a_save_goes_on_from_it_and_nothing_is_wrong(
    step: int, others: set[int]
) -> None:
    saves = [save(one) for one in sorted(others | {step})]
    seen = entry(state(step))
    origin = find_origin(seen, saves)
    assert origin is not None
    assert (origin.save.step, origin.is_by_state) == (step, True)
    assert wrong(seen, origin.save, saves) == []


def test_what_is_missing_reset_or_old_is_said_as_its_digest_shows() -> None:
    seen = entry(state(8, optimizer__momentum_buffer="", schedule="s0", optimizer__lr="o4"))
    expect_text("\n".join(wrong(seen, save(8), [save(4)])))


def test_without_a_step_after_the_save_only_tensors_are_due() -> None:
    # A right job: its schedule moves after the save, and at a resume before the first step.
    last = save(8, entered=())
    assert wrong(entry(state(8, schedule="s9", optimizer__lr="o9")), last) == []
    # A wrong one beside it.
    assert wrong(entry(state(8, optimizer__momentum_buffer="")), last) != []


def test_what_a_job_makes_anew_after_each_save_is_not_due_of_a_save_without_a_step() -> None:
    # A right job: a new optimizer for each epoch, after the save of the epoch before.
    anew = {"optimizer__momentum_buffer": ""}
    earlier = save(4, entered=state(4, **anew))
    last = save(8, entered=(), is_past=False)
    resumed = entry(state(8, **anew))
    assert wrong(resumed, last, [earlier]) == []
    assert levels(resumed, last, [save(4)]) == ["mismatch"]
    # Of the very first save it is not known.
    assert levels(resumed, last) == ["notice"]
    assert levels(resumed, save(8, entered=())) == ["mismatch"]


@pytest.mark.parametrize(("digest", "is_near"), [("m8", False), ("other", True)])
def test_a_model_that_is_moved_before_each_step_may_be_another_one_by_its_rounding(
    digest: str, is_near: bool
) -> None:
    def sized(digest: str, size: float) -> tuple[Component, ...]:
        model, *rest = state(8)
        return (msgspec.structs.replace(model, digest=digest, size=size), *rest)

    known = save(8, made=sized(digest, 1.0), entered=sized("m8", 1.0))

    assert wrong(entry(sized("m8", 1.0)), known) == []
    assert (wrong(entry(sized("x", 1.0 + 1e-8)), known) == []) is is_near
    expect_text("\n".join(wrong(entry(sized("x", 1.001)), known)))


@pytest.mark.parametrize(
    "other", [{}, {"ranks": 2}, {"is_same_job": False}], ids=["same", "more ranks", "other command"]
)
def test_settings_may_follow_the_command_and_the_number_of_ranks(other: dict[str, object]) -> None:
    # Right jobs: a rate by the number of ranks, and one that is given anew.
    changed = entry(state(8, optimizer__lr="o9", schedule="s9"), **other)
    assert set(levels(changed, save(8))) == {"notice" if other else "mismatch"}
    assert levels(entry(state(8, optimizer__momentum_buffer=""), **other), save(8)) == ["mismatch"]


def test_a_schedule_that_moved_after_the_save_is_due_as_the_next_step_began() -> None:
    moved = save(8, entered=state(8, schedule="s9"))
    assert wrong(entry(state(8, schedule="s9")), moved) == []
    expect_text("\n".join(wrong(entry(state(8)), moved)))


def test_a_model_that_is_none_of_the_saves_is_known_by_the_file_that_was_read() -> None:
    saves = [save(4), save(8)]
    seen = entry(FRESH, loads=(FileLoad("/saves/step_4.pt", frozenset({"t4", "x"})),))
    origin = find_origin(seen, saves)
    assert origin is not None
    assert (origin.save.step, origin.is_by_state) == (4, False)
    expect_text(wrong(seen, origin.save, saves)[0])


def test_a_save_of_another_state_than_was_trained_is_no_measure() -> None:
    # Such as the best weights, kept in memory and saved at the end.
    assert find_origin(entry(state(8)), [save(8, is_live=False)]) is None


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_did_not_save_is_held_to_the_model_and_to_an_optimizer_that_is_not_empty(
    rank: int,
) -> None:
    seen = entry(state(8, optimizer__momentum_buffer="other"), rank=rank, ranks=2)
    known = save(8, ranks=2)
    assert bool(wrong(seen, known)) is (rank == 0)
    empty = entry(state(8, optimizer__momentum_buffer=""), rank=rank, ranks=2)
    assert wrong(empty, known)


def test_buffers_may_be_those_of_another_rank() -> None:
    # A right job: each rank reads its own file, and DDP then gives the buffers of rank 0 to all.
    def parts(digest: str) -> tuple[Component, ...]:
        return *state(8), Component(name="model.buffers", digest=digest, count=2)

    own, zero = (save(8, rank=rank, ranks=2, entered=parts(f"b{rank}")) for rank in (1, 0))
    seen = entry(parts("b0"), rank=1, ranks=2)
    assert wrong(seen, own, [zero]) == []
    expect_text("\n".join(wrong(seen, own)))


def test_a_share_is_not_compared_with_that_of_another_number_of_ranks() -> None:
    share = Share(sum="0", squares=1.0, elements=4, whole_elements=8)
    shared = tuple(msgspec.structs.replace(part, share=share) for part in state(8))
    known = save(8, ranks=2, made=shared, entered=shared)
    assert find_origin(entry(state(8, model="m9"), ranks=4), [known]) is None
    resized = compare_state(entry(state(9), ranks=4), known, initial_parts=FRESH, all_saves=[known])
    assert (resized.compared_names, resized.findings) == ((), ())
    assert wrong(entry(state(8, optimizer__momentum_buffer="x"), ranks=2), known)


def test_a_generator_that_nobody_draws_from_is_not_named() -> None:
    seen = entry(state(8, rng__torch="other"))
    drawn = compare_state(seen, save(8), initial_parts=FRESH, start_entry_parts=FRESH, all_saves=[])
    assert drawn.stopped_generators == ("rng.torch",)
    still = compare_state(
        seen, save(8), initial_parts=FRESH, start_entry_parts=state(8), all_saves=[]
    )
    assert (still.stopped_generators, still.findings) == (
        None,
        (),
    )  # how it draws its data is not seen


def test_generators_that_were_not_seen_are_not_known_to_go_on() -> None:
    bare = tuple(part for part in state(8) if part.name != "rng.torch")
    # The model is called within the step, by a closure; or another rank has saved.
    for seen, made in (
        (entry(bare), save(8, made=bare, entered=bare)),
        (entry(state(8)), save(8, rank=1)),
    ):
        answer = compare_state(
            seen, made, initial_parts=FRESH, start_entry_parts=FRESH, all_saves=[]
        )
        assert answer.stopped_generators is None


def test_of_a_loaders_own_generator_it_is_not_known_whether_it_went_on() -> None:
    made = save(8)
    for draws_apart, known in ((False, ()), (True, None)):
        seen = entry(made.entered, has_private_generators=draws_apart)
        answer = compare_state(
            seen, made, initial_parts=FRESH, start_entry_parts=FRESH, all_saves=[]
        )
        assert answer.stopped_generators == known


def placed(
    seen: RankEntry, saves: Sequence[RankSave], there: Sequence[int]
) -> list[tuple[str, str]]:
    found = find_place_defects(
        seen,
        find_origin(seen, saves),
        saves,
        initial_parts=FRESH,
        is_whole=lambda one: one.step in there,
    )
    return [(finding.level, finding.kind) for finding in found]


def test_an_older_save_is_a_mismatch_where_its_like_was_read_and_the_newer_one_is_there() -> None:
    saves = [save(4), save(8)]
    read = entry(state(4), loads=(FileLoad("/saves/step_4.pt", frozenset({"t4"})),))
    assert placed(read, saves, [4, 8]) == [("mismatch", "older")]
    # Its number may be longer.
    longer = [save(4), save(800)]
    assert placed(read, longer, [4, 800]) == [("mismatch", "older")]
    # The newer one is cut off, or gone: to go on from the one before is right.
    assert placed(read, saves, [4]) == []
    # The best one, which the job keeps beside the last, may be what it was asked for.
    assert placed(entry(state(4)), saves, [4, 8]) == [("notice", "older")]


def test_a_save_after_which_the_process_was_killed_at_once_may_be_passed_over() -> None:
    # A right job: killed before it gave the file its name, or wrote which file is the newest.
    last = save(8, entered=(), is_past=False)
    read = entry(state(4), loads=(FileLoad("/saves/step_4.pt", frozenset({"t4"})),))
    assert placed(read, [save(4), last], [4, 8]) == [("notice", "older")]
    assert placed(entry(FRESH), [last], [8]) == [("notice", "began-anew")]
    # The one before it is no excuse.
    assert placed(read, [save(4), save(6), last], [4, 6, 8]) == [("mismatch", "older")]


def test_a_save_that_another_rank_has_lost_may_be_passed_over() -> None:
    # A right job: each rank has a file of its own, and all go back to what each of them has.
    theirs = [save(step, rank=1, files={f"/one/step_{step}.pt": (10, 20)}) for step in (4, 8)]
    saves = [save(4), save(8), *theirs]
    read = entry(state(4), loads=(FileLoad("/saves/step_4.pt", frozenset({"t4"})),))

    def found(is_lost: bool) -> list[str]:
        found = find_place_defects(
            read,
            find_origin(read, saves),
            saves,
            initial_parts=FRESH,
            is_whole=lambda one: not (is_lost and (one.rank, one.step) == (1, 8)),
        )
        return [finding.level for finding in found]

    assert (found(False), found(True)) == (["mismatch"], [])


def test_a_save_that_another_rank_never_made_may_be_passed_over() -> None:
    # A right job: rank 1 was killed before it wrote its part of the save of step 8.
    saves = [save(4, rank=1, files={"/one/step_4.pt": (10, 20)}), save(4), save(8)]
    read = entry(state(4), loads=(FileLoad("/saves/step_4.pt", frozenset({"t4"})),))

    assert placed(read, saves, [4, 8]) == []
    assert placed(read, saves[1:], [4, 8]) == [("mismatch", "older")]


def test_a_save_of_which_no_file_is_known_is_not_said_to_be_gone() -> None:
    saves = [save(4, files={}), save(8)]
    told = [
        list(find_place_defects(one, None, saves, initial_parts=FRESH, is_whole=lambda _: False))
        for one in (entry(FRESH), entry(FRESH, has_no_checkpoint=True))
    ]
    assert [one.level for (one,) in told] == ["notice", "notice"]
    expect_text("\n".join(one.text for (one,) in told))


def test_a_start_from_scratch_is_a_mismatch_where_a_save_is_there() -> None:
    assert placed(entry(FRESH), [save(4)], [4]) == [("mismatch", "began-anew")]
    assert placed(entry(FRESH), [save(4)], []) == [("notice", "began-anew")]
    # The next training of a loop over seeds.
    assert placed(entry(FRESH, is_same_job=False), [save(4)], [4]) == [("notice", "began-anew")]
    alone = save(8, has_optimizer=False)
    assert placed(entry(FRESH), [alone], [8]) == [("notice", "began-anew")]
    assert placed(entry(FRESH), [save(4), alone], [4, 8]) == [("mismatch", "began-anew")]
    assert placed(entry(state(99)), [save(4)], [4]) == [("notice", "unknown")]
    assert placed(entry(FRESH), [], []) == []


def test_a_rank_that_was_away_has_the_number_of_the_ranks_that_begin_with_it() -> None:
    two = [start(n, rank=rank, ranks=2, began_s=100.0 * n) for n in (0, 1) for rank in (0, 1)]
    assert find_start_number(0, 4, 200.0, two) == 2
    with_first = [*two, start(2, rank=0, ranks=4, began_s=200.0)]
    assert find_start_number(3, 4, 201.0, with_first) == 2
    assert find_start_number(0, 4, 300.0, with_first) == 3
    assert find_start_number(0, 1, 0.0, []) == 0


def test_what_is_accepted_is_no_mismatch_and_the_rest_stays_one() -> None:
    lost = [
        GuardFinding("mismatch", "state", f"{part}: …", part)
        for part in ("model", "averaged model")
    ]
    data = GuardFinding("mismatch", "data", "data: …")
    told = merge_findings([*lost, data], {"averaged-model", "data"})
    assert [(one.level, one.subject) for one in told] == [
        ("mismatch", "model"),
        ("accepted", "averaged-model"),
        ("accepted", "data"),
    ]
    note = GuardFinding("notice", "older", "it goes on from step 8")
    assert merge_findings([note], {"older"}) == (note,)


def test_every_group_that_is_compared_can_be_accepted_but_the_model() -> None:
    groups = {group.replace(" ", "-") for group in GROUPS} - {"model", "rng"}
    assert groups - {"data-order", "cursor"} <= {*ACCEPTABLE}
