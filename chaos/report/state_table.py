"""The state at a resume as rows: one per part, ranks that agree together."""

from dataclasses import dataclass

from chaos.model.diagnosis import Part, Resume, Standing
from chaos.words import ranks

# The look of a standing; a difference without consequence is shown, but not in red.
_TONES: dict[Standing, str] = {
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


def resume_table(resume: Resume) -> ResumeTable:
    """Return the table of one resume."""
    place = f"epoch {resume.epoch}" + (f", step {resume.step}" if resume.step else "")
    start = f" with {resume.checkpoint}" if resume.checkpoint else " without a checkpoint"
    is_known = any(part.standing != "not compared" for part in resume.parts)
    if not resume.sound:
        tone, word = "bad", "broken"
    else:
        tone, word = ("good", "sound") if is_known else ("open", "unknown")
    return ResumeTable(
        title=f"Attempt {resume.attempt} went on at {place}{start}",
        sentence=resume.sentence[:1].upper() + resume.sentence[1:].removesuffix(".") + ".",
        tone=tone,
        word=word,
        rows=rows(resume),
    )


def rows(resume: Resume) -> tuple[PartRow, ...]:
    """Return the parts of one resume, in the order of its diagnosis; equal ranks share a row."""
    everyone = {part.rank for part in resume.parts}
    alike: dict[tuple[str, str, Standing, bool, str, str], list[int]] = {}
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


def _look(part: Part) -> tuple[str, str, Standing, bool, str, str]:
    """Return the key by which ranks share a row; norms of restored shards may differ."""
    same = part.standing in ("restored", "not compared")
    values = ("", "") if same else (part.ours, part.baseline)
    return (part.group, part.component, part.standing, part.matters, *values)
