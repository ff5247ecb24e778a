"""The answer of an audit (pass, fail or inconclusive) and its reasons.

Pass is a promise: in every group that the job has, a restart resumed from a
checkpoint, and the job reached the same result. If a group was not tried, or a
defect could not have been seen, the answer is no pass.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from chaos.audit.group import ORDERS
from chaos.audit.run_row import RunRow
from chaos.model.scenario import Acceptable
from chaos.words import plural

if TYPE_CHECKING:
    from chaos.audit.card import Card

Word: TypeAlias = Literal["pass", "fail", "inconclusive"]
ACCEPTABLE: tuple[Acceptable, ...] = get_args(Acceptable)
WORDS: tuple[Word, ...] = ("pass", "fail", "inconclusive")  # by exit code
REASONS_SHOWN = 2
GROUPS_SHOWN = 3
RESUMES_MIN = 3  # an early, a middle and a late one, if it is unknown which places are late


def word(card: "Card") -> Word:
    """Return the answer as a word."""
    if card.broken or card.retries.is_finding:
        return "fail"
    return "inconclusive" if any(reasons(card)) else "pass"


def sentence(card: "Card") -> str:
    """Return the answer in a sentence, with its evidence."""
    if card.retries.is_finding:
        given = "with retries: " if card.retries.source == "nothing" else ""
        return f"fail: {card.retries.sentence}; {given}{_of_resumes(card)}"
    return _of_resumes(card)


def _of_resumes(card: "Card") -> str:
    """Return the answer of the runs with faults, as if no retries were missing."""
    if card.broken:
        causes = "one cause" if len(card.findings) == 1 else f"{len(card.findings)} causes"
        grave = f", {card.severity}" if card.severity else ""
        return f"fail: {_of_places(card, card.wrong)}: {causes}{grave}"
    if any(reasons(card)):
        return f"inconclusive: {'; '.join([*reasons(card)][:REASONS_SHOWN])}"
    return f"pass: {coverage(card)}{_but(card)}"


def coverage(card: "Card") -> str:
    """Return in words the number of right resumes, and of the places that were tried."""
    tried, places = card.places
    resumes = f"{card.resumed_right} of {plural(card.resumed, 'resume')} right"
    if not card.job.sees:
        resumes = f"{plural(card.resumed, 'resume')} and nothing compared"
    return f"{resumes}, {tried} of {plural(places, 'place')}"


def coverage_share(card: "Card") -> float:
    """Return the share of all places that was tried."""
    tried, places = card.places
    return tried / places if places else 0.0


def confidence(card: "Card") -> str | None:
    """Return the claim that resumes without a failure prove; None if one failed, or none was tried.

    If n of n are right, a share of failures above 1 - 0.05 ** (1 / n) is ruled out with 95 %
    confidence.
    """
    if card.broken or not card.resumed_right:
        return None
    most = 1 - 0.05 ** (1 / card.resumed_right)
    resumes = plural(card.resumed_right, "resume")
    return (
        f"no failure in {resumes}: up to {100 * most:.0f} % of resumes could fail (95 % confidence)"
    )


def reasons(card: "Card") -> Iterator[str]:
    """Yield the reasons why the answer is not pass although nothing wrong was found."""
    if card.ended == "interrupted":
        yield "the audit was interrupted"
    if card.repetition.reports_apart is not None and not card.repetition.is_by_steps:
        yield (
            "the job reports or saves at other steps from run to run, as one that saves by the "
            f"clock ({card.repetition.reports_apart}), so that no restart can be compared with a "
            "clean run"
        )
        return
    if card.retries.source == "unknown":
        yield "one fault under the job's own retries did not show whether it restarts"
    if not card.runs:
        yield f"no fault was injected{_why_cut(card)}, so nothing is known"
        return
    yield from _unjudged(card)
    yield from _restarts(card)
    yield from _blind(card)


def _unjudged(card: "Card") -> Iterator[str]:
    # A run of several places may have gone wrong before the last of its faults was due.
    untold = [run for run in card.inconclusive if run.happened or run.is_combined]
    if untold:
        yield f"{_of_places(card, untold)} could not be judged: {_short(untold[0].headline)}"


def _of_places(card: "Card", runs: Sequence[RunRow]) -> str:
    """Return in words the number of those places, and of those runs of several places."""
    combined = sum(run.is_combined for run in runs)
    places = plural(sum(not run.is_combined for run in card.runs), "place")
    words = f"{len(runs) - combined} of {places}"
    more = plural(combined, "run")
    return f"{words} and {more} of several places" if combined else words


def _restarts(card: "Card") -> Iterator[str]:
    """Yield a reason for each kind of restart that was due and missing."""
    if card.resumed == 0:
        if card.job.saved == 0 and not card.job.keeps_files:
            yield "the job saves no checkpoint, so every restart began anew"
        elif any(row.resumes and row.chosen for row in card.covered):
            yield "no restart went on from a checkpoint"
        else:
            yield "no restart had a checkpoint to go on from"
    if card.repetition.is_by_steps and 0 < card.resumed_right < RESUMES_MIN:
        does = card.job.facts.words.does
        yield (
            f"the job {does}s by the clock, and between its few {does}s only "
            f"{plural(card.resumed_right, 'restart')} went on from a checkpoint; have it {does} "
            "more often, or train longer, by its own arguments"
        )
    yield from _left_out(card)
    tried = {run.group for run in card.runs if run.happened}
    untried = [row.group for row in card.covered if row.chosen and row.group not in tried]
    if untried:
        was = "was" if len(untried) == 1 else "were"
        yield f"{_named(untried)} {was} not tried{_why_cut(card)}"
    resumed = {run.group for run in card.runs if run.resumed and run.is_right}
    scratch = [
        row.group
        for row in card.covered
        if row.chosen and row.resumes and row.group in tried and row.group not in resumed
    ]
    if card.resumed and scratch:
        yield f"no restart went on from a checkpoint in: {_named(scratch)}"
    if card.resumed and card.missing_parts:
        yield f"no restart went on from {' or '.join(card.missing_parts)} checkpoint"


def _left_out(card: "Card") -> Iterator[str]:
    """Yield a reason if groups of the question were not asked for: a pass would be of a part."""
    left_out = [
        row.group
        for row in card.covered
        if row.places and not row.chosen and row.group in ORDERS[card.question]
    ]
    if left_out:
        was = "was" if len(left_out) == 1 else "were"
        yield f"{_named(left_out)} {was} left out by --places"


def _blind(card: "Card") -> Iterator[str]:
    """Yield a reason for each kind of defect that could not have been seen."""
    if not card.job.sees:
        yield (
            "no loss, no state and no metric but a counter was seen, so that nothing was compared"
        )
    if card.repetition.hides_much and not card.has_tolerance:
        part = card.repetition.hidden_part
        by = "" if part is None else f" by less than {100 * part:.2g} %"
        yield (
            "the job does not repeat itself without a fault, so that a defect that moves a "
            f"loss{by} is not seen"
        )
    if card.hashes_apart is not None:
        yield (
            f"with another hash seed the job trains on other data ({card.hashes_apart}), and all "
            "processes of an audit share one"
        )


def _why_cut(card: "Card") -> str:
    if card.ended != "budget":
        return ""
    return f" ({card.limit} ended the audit)" if card.limit else " (the time limit was reached)"


def _named(groups: Sequence[str]) -> str:
    named = [f"'{group}'" for group in groups[:GROUPS_SHOWN]]
    more = len(groups) - len(named)
    return ", ".join(named) + (f" and {plural(more, 'other group')}" if more else "")


def _short(text: str) -> str:
    return text.rstrip(".")


def _but(card: "Card") -> str:
    """Return the conditions that a pass depends on, such as retries that the audit added."""
    accepted = [run for run in card.runs if run.accepted]
    told = ""
    if accepted:
        words = " and ".join(word for word in ACCEPTABLE if word in card.accept)
        by = [f"`--accept {words}`"] if words else []
        by += ["`--sampling resampled`"] if card.sampling == "resampled" else []
        allow = "allows" if len(by) == 1 else "allow"
        places = plural(len(accepted), "place")
        told = f"; not the same at {places}, which {' and '.join(by)} {allow}"
    if card.job.own_preemptions == 0 and _gave_notice(card.runs):
        rest = "given the retries that its own `max_preemption_failures: 0` does not allow"
        return f"{told}; {rest}"
    return told


def _gave_notice(runs: Sequence[RunRow]) -> bool:
    return any(op.fault.is_announced for run in runs for op in run.ops)
