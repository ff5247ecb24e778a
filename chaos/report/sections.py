"""A verdict in words, cut to a length: every report of a run lays out these sections."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.check.code_lines import describe_save_contents
from chaos.check.diagnosis import EFFECTS
from chaos.model.diagnosis import Part, Resume
from chaos.model.diagnosis import Standing as PartStanding
from chaos.model.launcher import DEFAULT_LAUNCHER, LAUNCHER_FACTS, Launcher
from chaos.model.verdict import (
    RESULT_WORDS,
    Anomaly,
    CheckResult,
    ComparedResult,
    JobLine,
    Verdict,
)
from chaos.report.outcome import ScenarioRuns
from chaos.report.parts import ReportLine
from chaos.wording import describe_omitted, describe_ranks, format_sentence, plural

AS_ABOVE = "as said above"


@dataclass(frozen=True)
class ListLimits:
    """The most of each list that a report has; None: all of it."""

    #: Broken promises of one check.
    anomalies: int | None = None
    #: Events that show one of them.
    events: int | None = None
    #: Parts of the state that one resume did not restore.
    state_parts: int | None = None
    #: Whether it has the notes, which a suite has once for all its runs.
    notes: bool = True


@dataclass(frozen=True)
class ReportSection:
    """Lines under one title; the first, of what the checks found, has none."""

    title: str
    lines: tuple[ReportLine, ...]


def build_sections(
    verdict: Verdict, brevity: ListLimits = ListLimits()
) -> tuple[ReportSection, ...]:
    """Return what the checks found, and the state that each resume lost; empty ones are left out.

    The headline, which stands above them in every report, is not repeated.
    """
    notes = [ReportLine("calm", "note", note) for note in verdict.notes if brevity.notes]
    if verdict.status == "pass" and brevity.notes:
        notes = [*_list_results(verdict.compared), *notes]
    findings = (
        *list_broken_promises(verdict, brevity, shown_text=verdict.headline),
        *_list_inconclusive(verdict),
        *notes,
    )
    state_sections = (
        _build_resume_section(resume, brevity.state_parts) for resume in verdict.diagnosis
    )
    code_section = ReportSection("in the job's code", tuple(list_code_lines(verdict.lines)))
    return tuple(
        section
        for section in (ReportSection("", findings), *state_sections, code_section)
        if section.lines
    )


def _list_results(compared: Sequence[ComparedResult]) -> Iterator[ReportLine]:
    """Yield which results of a right run were the baseline's, and which were not compared."""
    equal_names = [RESULT_WORDS[result.name] for result in compared if result.status == "equal"]
    if not equal_names:
        return
    yield ReportLine("calm", "equal", ", ".join(equal_names))
    uncompared_names = [
        RESULT_WORDS[other_result.name]
        for other_result in compared
        if other_result.status == "not compared"
    ]
    if uncompared_names:
        yield ReportLine("calm", "not compared", ", ".join(uncompared_names))
    for result in compared:
        if result.left_out:
            names = ", ".join(result.left_out)
            text = f"{RESULT_WORDS[result.name]}: two clean runs differ in {names}"
            yield ReportLine("calm", "not compared", text)


def list_code_lines(lines: Sequence[JobLine]) -> Iterator[ReportLine]:
    """Yield lines of the job's code, and what belongs in them."""
    yield from (ReportLine("calm", line.role, str(line)) for line in lines)
    if text := describe_save_contents(lines):
        yield ReportLine("calm", "due", text)


def list_broken_promises(
    verdict: Verdict, brevity: ListLimits, *, shown_text: str
) -> tuple[ReportLine, ...]:
    """Return the broken promises, check by check; no message in `shown_text` is repeated."""
    return tuple(
        line
        for result in verdict.broken
        for line in _cut_lines(
            [
                ReportLine(
                    "bad",
                    result.check,
                    _replace_repeated(anomaly.message, shown_text),
                    _describe_events(anomaly, brevity),
                )
                for anomaly in _find_anomalies(result)
            ],
            brevity.anomalies,
            result.check,
        )
    )


