"""A verdict in words, cut to a length: every report of a run lays out these sections."""

from collections.abc import Sequence
from dataclasses import dataclass

from chaos.model.diagnosis import Part, Resume
from chaos.model.diagnosis import Standing as PartStanding
from chaos.model.scenario import Launcher
from chaos.model.verdict import CheckResult, Verdict
from chaos.words import ranks


def in_words(verdict: Verdict) -> str:
    """Return the verdict for display: its word, and whether it was expected."""
    if verdict.is_news:
        return "pass: fixed?"
    if verdict.as_expected:
        if verdict.status == "pass":
            return f"pass{no_resume(verdict)}"
        return f"{verdict.status}, as the scenario expects"
    is_surprise = verdict.status == "pass"
    return "pass, against the scenario's expectation" if is_surprise else verdict.status


def no_resume(verdict: Verdict) -> str:
    """Return the ending of the word of a right run without a resume from a checkpoint."""
    return "" if verdict.restarts.resumed else ", no resume"


def line_of(verdict: Verdict) -> str:
    """Return the finding on one line: its check and its message."""
    if verdict.broken:
        first = verdict.broken[0]
        found = first.anomalies[0].message if first.anomalies else first.summary
        return f"{in_words(verdict)}, {first.check}: {found}"
    if verdict.undecided:
        first = verdict.undecided[0]
        return f"{in_words(verdict)}, {first.check}: {first.summary}"
    return f"{in_words(verdict)}: {verdict.headline}"


def by_reason(undecided: Sequence[CheckResult]) -> dict[str, list[str]]:
    """Return the inconclusive checks by their reason: many lack the same restart."""
    reasons: dict[str, list[str]] = {}
    for result in undecided:
        reasons.setdefault(result.summary, []).append(result.check)
    return reasons


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
    """One part of the state, as it was on the ranks in `who`."""

    group: str
    component: str
    standing: str
    tone: str
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


def resume_table(resume: Resume, launcher: Launcher = "ray") -> ResumeTable:
    """Return the table of one resume; only Ray Train hands an attempt a checkpoint, or none."""
    place = f"epoch {resume.epoch}" + (f", step {resume.step}" if resume.step else "")
    none = " without a checkpoint" if launcher == "ray" else ""
    start = f" with {resume.checkpoint}" if resume.checkpoint else none
    grounds = f": {resume.grounds}" if resume.grounds else ""
    is_known = any(part.standing != "not compared" for part in resume.parts)
    if not resume.sound:
        tone, word = "bad", "broken"
    else:
        tone, word = ("good", "sound") if is_known else ("open", "unknown")
    return ResumeTable(
        title=f"Attempt {resume.attempt} resumed at {place}{start}{grounds}",
        sentence=resume.sentence[:1].upper() + resume.sentence[1:].removesuffix(".") + ".",
        tone=tone,
        word=word,
        rows=rows(resume),
    )


def rows(resume: Resume) -> tuple[PartRow, ...]:
    """Return the parts of one resume, in the order of its diagnosis; equal ranks share a row."""
    everyone = {part.rank for part in resume.parts}
    alike: dict[tuple[str, str, PartStanding, bool, str, str], list[int]] = {}
    for part in resume.parts:
        alike.setdefault(_look(part), []).append(part.rank)
    return tuple(
        PartRow(
            group=group,
            component=component,
            standing=standing if matters else f"{standing}, no consequence seen",
            tone=_TONES[standing] if matters else "open",
            who="all ranks" if set(who) == everyone and len(who) > 1 else ranks(who),
            ours=ours,
            baseline=baseline,
        )
        for (group, component, standing, matters, ours, baseline), who in alike.items()
    )


def lost(resume: Resume) -> tuple[PartRow, ...]:
    """Return the rows of parts that were lost with a consequence."""
    return tuple(row for row in rows(resume) if row.tone == "bad")


def _look(part: Part) -> tuple[str, str, PartStanding, bool, str, str]:
    """Return the key by which ranks share a row; norms of restored shards may differ."""
    same = part.standing in ("restored", "not compared")
    values = ("", "") if same else (part.ours, part.baseline)
    return (part.group, part.component, part.standing, part.matters, *values)
