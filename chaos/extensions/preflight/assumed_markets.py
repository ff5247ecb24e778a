"""The answer to a question without a market: those of three known markets, side by side."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from chaos.extensions.preflight.answer import Answer, accepts_changes, rank_answer
from chaos.extensions.preflight.forecast import Effort
from chaos.extensions.preflight.market import Market, find_preset
from chaos.extensions.preflight.question import Question, change_question
from chaos.extensions.preflight.rules.rule import RuleFinding
from chaos.wording import join_names

#: from one that hardly loses a node to one that loses each within hours
ASSUMED = ("calm-500h", "busy-16h", "hot-4h")


def list_assumed_markets(question: Question, values: Mapping[str, Any]) -> tuple[Market, ...]:
    """Return the markets that stand in for one that was not given, with the values that were."""
    questions = (question.replace(market=find_preset(name)) for name in ASSUMED)
    return tuple(change_question(item, values).market for item in questions)


def answer_on_markets(
    question: Question,
    markets: Sequence[Market],
    answer: Callable[[Question], Answer],
    effort: Effort,
) -> Answer:
    """Answer a question on each of these markets: what they agree on, or `cannot tell`."""
    answers = [answer(question.replace(market=market)) for market in markets]
    notes = tuple(dict.fromkeys(note for item in answers for note in item.notes))
    return replace(_combine_markets(answers, effort), notes=notes, markets=tuple(answers))


def _combine_markets(answers: Sequence[Answer], effort: Effort) -> Answer:
    """Return what holds on every market, without the figures and the advice of any one of them."""
    worst, best = min(answers, key=rank_answer), max(answers, key=rank_answer)
    chosen_answer = best if best.word == "no-go" else worst
    result = Answer(
        question=chosen_answer.question,
        effort=effort,
        word="cannot tell",
        why=(
            "no market was given (--market, --trace), and it decides: "
            f"{_list_words(answers, worst)}"
        ),
        findings=_find_shared_findings(answers, worst),
        ignored=worst.ignored,
    )
    if not _do_agree(answers, worst, effort):
        return result
    names = join_names([item.question.market.name for item in answers])
    return replace(
        result,
        word=chosen_answer.word,
        why=(
            f"no market was given (--market, --trace), and {names} agree. On "
            f"{chosen_answer.question.market.name}: {chosen_answer.why}"
        ),
        changes=chosen_answer.changes,
        after=chosen_answer.after,
        findings_after=_select_final_findings(chosen_answer, result.findings),
        would_take=chosen_answer.would_take,
    )


def _list_words(answers: Sequence[Answer], worst: Answer) -> str:
    """Return the verdicts on all markets; if all are the same, that the changes differ."""
    if len({item.word for item in answers}) == 1:
        names = join_names([item.question.market.name for item in answers])
        return (
            f"{worst.word} on {names}, but each takes other changes: those for "
            f"{worst.question.market.name} do not suffice on all"
        )
    return "; ".join(f"{item.word} on {item.question.market.name}" for item in answers)


def _do_agree(answers: Sequence[Answer], worst: Answer, effort: Effort) -> bool:
    """Return whether the answers are one: of changes, those for the worst market do on all."""
    words = {item.word for item in answers}
    return len(words) == 1 and all(
        accepts_changes(item, worst.changes, effort)
        for item in answers
        if item.word == "go with changes" and item is not worst
    )


def _find_shared_findings(answers: Sequence[Answer], worst: Answer) -> tuple[RuleFinding, ...]:
    """Return what rules find on every market; of one with other figures the worst market's.

    A setting that only costs time on one market may be right on another: such a finding stands only
    if it is the same on all.
    """
    found_rules = [{finding.rule for finding in item.findings} for item in answers]
    market_name = worst.question.market.name
    shared = []
    for finding in worst.findings:
        if all(finding in item.findings for item in answers):
            shared.append(finding)
        elif finding.weight == "stops" and all(finding.rule in rules for rules in found_rules):
            shared.append(replace(finding, text=f"{finding.text}, on {market_name}"))
    return tuple(shared)


def _select_final_findings(
    chosen_answer: Answer, shared_findings: Sequence[RuleFinding]
) -> tuple[RuleFinding, ...]:
    """Return what rules find with the changes, without what they find before on some markets."""
    shared_rules = {finding.rule for finding in shared_findings}
    own_rules = {finding.rule for finding in chosen_answer.findings} - shared_rules
    return tuple(
        finding
        for finding in chosen_answer.findings_after
        if finding.weight == "stops" or finding.rule not in own_rules
    )
