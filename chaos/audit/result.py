"""The result of an audit for Python: what a program decides by, and a notebook shows."""

import posixpath
from dataclasses import dataclass
from pathlib import Path

from chaos.audit.card import Card
from chaos.audit.finding import Finding
from chaos.audit.page import KIND_HEAD, kind_cells, tone
from chaos.audit.sections import causes
from chaos.report.html import Fragment, render_fragment
from chaos.run.shown import shown


@dataclass(frozen=True, repr=False)
class AuditResult:
    """One audit. Exactly one of `passed`, `failed` and `inconclusive` is true."""

    #: all that is known of it; `to_json()` is what `--format json` writes
    card: Card
    #: the audit's folder
    directory: Path

    @property
    def passed(self) -> bool:
        """Whether in every group of places a restart resumed, and the result was right."""
        return self.card.word == "pass"

    @property
    def failed(self) -> bool:
        """Whether something is wrong: a place, or the settings."""
        return self.card.word == "fail"

    @property
    def inconclusive(self) -> bool:
        return self.card.word == "inconclusive"

    @property
    def sentence(self) -> str:
        """The answer with its evidence."""
        return self.card.sentence

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The causes of what is wrong, each with its places and a scenario that reproduces it."""
        return self.card.findings

    @property
    def page(self) -> Path:
        """The card as a page, `card.html`."""
        return self.directory / "card.html"

    def __repr__(self) -> str:
        return f"<{self.sentence}>"

    def _repr_html_(self) -> str:
        """Return the answer for a notebook."""
        tried = [row for row in kind_cells(self.card) if row[-1]]
        found = [(each.title, each.sentence, each.remedy) for each in causes(self.card)]
        return render_fragment(
            Fragment(
                tone=tone(self.card),
                word=self.card.word,
                title=posixpath.basename(self.card.job.script),
                sentence=self.sentence.removeprefix(f"{self.card.word}: "),
                rows=[KIND_HEAD, *tried] if tried else [],
                found=found,
                ways=[("card", shown(self.page))],
            )
        )
