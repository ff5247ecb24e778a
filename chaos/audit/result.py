"""The result of an audit for Python: what a program decides by, and a notebook shows."""

import posixpath
from dataclasses import dataclass
from pathlib import Path

from chaos.audit.card import Card
from chaos.audit.finding import Finding
from chaos.audit.parts import KIND_HEAD, build_kind_cells, choose_tone
from chaos.audit.sections import list_causes
from chaos.report.html import Fragment, render_fragment
from chaos.run.display_path import format_path


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
        tried_rows = [row for row in build_kind_cells(self.card) if row[-1]]
        cause_rows = [
            (cause.title, cause.sentence, cause.remedy) for cause in list_causes(self.card)
        ]
        return render_fragment(
            Fragment(
                tone=choose_tone(self.card),
                word=self.card.word,
                title=posixpath.basename(self.card.job.script),
                sentence=self.card.evidence,
                rows=[KIND_HEAD, *tried_rows] if tried_rows else [],
                found=cause_rows,
                ways=[("card", format_path(self.page))],
            )
        )
