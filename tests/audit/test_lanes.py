"""Side by side or one after the other, the same work is done, and none after an error."""

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.audit.lanes import count_lanes, run_side_by_side


class Lane:
    def __init__(self) -> None:
        self.busy = threading.Lock()
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True

    def execute(self, *_: Any) -> None:
        raise NotImplementedError


@given(st.lists(st.integers(), max_size=20), st.integers(1, 4))
def test_every_item_is_done_once_whatever_the_number_of_lanes(items: list[int], count: int) -> None:
    def work(lane: Any, item: int) -> int:
        with lane.busy:
            return item

    done = list(run_side_by_side(work, items, [Lane() for _ in range(count)]))

    assert sorted(done) == sorted(items)


def test_a_lane_does_one_thing_at_a_time() -> None:
    def work(lane: Any, _: int) -> bool:
        free = lane.busy.acquire(blocking=False)
        if free:
            lane.busy.release()
        return bool(free)

    assert all(run_side_by_side(work, range(200), [Lane(), Lane(), Lane()]))


def test_two_lanes_work_at_the_same_time() -> None:
    both = threading.Barrier(2, timeout=10)

    assert (
        list(run_side_by_side(lambda *_: both.wait() >= 0, range(2), [Lane(), Lane()]))
        == [True] * 2
    )


@pytest.mark.parametrize("count", [2, 3])
def test_an_error_breaks_off_the_other_lanes(count: int) -> None:
    lanes = [Lane() for _ in range(count)]

    def work(_: Any, item: int) -> int:
        if item == 3:
            raise RuntimeError("gone wrong")
        return item

    with pytest.raises(RuntimeError):
        list(run_side_by_side(work, range(1000), lanes))
    assert all(lane.is_closed for lane in lanes)


def test_no_item_is_taken_before_a_lane_is_free() -> None:
    taken: list[int] = []

    def items() -> Any:
        for number in range(100):
            taken.append(number)
            yield number

    results = run_side_by_side(lambda _, item: item, items(), [Lane(), Lane()])
    next(results)
    results.close()  # type: ignore[attr-defined]

    assert len(taken) <= 3


@pytest.mark.parametrize(("cpus", "workers", "lanes"), [(2, 2, 2), (2, 1, 4), (2, 8, 1), (8, 2, 8)])
def test_small_jobs_run_side_by_side(cpus: int, workers: int, lanes: int) -> None:
    assert count_lanes(cpus, workers=workers) == lanes
