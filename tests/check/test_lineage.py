"""The commits that count, where a checkpoint is older than the report that it came with."""

from chaos.check.attempt import Attempt, Commit, Start, Step
from chaos.check.lineage import lineage
from chaos.model.places import Place

FIRST = Commit(20, 0, 0, "ckpt-0", (), older=Place(0, 2))


def attempt(index: int, start: Start, places: list[tuple[int, int]], *commits: Commit) -> Attempt:
    steps = tuple(
        Step(n, index, 0, *place, losses=()) for n, place in enumerate(places, 30 * index)
    )
    return Attempt(
        index=index,
        opened=30 * index,
        places=(),
        starts={0: start},
        steps=steps,
        commits=commits,
        reported=frozenset(),
        asked=frozenset(),
        decisions=(),
    )


BEFORE = attempt(0, Start(0, 0, None, 0), [(0, 1), (0, 2), (0, 3), (0, 4), (1, 1)], FIRST)
RESUMED = Start(30, 0, "ckpt-0", 0, 2)


def test_an_epoch_that_was_reported_with_the_checkpoint_stays_reported() -> None:
    """A save that was made beside training is reported when it is whole, and not a second time."""
    second = Commit(40, 1, 1, "ckpt-1", (), older=Place(1, 0))
    resumed = attempt(1, RESUMED, [(0, 3), (0, 4), (1, 1)], second)

    found = lineage([BEFORE, resumed])

    assert found.commits == (FIRST, second)
    assert found.count(0, 0) == 4


def test_an_epoch_that_is_reported_again_counts_once() -> None:
    again = Commit(40, 1, 0, "ckpt-1", ())

    assert lineage([BEFORE, attempt(1, RESUMED, [(0, 3), (0, 4)], again)]).commits == (again,)


def test_a_commit_after_the_one_that_is_resumed_from_is_dropped() -> None:
    later = Commit(25, 0, 1, "ckpt-1", ())
    before = attempt(0, Start(0, 0, None, 0), [(0, 1), (0, 2), (1, 1)], FIRST, later)

    assert lineage([before, attempt(1, RESUMED, [(0, 3)])]).commits == (FIRST,)


def test_epochs_that_are_reported_once_more_stand_in_their_order() -> None:
    """The checkpoint of epoch 2 was of epoch 0, as that of a best value may be."""
    first = [Commit(n, 0, n, f"ckpt-{n}", (), older=Place(1, 0)) for n in range(3)]
    before = attempt(0, Start(0, 0, None, 0), [(n, 1) for n in range(3)], *first)
    again = Commit(40, 1, 1, "ckpt-3", (), older=Place(1, 0))
    resumed = attempt(1, Start(30, 0, "ckpt-2", 1), [(1, 1), (2, 1)], again)

    found = lineage([before, resumed])

    assert found.commits == (first[0], again)