def describe_finding(verdict: Verdict) -> str:
    """Return the finding on one line: its check and its message."""
    for first_result in (*verdict.broken, *verdict.undecided):
        return (
            f"{describe_verdict(verdict)}, {first_result.check}: "
            f"{_find_anomalies(first_result)[0].message}"
        )
    return f"{describe_verdict(verdict)}: {verdict.headline}"


def list_next_steps(directory: str, verdict: Verdict | None = None) -> tuple[tuple[str, str], ...]:
    """Return the ways on from a run in this folder: its page, and the commands that run it again.

    One of them looks for the cause, where no check has named it.
    """
    next_steps = ("report", f"{directory}/report.html"), ("replay", build_replay_command(directory))
    if verdict is None or not is_unexplained(verdict):
        return next_steps
    return *next_steps, ("explain", f"chaos explain {shlex.quote(directory)}")


def is_unexplained(verdict: Verdict) -> bool:
    """Return whether training came out otherwise, and no check names the cause."""
    return any(result.check in EFFECTS for result in verdict.broken[:1])


def build_replay_command(directory: str) -> str:
    """Return the command that repeats a run."""
    return f"chaos replay {shlex.quote(directory)}"


def _find_anomalies(result: CheckResult) -> tuple[Anomaly, ...]:
    return result.anomalies or (Anomaly(message=result.summary),)


def _describe_events(anomaly: Anomaly, brevity: ListLimits) -> str:
    """Return the events of an anomaly in words, the first of them if there are many."""
    shown_events = anomaly.events[: brevity.events]
    if not shown_events:
        return ""
    ellipsis = ", …" if len(shown_events) < len(anomaly.events) else ""
    noun = "event" if len(anomaly.events) == 1 else "events"
    return f"{noun} {', '.join(map(str, shown_events))}{ellipsis}"


def _list_inconclusive(verdict: Verdict) -> Iterator[ReportLine]:
    """Yield the inconclusive checks, those of one reason together: many lack the same restart."""
    reasons: dict[str, list[str]] = {}
    for result in verdict.undecided:
        reasons.setdefault(result.summary, []).append(result.check)
    for reason, checks in reasons.items():
        text = f"{', '.join(checks)}: {_replace_repeated(reason, verdict.headline)}"
        yield ReportLine("open", "inconclusive", text)


def _build_resume_section(resume: Resume, max_lines: int | None) -> ReportSection:
    """Return the parts of the state that a resume lost, with a consequence."""
    lines = [
        ReportLine("bad", row.component, f"{row.standing} {row.difference_text}")
        for row in build_part_rows(resume)
        if row.tone == "bad"
    ]
    title = f"not restored in attempt {resume.attempt}, at {_describe_place(resume)}"
    return ReportSection(title, _cut_lines(lines, max_lines))


def _describe_place(resume: Resume) -> str:
    return f"epoch {resume.epoch}" + (f", step {resume.step}" if resume.step else "")


def _replace_repeated(text: str, shown_text: str) -> str:
    return AS_ABOVE if text.lower() in shown_text.lower() else text


def _cut_lines(
    lines: Sequence[ReportLine], max_lines: int | None, label: str = ""
) -> tuple[ReportLine, ...]:
    """Return the first lines, and one that counts the others."""
    shown_lines = tuple(lines[:max_lines])
    hidden_count = len(lines) - len(shown_lines)
    return (
        (*shown_lines, ReportLine("bad", label, describe_omitted(hidden_count)))
        if hidden_count
        else shown_lines
    )


def describe_verdict(verdict: Verdict, *, brief: bool = False) -> str:
    """Return the verdict for display: its word, and whether it was expected."""
    if verdict.is_news:
        return f"{verdict.status}: fixed?"
    if verdict.status != "pass":
        expected = "expected" if brief else "as the scenario expects"
        return f"{verdict.status}, {expected}" if verdict.as_expected else verdict.status
    if verdict.as_expected:
        return "pass" if verdict.restarts.resumed else "pass, no resume"
    return "pass, unexpected" if brief else "pass, against the scenario's expectation"


