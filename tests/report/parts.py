"""A result with one part of each kind."""

from chaos.report.parts import (
    Cell,
    Commands,
    FindingPart,
    Headline,
    LabelledLines,
    Paragraph,
    ReportLine,
    ReportPart,
    ResultTable,
    Section,
)

PARTS: tuple[ReportPart, ...] = (
    Headline("bad", "2 causes", subject="train.py", reason="as it is", page_notes=["with `code`"]),
    LabelledLines(
        [
            ReportLine("open", "note", "a <tag>"),
            ReportLine("open", "note", "of a page", media=["page"]),
        ]
    ),
    FindingPart("state", "It is lost.", [Commands([("repro", "chaos run x" + " y" * 60)])]),
    Section(
        [ResultTable(("part", "lost"), [("model", Cell("1", "bad", has_sign=True))], [1])],
        heading="Parts",
    ),
    Paragraph("for Markdown alone", media=["markdown"]),
)
