"""A go that the data can take back cannot be told."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chaos.extensions.preflight.answer import answer_question
from chaos.extensions.preflight.forecast import Effort, build_forecast
from chaos.extensions.preflight.market import Exponential, Market, Replay, find_preset
from chaos.extensions.preflight.question import Question, change_question
from chaos.extensions.preflight.trace import count_losses, resample_trace
from chaos.extensions.preflight.verdict import find_doubt
from tests.extensions.preflight.drawn import drawn
from tests.extensions.preflight.questions import sound_question

FEW = Effort(runs=200, jobs=1)


def on(market: str, **values: object) -> Question:
    places = {name.replace("__", "."): value for name, value in values.items()}
    named = {"market": find_preset(market).model_dump(mode="json")}
    return change_question(sound_question(), {**named, **places})


def test_a_go_with_changes_is_taken_back_by_a_worse_market_too() -> None:
    asked = on("calm-500h", settings__max_failures=0, goal__deadline_h=13.0, job__steps=40_000)
    doubtful = change_question(asked, {"market.doubt": {"losses": 40.0, "away": 10.0}})

    assert answer_question(asked, FEW).word == "go with changes"
    found = answer_question(doubtful, FEW)
    assert (found.word, found.exit_code) == ("cannot tell", 2)
    assert "worse end of what the trace allows" in found.why


def test_retries_are_set_to_what_the_worse_market_needs() -> None:
    asked = on("unannounced-16h", settings__max_failures=0, goal__deadline_h=None, job__steps=4000)
    doubtful = change_question(asked, {"market.doubt": {"losses": 2.0}})

    sure, safe = (
        answer_question(one, FEW).changes["settings.max_failures"] for one in (asked, doubtful)
    )
    assert safe > sure
    assert answer_question(doubtful, FEW).word == "go with changes"


def repeated(losses: int, every_h: float, *, missing: float = 0.125) -> Market:
    """Return a trace in which that share is lost for a minute, every so often."""
    at_s, up = [0.0], [1.0]
    for n in range(losses):
        at_s += [(n + 0.5) * every_h * 3600, (n + 0.5) * every_h * 3600 + 60]
        up += [1 - missing, 1.0]
    replay = Replay(at_s=tuple(at_s), up=tuple(up), span_s=losses * every_h * 3600)
    return Market(name="repeated", replay=replay)


def asked_of(market: Market, **values: object) -> Question:
    places = {"job.steps": 10_000, "goal.deadline_h": None, **values}
    return change_question(sound_question(), {"market": market.model_dump(mode="json"), **places})


def test_a_long_trace_that_is_repeated_may_be_a_go() -> None:
    assert answer_question(asked_of(repeated(20, 1.0)), FEW).word == "go"


@pytest.mark.parametrize(
    ("market", "reason"),
    [
        (repeated(9, 100.0), "only 9 losses in the 900.0 h that are repeated"),
        (repeated(12, 0.1), "the trace shows 72.0 min and the training takes"),
    ],
)
def test_a_go_on_too_little_of_a_trace_cannot_be_told(market: Market, reason: str) -> None:
    found = answer_question(asked_of(market), FEW)

    assert (found.word, found.exit_code) == ("cannot tell", 2)
    assert reason in found.why


def test_a_go_that_hangs_on_the_order_of_a_trace_cannot_be_told() -> None:
    # Losses come in one bad hour of ten: which share of jobs meets it is open.
    effort, bad = (
        Effort(runs=1000, jobs=1),
        [(3600 + 120.0 * n, 120.0 * n + 3660) for n in range(25)],
    )
    at_s = (0.0, *(moment for pair in bad for moment in pair))
    up = (1.0, *(0.5, 1.0) * len(bad))
    market = Market(replay=Replay(at_s=at_s, up=up, span_s=36_000.0))
    asked = asked_of(
        market, **{"job.steps": 2_000, "goal.deadline_h": 1.0, "goal.confidence": 0.85}
    )
    seen = build_forecast(asked, effort.simulate(asked))

    assert seen.meets["deadline"].low > 0.85
    said = find_doubt(asked, seen, effort)
    assert said is not None
    assert "traces drawn anew out of pieces of this one" in said


def test_pieces_of_a_trace_join_where_as_many_nodes_are_up() -> None:
    made = Market(lifetime=Exponential(mtbf_h=8), away_h=0.1)
    replay = drawn(made, nodes=8, hours=20).replay()
    rng = np.random.Generator(np.random.PCG64(0))

    others = [resample_trace(replay, rng) for _ in range(60)]

    assert all(one.span_s == replay.span_s for one in others)
    assert {share for one in others for share in one.up} <= set(replay.up)
    counts = [count_losses(one) for one in others]
    assert np.mean(counts) == pytest.approx(count_losses(replay), rel=0.15)
    assert np.std(counts) == pytest.approx(count_losses(replay) ** 0.5, rel=0.5)  # as Poisson's


# Four quarters of its length, added up, end just before it.
ENDS_BETWEEN_TWO_FLOATS = [
    *[(0.0, 0), (1.75, 1), (0.0, 0), (0.0, 1), (1405.0, 0), (1950.25, 1), (1950.75, 0)],
    *[(2562.5, 1), (3172.5, 0), (3420.0, 2), (0.0, 0), (3553.25, 1), (3.5, 0), (3573.75, 1)],
    *[(483.5502585230819, 0), (902.5, 0), (3599.5625, 1), (3599.0, 0), (3600.0, 1), (3600.0, 0)],
]


@example(ENDS_BETWEEN_TWO_FLOATS, 3599.688454136301, 0)
@given(
    st.lists(st.tuples(st.floats(0, 3600), st.integers(0, 4)), min_size=1, max_size=30),
    st.floats(0, 3600),
    st.integers(0, 1000),
)
def test_whatever_a_trace_is_like_one_of_its_length_is_drawn(
    rows: list[tuple[float, int]], rest_s: float, seed: int
) -> None:
    at_s = (0.0, *np.cumsum([after_s for after_s, _ in rows]).tolist())
    up = (1.0, *(count / 4 for _, count in rows))
    replay = Replay(at_s=at_s, up=up, span_s=at_s[-1] + rest_s + 1)

    other = resample_trace(replay, np.random.Generator(np.random.PCG64(seed)))

    assert other.span_s == replay.span_s
    assert other.at_s[0] == 0
    assert list(other.at_s) == sorted(other.at_s)
    assert other.at_s[-1] < other.span_s
    assert set(other.up) <= set(up)


def test_a_trace_in_which_nothing_changes_is_drawn_as_it_is() -> None:
    rng = np.random.Generator(np.random.PCG64(0))

    other = resample_trace(Replay(at_s=(0.0, 5.0), up=(0.5, 0.5), span_s=10.0), rng)

    assert set(other.up) == {0.5}