def describe_suite(groups: Sequence[ScenarioRuns]) -> str:
    """Return the outcome of a suite: how many scenarios are as expected, skipped, and flaky."""
    counts = Counter(runs.worst_row.standing for runs in groups)
    judged_count, expected_count = len(groups) - counts["skipped"], counts["expected"]
    if not judged_count:
        return "every scenario was skipped" if groups else "no scenario was run"
    unexpected_text = f"{judged_count - expected_count} of {plural(judged_count, 'scenario')} not"
    other_counts = {"skipped": counts["skipped"], "flaky": sum(runs.is_flaky for runs in groups)}
    counts_text = "".join(f", {count} {word}" for word, count in other_counts.items() if count)
    return (
        f"{'every scenario' if expected_count == judged_count else unexpected_text} as "
        f"expected{counts_text}"
    )


# The look of a standing; a difference without consequence is shown, but not in red.
_TONES: dict[PartStanding, str] = {
    "restored": "good",
    "reset": "bad",
    "not restored": "bad",
    "different": "bad",
    "not compared": "open",
}


@dataclass(frozen=True)
class PartRow:
    """One part of the state, as it was on some ranks."""

    component: str
    standing: str
    tone: str
    #: the ranks, in words
    who: str
    ours: str
    baseline: str

    @property
    def difference_text(self) -> str:
        """The ranks, and the two values if both are known."""
        values_text = (
            f": {self.ours} instead of {self.baseline}" if self.ours and self.baseline else ""
        )
        return f"({self.who}){values_text}"


@dataclass(frozen=True)
class ResumeTable:
    """One resume: a title, a sentence, and its parts."""

    title: str
    sentence: str
    tone: str
    word: str
    rows: tuple[PartRow, ...]


def build_resume_table(resume: Resume, launcher: Launcher = DEFAULT_LAUNCHER) -> ResumeTable:
    """Return the table of one resume; not each launcher hands an attempt a checkpoint, or none."""
    absence_text = LAUNCHER_FACTS[launcher].words.without_save
    start = f" with {resume.checkpoint}" if resume.checkpoint else absence_text
    grounds_text = f": {resume.grounds}" if resume.grounds else ""
    is_known = any(part.standing != "not compared" for part in resume.parts)
    tone, word = ("good", "sound") if is_known else ("open", "unknown")
    if not resume.sound:
        tone, word = "bad", "broken"
    return ResumeTable(
        title=f"Attempt {resume.attempt} resumed at {_describe_place(resume)}{start}{grounds_text}",
        sentence=format_sentence(resume.sentence),
        tone=tone,
        word=word,
        rows=build_part_rows(resume),
    )


def build_part_rows(resume: Resume) -> tuple[PartRow, ...]:
    """Return the parts of one resume, in the order of its diagnosis; equal ranks share a row."""
    all_ranks = {part.rank for part in resume.parts}
    ranks_by_part: dict[Part, list[int]] = {}
    for part in resume.parts:
        ranks_by_part.setdefault(_normalize_part(part), []).append(part.rank)
    return tuple(
        PartRow(
            component=part.component,
            standing=part.standing if part.matters else f"{part.standing}, no consequence seen",
            tone=_TONES[part.standing] if part.matters else "open",
            who="all ranks"
            if set(row_ranks) == all_ranks and len(row_ranks) > 1
            else describe_ranks(row_ranks),
            ours=part.ours,
            baseline=part.baseline,
        )
        for part, row_ranks in ranks_by_part.items()
    )


def _normalize_part(part: Part) -> Part:
    """Return what ranks share that have a row together; norms of restored shards may differ."""
    has_same_look = part.standing in ("restored", "not compared")
    values = {"ours": "", "baseline": ""} if has_same_look else {}
    return part.model_copy(update={"rank": 0, **values})
