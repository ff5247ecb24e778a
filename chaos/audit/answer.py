"""The answer of an audit, and the reasons why it is no pass: rows, of which the first ones decide.

Pass is a promise: in every group that the job has, a restart resumed from a checkpoint, and the job
reached the same result. If a group was not tried, or a defect could not have been seen, the answer
is no pass.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias, get_args

from chaos.audit.run_row import RunRow
from chaos.audit.site_category import CATEGORY_ORDERS
from chaos.model.expect import Acceptable
from chaos.wording import join_names, plural

if TYPE_CHECKING:
    from chaos.audit.card import Card

Word: TypeAlias = Literal["pass", "fail", "inconclusive"]
ACCEPTABLE: tuple[Acceptable, ...] = get_args(Acceptable)
WORDS: tuple[Word, ...] = ("pass", "fail", "inconclusive")  # by exit code
REASONS_SHOWN = 2
GROUPS_SHOWN = 3
RESUMES_MIN = 3  # an early, a middle and a late one, if it is unknown which places are late


class AuditAnswer(NamedTuple):
    """The answer in a word, and its evidence."""

    word: Word
    evidence: str


def find_answer(card: "Card") -> AuditAnswer:
    """Return the answer of an audit: what its runs show, after what its settings do."""
    runs_answer = next(answer for rule in ANSWERS if (answer := rule(card)) is not None)
    retries = card.retries
    if not retries.is_finding:
        return runs_answer
    prefix = "with retries: " if retries.source == "nothing" else ""
    runs_text = f"{prefix}{runs_answer.word}: {runs_answer.evidence}"
    return AuditAnswer("fail", f"{retries.sentence}; {runs_text}")


def _answer_fail(card: "Card") -> AuditAnswer | None:
    if not card.broken:
        return None
    causes = "one cause" if len(card.findings) == 1 else f"{len(card.findings)} causes"
    grave = f", {card.severity}" if card.severity else ""
    return AuditAnswer("fail", f"{_describe_places(card, card.wrong)}: {causes}{grave}")


def _answer_inconclusive(card: "Card") -> AuditAnswer | None:
    reasons = card.reasons
    return AuditAnswer("inconclusive", "; ".join(reasons[:REASONS_SHOWN])) if reasons else None


def _answer_pass(card: "Card") -> AuditAnswer:
    return AuditAnswer("pass", f"{describe_coverage(card)}{_describe_conditions(card)}")


#: The answers that the runs can give. The first that holds is theirs.
ANSWERS: tuple[Callable[["Card"], AuditAnswer | None], ...] = (
    _answer_fail,
    _answer_inconclusive,
    _answer_pass,
)


# -- the reasons ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReasonRule:
    """One kind of reasons why the answer is no pass."""

    explain: Callable[["Card"], Iterator[str]]
    #: where there is such a reason, the rules after it have nothing to go by
    is_final: bool = False


def find_reasons(card: "Card") -> Iterator[str]:
    """Yield the reasons why the answer is not pass although nothing wrong was found."""
    for rule in REASON_RULES:
        reasons = [*rule.explain(card)]
        yield from reasons
        if reasons and rule.is_final:
            return


def _explain_interruption(card: "Card") -> Iterator[str]:
    if card.ended == "interrupted":
        yield "the audit was interrupted"


def _explain_clock(card: "Card") -> Iterator[str]:
    if card.repetition.reports_apart is not None and not card.repetition.is_by_steps:
        yield (
            "the job reports or saves at other steps from run to run, as one that saves by the "
            f"clock ({card.repetition.reports_apart}), so that no restart can be compared with a "
            "clean run"
        )


def _explain_unknown_retries(card: "Card") -> Iterator[str]:
    if card.retries.source == "unknown":
        yield "one fault under the job's own retries did not show whether it restarts"


def _explain_missing_runs(card: "Card") -> Iterator[str]:
    if not card.runs:
        yield f"no fault was injected{_describe_cut(card)}, so nothing is known"


def _explain_unjudged(card: "Card") -> Iterator[str]:
    # A run of several places may have gone wrong before the last of its faults was due.
    undecided_runs = [run for run in card.inconclusive if run.has_all_faults or run.is_combined]
    if undecided_runs:
        yield (
            f"{_describe_places(card, undecided_runs)} could not be judged: "
            f"{undecided_runs[0].headline.rstrip('.')}"
        )


def _explain_changes(card: "Card") -> Iterator[str]:
    """Yield a reason for what failed in the last audit, and is not known to be mended."""
    changes = card.since
    if changes is None:
        return
    if changes.untold:
        failed = plural(len(changes.untold), "place")
        yield f"{failed} that failed in {changes.folder} came to no answer"
    if changes.is_unexplained:
        yield (
            f"{plural(len(changes.mended), 'place')} that failed in {changes.folder} came out "
            "right, "
            "and nothing that chaos sees has changed since: a race, or a change outside of the "
            "job's code; an audit without --continue judges the job as it is"
        )


def _explain_recoveries(card: "Card") -> Iterator[str]:
    """Yield the reason that lines of the job recover from an exception, which no fault raised."""
    if card.recoveries:
        verb = "go" if len(card.recoveries) > 1 else "goes"
        yield (
            f"{join_names(card.recoveries)} {verb} on after an exception in training: not "
            "tried (after "
            f"kills: {describe_coverage(card)})"
        )


def _describe_missing_resume(card: "Card") -> str:
    if card.job.saved == 0 and not card.job.keeps_files:
        return "the job saves no checkpoint, so every restart began anew"
    if card.keeps_nothing:
        return (
            "the job keeps no checkpoint: what it saves was gone at every restart, each of which "
            "began anew"
        )
    if any(row.resumes and row.chosen for row in card.covered):
        return "no restart went on from a checkpoint"
    return "no restart had a checkpoint to go on from"


def _explain_missing_resumes(card: "Card") -> Iterator[str]:
    if card.resumed == 0:
        yield _describe_missing_resume(card)


def _explain_few_resumes(card: "Card") -> Iterator[str]:
    if card.repetition.is_by_steps and 0 < card.resumed_right < RESUMES_MIN:
        verb = card.job.facts.words.save_action
        yield (
            f"the job {verb}s by the clock, and between its few {verb}s only "
            f"{plural(card.resumed_right, 'restart')} went on from a checkpoint; have it {verb} "
            "more often, or train longer, by its own arguments"
        )


def _explain_omissions(card: "Card") -> Iterator[str]:
    """Yield a reason if groups of the question were not asked for: a pass would be of a part."""
    omitted_groups = [
        row.group
        for row in card.covered
        if row.places and not row.chosen and row.group in CATEGORY_ORDERS[card.question]
    ]
    if omitted_groups:
        yield f"{_build_subject(omitted_groups)} left out by --places"


def _explain_untried_groups(card: "Card") -> Iterator[str]:
    tried_groups = card.tried_groups
    untried_groups = [
        row.group for row in card.covered if row.chosen and row.group not in tried_groups
    ]
    if untried_groups:
        yield f"{_build_subject(untried_groups)} not tried{_describe_cut(card)}"


def _explain_untried_operations(card: "Card") -> Iterator[str]:
    untried_steps = [step.name for step in card.save_steps if not step.tried]
    if 0 < len(untried_steps) < len(card.save_steps):
        subject = (
            f"{plural(len(untried_steps), 'operation')} of a save "
            f"{'was' if len(untried_steps) == 1 else 'were'}"
        )
        yield f"{subject} not tried{_describe_cut(card)}"


def _explain_groups_from_scratch(card: "Card") -> Iterator[str]:
    # A save that ends training leaves nothing to go on with: none of its restarts can resume.
    resumed_groups = {
        run.group for run in card.runs if run.is_right and (run.resumed or run.had_nothing_left)
    }
    scratch_groups = [
        row.group
        for row in card.covered
        if row.chosen
        and row.resumes
        and row.group in card.tried_groups
        and row.group not in resumed_groups
    ]
    if card.resumed and scratch_groups:
        yield f"no restart went on from a checkpoint in: {_quote_groups(scratch_groups)}"


def _explain_missing_parts(card: "Card") -> Iterator[str]:
    if card.resumed and card.missing_parts:
        yield f"no restart went on from {' or '.join(card.missing_parts)} checkpoint"


def _explain_blindness(card: "Card") -> Iterator[str]:
    """Yield a reason for each kind of defect that could not have been seen."""
    if not card.job.sees:
        yield (
            "no loss, no state and no metric but a counter was seen, so that nothing was compared"
        )
    if card.repetition.hides_much and not card.has_tolerance:
        hidden_part = card.repetition.hidden_part
        amount = "" if hidden_part is None else f" by less than {100 * hidden_part:.2g} %"
        consequence = f"a defect that moves a loss{amount} is not seen"
        if hidden_part is not None and hidden_part > 1:
            consequence = "losses cannot be compared"
        yield f"the job does not repeat itself without a fault, so that {consequence}"
    if card.hashes_apart is not None:
        yield (
            f"with another hash seed the job trains on other data ({card.hashes_apart}), and all "
            "processes of an audit share one"
        )


#: In the order in which the reasons are given: a card shows the first `REASONS_SHOWN`.
REASON_RULES: tuple[ReasonRule, ...] = (
    ReasonRule(_explain_interruption),
    ReasonRule(_explain_clock, is_final=True),
    ReasonRule(_explain_unknown_retries),
    ReasonRule(_explain_missing_runs, is_final=True),
    ReasonRule(_explain_unjudged),
    ReasonRule(_explain_changes),
    ReasonRule(_explain_recoveries),
    ReasonRule(_explain_missing_resumes),
    ReasonRule(_explain_few_resumes),
    ReasonRule(_explain_omissions),
    ReasonRule(_explain_untried_groups),
    ReasonRule(_explain_untried_operations),
    ReasonRule(_explain_groups_from_scratch),
    ReasonRule(_explain_missing_parts),
    ReasonRule(_explain_blindness),
)


# -- in words ----------------------------------------------------------------------------------


def describe_coverage(card: "Card") -> str:
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


def describe_confidence(card: "Card") -> str | None:
    """Return the claim that resumes without a failure prove; None if one failed, or none was tried.

    If n of n are right, a share of failures above 1 - 0.05 ** (1 / n) is ruled out with 95 %
    confidence.
    """
    if card.broken or not card.resumed_right:
        return None
    failure_share = 1 - 0.05 ** (1 / card.resumed_right)
    resumes = plural(card.resumed_right, "resume")
    return (
        f"no failure in {resumes}: up to {100 * failure_share:.0f} % of resumes could fail (95 % "
        "confidence)"
    )


def _describe_places(card: "Card", runs: Sequence[RunRow]) -> str:
    """Return in words the number of those places, and of those runs of several places."""
    combined = sum(run.is_combined for run in runs)
    places = plural(sum(not run.is_combined for run in card.runs), "place")
    words = f"{len(runs) - combined} of {places}"
    combined_runs = plural(combined, "run")
    return f"{words} and {combined_runs} of several places" if combined else words


def _describe_conditions(card: "Card") -> str:
    """Return the conditions that a pass depends on, such as retries that the audit added."""
    accepted_runs = [run for run in card.runs if run.accepted]
    conditions = ""
    if accepted_runs:
        words = " and ".join(word for word in ACCEPTABLE if word in card.accept)
        options = [f"`--accept {words}`"] if words else []
        options += ["`--sampling resampled`"] if card.sampling == "resampled" else []
        accepted_defects = [defect for run in accepted_runs for defect in run.accepted]
        kinds = dict.fromkeys(d.kind for d in accepted_defects if d.accepted_reasons)
        options += [f"`--accept {kind}`" for kind in kinds]
        verb = "allows" if len(options) == 1 else "allow"
        places = plural(len(accepted_runs), "place")
        conditions = f"; not the same at {places}, which {' and '.join(options)} {verb}"
    gave_notice = any(op.fault.is_announced for run in card.runs for op in run.ops)
    if card.job.own_preemptions == 0 and gave_notice and card.retries.source != "script":
        retry_condition = (
            "given the retries that its own `max_preemption_failures: 0` does not allow"
        )
        return f"{conditions}; {retry_condition}"
    return conditions


def _describe_cut(card: "Card") -> str:
    if card.ended != "budget":
        return ""
    return f" ({card.limit} ended the audit)" if card.limit else " (the time limit was reached)"


def _build_subject(groups: Sequence[str]) -> str:
    return f"{_quote_groups(groups)} {'was' if len(groups) == 1 else 'were'}"


def _quote_groups(groups: Sequence[str]) -> str:
    quotes = [f"'{group}'" for group in groups[:GROUPS_SHOWN]]
    other_count = len(groups) - len(quotes)
    return ", ".join(quotes) + (f" and {plural(other_count, 'other group')}" if other_count else "")
