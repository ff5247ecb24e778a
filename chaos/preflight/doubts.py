"""Can a go be taken back by what a trace leaves open? Then it cannot be told."""

import numpy as np

from chaos.preflight.change import changed
from chaos.preflight.effort import Effort
from chaos.preflight.fit import FEW
from chaos.preflight.forecast import Forecast, forecast
from chaos.preflight.market import Market, Replay, at_worst
from chaos.preflight.question import Question
from chaos.preflight.resampling import losses_in, resampled
from chaos.preflight.simulate import simulate_each
from chaos.preflight.verdict import missed_goals, why_missed
from chaos.preflight.words import in_hours
from chaos.words import plural

TRACES = 40
MAY_MISS = 1  # of them: more than one in forty is beyond the worse end of a 95 % interval
_AT_ONCE, _RUNS = 8, 400


def doubt(question: Question, seen: Forecast, effort: Effort) -> str | None:
    """Return how the market's data can take a go of this question back; None where they cannot."""
    replay = question.market.replay
    if replay is not None:
        return _too_little(replay, seen) or _drawn_anew(question, replay, effort)
    worst = at_worst(question.market)
    return None if worst is None else _at_worst(question, worst, effort)


def _at_worst(question: Question, worst: Market, effort: Effort) -> str | None:
    """Return what is missed surely where the market is as bad as its trace allows."""
    other = changed(question, {"market": worst.model_dump(mode="json")})
    seen, need = forecast(other, effort.simulate(other)), question.goal.confidence
    missed = missed_goals(seen, need)
    if not missed:
        return None
    return (
        f"at the worse end of what the trace allows ({worst.mtbf_h:.2g} h per node) "
        f"{why_missed(seen, missed, need)}"
    )


def _too_little(replay: Replay, seen: Forecast) -> str | None:
    """Return where a trace is too short to be repeated for this job."""
    span_h, losses = replay.span_s / 3600, losses_in(replay)
    if losses < FEW:
        return (
            f"only {plural(losses, 'loss', 'losses')} in the {in_hours(span_h)} that are repeated "
            f"({FEW} at least): how often they come is not known; fitted, the trace says what it "
            "allows"
        )
    if seen.finish_h.middle > span_h:
        return (
            f"the trace shows {in_hours(span_h)} and the training takes "
            f"{in_hours(seen.finish_h.middle)}: every run meets the same losses over and over"
        )
    return None


def _drawn_anew(question: Question, replay: Replay, effort: Effort) -> str | None:
    """Return how many of the traces drawn out of this one miss a goal surely."""
    rng = np.random.Generator(np.random.PCG64(effort.seed))
    others = [_with(question, resampled(replay, rng)) for _ in range(TRACES)]
    need, missed, seen = question.goal.confidence, 0, 0
    for since in range(0, TRACES, _AT_ONCE):
        asked = others[since : since + _AT_ONCE]
        outcomes = simulate_each(asked, runs=_RUNS, seed=effort.seed, jobs=effort.jobs)
        forecasts = [forecast(*pair) for pair in zip(asked, outcomes, strict=True)]
        missed += sum(bool(missed_goals(one, need)) for one in forecasts)
        seen += len(asked)
        if missed > MAY_MISS:
            return f"of {seen} traces drawn anew out of pieces of this one {missed} miss a goal"
    return None


def _with(question: Question, replay: Replay) -> Question:
    return changed(question, {"market.replay": replay.model_dump(mode="json")})
