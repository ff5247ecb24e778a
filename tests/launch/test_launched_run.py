"""A run's limit is time in training: a machine that is slow to start workers hangs no job."""

from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from chaos.launch.launched_run import START_S, LaunchedRun
from chaos.model.event import DeadlinePassed, DriverExited, RunEnded, WorkerGroupStarted
from chaos.model.history import History
from chaos.run.clock import SystemClock
from chaos.run.directory import RunDirectory
from chaos.run.journal import Journal, read_history
from tests.check.story import Story


class HandClock(SystemClock):
    def __init__(self) -> None:
        self.seconds = 0.0

    def now_ns(self) -> int:
        return int(self.seconds * 1e9)


class Watched(LaunchedRun[str]):
    """A driver that never ends, whose first workers start after `start_s`."""

    start_s: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.clock = self.hand = HandClock()
        self.rays = Journal(
            self.directory.journals, "controller", role="controller", clock=self.clock
        )

    def controller(self) -> AbstractContextManager[None]:
        return nullcontext()

    def clean_up(self) -> None:
        return

    def start_driver(self) -> str:
        return "driver"

    def driver_started(self, driver: str) -> None:
        del driver

    def exit_code(self, driver: str) -> None:
        del driver

    def end_driver(self, driver: str) -> int:
        del driver
        return -9

    def do_background_work(self) -> None:
        self.hand.seconds += 1
        if self.hand.seconds == self.start_s:
            self.rays.add(WorkerGroupStarted(attempt=0, workers=()))

    def take_stacks(self, driver: str) -> None:
        del driver


def made(folder: Path) -> RunDirectory:
    directory = RunDirectory(folder)
    directory.journals.mkdir()
    return directory


def watched(run: Watched) -> History:
    run.watch()
    return over(run)


def over(run: Watched) -> History:
    run._end(interrupted=False)
    run.rays.close()
    return read_history(run.directory.journals)


@pytest.mark.parametrize(
    ("start_s", "ended_s"),
    [(3.0, 3 + 240), (250.0, 250 + 240), (None, 240 + START_S)],
    ids=["at once", "late", "never"],
)
def test_the_limit_counts_from_when_the_first_workers_are_there(
    start_s: float | None, ended_s: float, tmp_path: Path
) -> None:
    run = Watched(Story().plan(), made(tmp_path), lambda _: None, None)
    run.start_s = start_s

    history = watched(run)

    assert run.hand.seconds == pytest.approx(ended_s, abs=2)
    ((_, passed),) = history.select_events(DeadlinePassed)
    assert passed.limit_s == 240
    ((number, ended),) = history.select_events(RunEnded)
    counted = Counter(entry.source for entry in history)
    assert ended.lines == {**counted, "harness": history[number].seq}


class Queued(Watched):
    """A driver whose job waits in a queue until a moment, and never ends then."""

    def do_background_work(self) -> None:
        if self.hand.seconds < 1000:
            self.waited_ns += 10**9
        super().do_background_work()


@pytest.mark.parametrize("start_s", [3.0, 1003.0], ids=["queued again", "queued first"])
def test_a_wait_among_the_jobs_of_others_is_in_no_limit(start_s: float, tmp_path: Path) -> None:
    run = Queued(Story().plan(), made(tmp_path), lambda _: None, None)
    run.start_s = start_s

    watched(run)

    assert run.hand.seconds == pytest.approx(max(start_s, 1000) + 240, abs=2)


class Twice(Watched):
    """A driver beside which a fault asks for a second one; each ends at its time, if it does."""

    ends: tuple[float | None, float | None] = (5.0, 9.0)

    def start_driver(self) -> str:
        return f"driver {len(self._running)}"

    def take_driver_request(self) -> bool:
        return self.hand.seconds == 2 and len(self._running) == 1

    def exit_code(self, driver: str) -> int | None:  # type: ignore[override]
        ends_s = self.ends[int(driver[-1])]
        return None if ends_s is None or self.hand.seconds < ends_s else int(driver[-1])


@pytest.mark.parametrize(
    ("ends", "exits"),
    [
        ((5.0, 9.0), [(0, 0), (1, 1)]),
        ((9.0, 5.0), [(1, 1), (0, 0)]),
        ((5.0, None), [(0, 0), (1, -9)]),
        ((None, None), [(0, -9), (1, -9)]),
    ],
)
def test_a_run_with_a_second_driver_lasts_until_both_have_ended(
    ends: tuple[float | None, float | None], exits: list[tuple[int, int]], tmp_path: Path
) -> None:
    run = Twice(Story().plan(), made(tmp_path), lambda _: None, None)
    run.ends = ends

    seen = [event for _, event in watched(run).select_events(DriverExited)]
    assert [(event.start, event.code) for event in seen] == exits


class Stubborn(Twice):
    """The end of its first driver cannot be brought about."""

    ended: tuple[str, ...] = ()

    def end_driver(self, driver: str) -> int:
        self.ended = (*self.ended, driver)
        if driver == "driver 0":
            raise RuntimeError("no answer")
        return -9

    def driver_ended(self, driver: str) -> None:
        raise AssertionError(driver)  # the cluster may be gone: what asks it would wait for ever


def test_both_drivers_are_ended_even_if_the_end_of_one_fails(tmp_path: Path) -> None:
    run = Stubborn(Story().plan(), made(tmp_path), lambda _: None, None)
    run.ends = (None, None)

    with pytest.raises(RuntimeError, match="no answer"):
        run.watch()

    assert run.ended == ("driver 0", "driver 1")
    seen = [event for _, event in over(run).select_events(DriverExited)]
    assert [event.start for event in seen] == [1]
