"""The words of a line: a letter or its name, a rank, and what belongs to it."""

import pytest

from chaos.check.judge import judge
from chaos.model import event as ev
from tests.check.shorthand import LETTERS, plan_of, told_in

LINES = (
    "g @model=7,rng=1/2 s:ab/cd r u c,n=3 s*2 s1! v:f w:f=3 m:f>g k:f>h x0 g<c0 q:g,h~ l:g/ .c0",
    "g s n:g +30 z X g s r c- d:c0 y left L:c0,c1~ t:a end:0 H",
    "ranks3 g e s i2 g e s w:f h:f>i r c .",
)


def is_name(word: str) -> bool:
    return len(word) > 1 and word[:2].isalpha()


def named_as(word: str) -> str:
    colon = ":" if word[1:2].isalpha() else ""
    return word if is_name(word) else LETTERS[word[0]] + colon + word[1:]


@pytest.mark.parametrize("line", LINES)
def test_a_name_is_its_letter(line: str) -> None:
    named = " ".join(map(named_as, line.split()))

    assert list(told_in(named)) == list(told_in(line))
    assert plan_of(named) == plan_of(line)


def test_every_letter_is_tried_by_name() -> None:
    assert {word[0] for word in " ".join(LINES).split() if not is_name(word)} >= {*LETTERS}


def test_a_value_of_the_last_rank_holds_for_those_after_it() -> None:
    loads = told_in("ranks3 g<c0/- @model=1/2 s .").select_events(ev.WorkerStarted)

    assert [(e.world_size, e.checkpoint) for _, e in loads] == [(3, "c0"), (3, None), (3, None)]


def test_a_rank_beyond_the_second_is_killed_and_comes_back() -> None:
    run = "ranks3 g s s r c s x2 g<c0 s s r c ."
    verdict = judge(plan_of(run), told_in(run), told_in("ranks3 g s s r c s s r c ."))

    assert verdict.restarts.resumed == 1
    assert not verdict.broken
