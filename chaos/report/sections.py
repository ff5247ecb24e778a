"""A verdict in words, cut to a length: every report of a run lays out these sections."""

import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.check.code_lines import belongs
from chaos.check.diagnosis import EFFECTS
from chaos.check.headline import as_sentence
from chaos.model.diagnosis import Part, Resume
from chaos.model.diagnosis import Standing as PartStanding
from chaos.model.launcher import FACTS, USUAL, Launcher
from chaos.model.verdict import (
    RESULT_WORDS,
    Anomaly,
    CheckResult,
    ComparedResult,
    JobLine,
    Verdict,
)
from chaos.report.outcome import ScenarioRuns, Tone
from chaos.words import and_more, plural, ranks

AS_ABOVE = "as said above"


@dataclass(frozen=True)
class Brevity:
    """The most of each list that a report has; None: all of it."""

    #: Broken promises of one check.
    anomalies: int | None = None
    #: Events that show one of them.
    events: int | None = None
    #: Parts of the state that one resume did not restore.
    parts: int | None = None
    #: Whether it has the notes, which a suite has once for all its runs.
    notes: bool = True


@dataclass(frozen=True)
class Line:
    """One thing to report, with its label: a check, a part of the state, or a word."""

    tone: Tone
    label: str
    text: str
    #: The events that show it, in words; may be empty.
    events: str = ""


@dataclass(frozen=True)
class Section:
    """Lines under one title; the first, of what the checks found, has none."""

    title: str
    lines: tuple[Line, ...]


def sections(verdict: Verdict, brevity: Brevity = Brevity()) -> tuple[Section, ...]:
    """Return what the checks found, and the state that each resume lost; empty ones are left out.

    The headline, which stands above them in every report, is not repeated.
    """
    notes = [Line("calm", "note", note) for note in verdict.notes if brevity.notes]
    if verdict.status == "pass" and brevity.notes:
        notes = [*_results(verdict.compared), *notes]
    found = (*broken(verdict, brevity, said=verdict.headline), *_open(verdict), *notes)
    state = (_not_restored(resume, brevity.parts) for resume in verdict.diagnosis)
    code = Section("in the job's code", tuple(code_of(verdict.lines)))
    return tuple(each for each in (Section("", found), *state, code) if each.lines)


def _results(compared: Sequence[ComparedResult]) -> Iterator[Line]:
    """Yield which results of a right run were the baseline's, and which were not compared."""
    equal = [RESULT_WORDS[result.name] for result in compared if result.status == "equal"]
    if not equal:
        return
    yield Line("calm", "equal", ", ".join(equal))
    uncompared = [RESULT_WORDS[r.name] for r in compared if r.status == "not compared"]
    if uncompared:
        yield Line("calm", "not compared", ", ".join(uncompared))
    for result in compared:
        if result.left_out:
            names = ", ".join(result.left_out)
            text = f"{RESULT_WORDS[result.name]}: two clean runs differ in {names}"
            yield Line("calm", "not compared", text)


def code_of(lines: Sequence[JobLine]) -> Iterator[Line]:
    """Yield lines of the job's code, and what belongs in them."""
    yield from (Line("calm", line.role, str(line)) for line in lines)
    if text := belongs(lines):
        yield Line("calm", "due", text)


def broken(verdict: Verdict, brevity: Brevity, *, said: str) -> tuple[Line, ...]:
    """Return the broken promises, check by check; a message that is in `said` is not repeated."""
    return tuple(
        line
        for result in verdict.broken
        for line in _cut(
            [
                Line("bad", result.check, _unsaid(found.message, said), _events(found, brevity))
                for found in _anomalies(result)
            ],
            brevity.anomalies,
            result.check,
        )
    )


def line_of(verdict: Verdict) -> str:
    """Return the finding on one line: its check and its message."""
    for first in (*verdict.broken, *verdict.undecided):
        return f"{in_words(verdict)}, {first.check}: {_anomalies(first)[0].message}"
    return f"{in_words(verdict)}: {verdict.headline}"


def ways(directory: str, verdict: Verdict | None = None) -> tuple[tuple[str, str], ...]:
    """Return the ways on from a run in this folder: its page, and the commands that run it again.

    One of them looks for the cause, where no check has named it.
    """
    found = ("report", f"{directory}/report.html"), ("replay", replay(directory))
    if verdict is None or not is_unexplained(verdict):
        return found
    return *found, ("explain", f"chaos explain {shlex.quote(directory)}")


def is_unexplained(verdict: Verdict) -> bool:
    """Return whether training came out otherwise, and no check names the cause."""
    return any(result.check in EFFECTS for result in verdict.broken[:1])


def replay(directory: str) -> str:
    """Return the command that repeats a run."""
    return f"chaos replay {shlex.quote(directory)}"


def _anomalies(result: CheckResult) -> tuple[Anomaly, ...]:
    return result.anomalies or (Anomaly(message=result.summary),)


