"""The files by which processes agree on storage faults."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from chaos.faults.world import Target
from chaos.launch.world import RunWorld
from chaos.run.armed_faults import ArmedFaults, HiddenFolder

VICTIM = Target(attempt=0, rank=1, pid=7, node_id="n", op=3)


class ByHand:
    """A clock on which nothing passes by itself; each sleep does the next thing."""

    def __init__(self, *acts: object) -> None:
        self.acts = list(acts)

    def now_ns(self) -> int:
        return 0

    def wall_ns(self) -> int:
        return 0

    def sleep(self, seconds: float) -> None:
        act = self.acts.pop(0)
        assert callable(act)
        act()


def test_an_op_is_armed_for_one_rank_and_only_once_it_is(tmp_path: Path) -> None:
    armed = ArmedFaults(tmp_path / "storage-faults")
    assert armed.find_armed_rank(3) is None

    RunWorld(ByHand(), armed).arm_storage(VICTIM)

    assert armed.find_armed_rank(3) == 1
    assert armed.find_armed_rank(4) is None


def test_turns_are_taken_once_each_by_whoever_comes(tmp_path: Path) -> None:
    one, other = ArmedFaults(tmp_path), ArmedFaults(tmp_path)

    assert [faults.claim(3, times=2) for faults in (one, other, one)] == [True, True, False]
    assert one.claim(4, times=1)


def test_the_first_effect_stands(tmp_path: Path) -> None:
    armed = ArmedFaults(tmp_path)
    armed.record_effect(3, "first")
    armed.record_effect(3, "second")

    assert armed.find_effect(3) == "first"
    assert armed.find_effect(4) is None


def test_a_strike_waits_for_the_effect(tmp_path: Path) -> None:
    armed = ArmedFaults(tmp_path)
    clock = ByHand(lambda: None, lambda: armed.record_effect(3, "raised"))

    assert RunWorld(clock, armed).await_storage(VICTIM) == "raised"


def test_a_strike_waits_no_longer_than_the_run(tmp_path: Path) -> None:
    clock = ByHand()
    world = RunWorld(clock, ArmedFaults(tmp_path))
    clock.acts.append(world.end)

    assert world.await_storage(VICTIM) is None


def test_what_nobody_looked_for_is_hidden_for_as_long_as_it_takes() -> None:
    assert HiddenFolder(0, "/b/c").covers("/b/c/f", 10**18)


@given(st.integers(0, 100), st.integers(0, 100))
def test_what_was_looked_for_is_hidden_until_its_time(until: int, now: int) -> None:
    hidden = HiddenFolder(0, "/b/c", until)

    assert hidden.covers("b/c/d/f", now) is (now < until)
    assert not hidden.covers("/b/cd", now)
    assert not hidden.covers("/b", now)