def _events(anomaly: Anomaly, brevity: Brevity) -> str:
    """Return the events of an anomaly in words, the first of them if there are many."""
    shown = anomaly.events[: brevity.events]
    if not shown:
        return ""
    more = ", …" if len(shown) < len(anomaly.events) else ""
    noun = "event" if len(anomaly.events) == 1 else "events"
    return f"{noun} {', '.join(map(str, shown))}{more}"


def _open(verdict: Verdict) -> Iterator[Line]:
    """Yield the inconclusive checks, those of one reason together: many lack the same restart."""
    reasons: dict[str, list[str]] = {}
    for result in verdict.undecided:
        reasons.setdefault(result.summary, []).append(result.check)
    for why, checks in reasons.items():
        text = f"{', '.join(checks)}: {_unsaid(why, verdict.headline)}"
        yield Line("open", "inconclusive", text)


def _not_restored(resume: Resume, most: int | None) -> Section:
    """Return the parts of the state that a resume lost, with a consequence."""
    lines = [
        Line("bad", row.component, f"{row.standing} {row.found}")
        for row in rows(resume)
        if row.tone == "bad"
    ]
    title = f"not restored in attempt {resume.attempt}, at {_place(resume)}"
    return Section(title, _cut(lines, most))


def _place(resume: Resume) -> str:
    return f"epoch {resume.epoch}" + (f", step {resume.step}" if resume.step else "")


def _unsaid(text: str, said: str) -> str:
    return AS_ABOVE if text.lower() in said.lower() else text


def _cut(lines: Sequence[Line], most: int | None, label: str = "") -> tuple[Line, ...]:
    """Return the first lines, and one that counts the others."""
    shown = tuple(lines[:most])
    hidden = len(lines) - len(shown)
    return (*shown, Line("bad", label, and_more(hidden))) if hidden else shown


def in_words(verdict: Verdict, *, brief: bool = False) -> str:
    """Return the verdict for display: its word, and whether it was expected."""
    if verdict.is_news:
        return f"{verdict.status}: fixed?"
    if verdict.status != "pass":
        expected = "expected" if brief else "as the scenario expects"
        return f"{verdict.status}, {expected}" if verdict.as_expected else verdict.status
    if verdict.as_expected:
        return "pass" if verdict.restarts.resumed else "pass, no resume"
    return "pass, unexpected" if brief else "pass, against the scenario's expectation"


def suite_in_words(groups: Sequence[ScenarioRuns]) -> str:
    """Return the outcome of a suite: how many scenarios are as expected, skipped, and flaky."""
    counts = Counter(runs.worst.standing for runs in groups)
    judged, right = len(groups) - counts["skipped"], counts["expected"]
    if not judged:
        return "every scenario was skipped" if groups else "no scenario was run"
    some = f"{judged - right} of {plural(judged, 'scenario')} not"
    more = {"skipped": counts["skipped"], "flaky": sum(runs.is_flaky for runs in groups)}
    counted = "".join(f", {count} {word}" for word, count in more.items() if count)
    return f"{'every scenario' if right == judged else some} as expected{counted}"


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
    def found(self) -> str:
        """The ranks, and the two values if both are known."""
        both = f": {self.ours} instead of {self.baseline}" if self.ours and self.baseline else ""
        return f"({self.who}){both}"


@dataclass(frozen=True)
class ResumeTable:
    """One resume: a title, a sentence, and its parts."""

    title: str
    sentence: str
    tone: str
    word: str
    rows: tuple[PartRow, ...]


def resume_table(resume: Resume, launcher: Launcher = USUAL) -> ResumeTable:
    """Return the table of one resume; not each launcher hands an attempt a checkpoint, or none."""
    none = " without a checkpoint" if "reports" in FACTS[launcher].has else ""
    start = f" with {resume.checkpoint}" if resume.checkpoint else none
    grounds = f": {resume.grounds}" if resume.grounds else ""
    is_known = any(part.standing != "not compared" for part in resume.parts)
    tone, word = ("good", "sound") if is_known else ("open", "unknown")
    if not resume.sound:
        tone, word = "bad", "broken"
    return ResumeTable(
        title=f"Attempt {resume.attempt} resumed at {_place(resume)}{start}{grounds}",
        sentence=as_sentence(resume.sentence),
        tone=tone,
        word=word,
        rows=rows(resume),
    )


def rows(resume: Resume) -> tuple[PartRow, ...]:
    """Return the parts of one resume, in the order of its diagnosis; equal ranks share a row."""
    everyone = {part.rank for part in resume.parts}
    alike: dict[Part, list[int]] = {}
    for part in resume.parts:
        alike.setdefault(_look(part), []).append(part.rank)
    return tuple(
        PartRow(
            component=part.component,
            standing=part.standing if part.matters else f"{part.standing}, no consequence seen",
            tone=_TONES[part.standing] if part.matters else "open",
            who="all ranks" if set(who) == everyone and len(who) > 1 else ranks(who),
            ours=part.ours,
            baseline=part.baseline,
        )
        for part, who in alike.items()
    )


def _look(part: Part) -> Part:
    """Return what ranks share that have a row together; norms of restored shards may differ."""
    same = part.standing in ("restored", "not compared")
    values = {"ours": "", "baseline": ""} if same else {}
    return part.model_copy(update={"rank": 0, **values})
