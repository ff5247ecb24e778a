"""The parts of a card, for every report of an audit."""

import posixpath
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from chaos.audit.answer import Word, coverage_share, describe_confidence
from chaos.audit.card import Card
from chaos.audit.run_row import RunRow
from chaos.audit.sections import (
    CauseSection,
    describe_changes,
    describe_equal_results,
    find_untried_kinds,
    list_causes,
    list_remarks,
)
from chaos.audit.site_category import SiteCategory
from chaos.audit.table import (
    Fate,
    GroupRow,
    KindRow,
    PartTally,
    build_cells,
    build_check_rows,
    collect_lost_steps,
    group_rows,
    kind_rows,
    part_rows,
    wrong_rows,
)
from chaos.report.outcome import Tone, format_figure
from chaos.report.parts import (
    Cell,
    CellContent,
    Commands,
    Figures,
    FindingPart,
    Headline,
    LabelledLines,
    Paragraph,
    ReportLine,
    ReportPart,
    ResultTable,
    Section,
    SourceLines,
    limit_media,
)
from chaos.wording import describe_omitted, plural

PLACES_IN_MARKDOWN = 6
_TONES: dict[Word, Tone] = {"pass": "good", "fail": "bad", "inconclusive": "open"}
_MARKS: dict[Fate, tuple[str, Tone]] = {
    "right": ("✓", "good"),
    "some wrong": ("✗", "bad"),
    "all wrong": ("✗", "bad"),
    "inconclusive": ("?", "open"),
    "from scratch": ("o", "calm"),
    "not tried": ("·", "calm"),
}
_LEGEND = Paragraph(
    "✓ resumed, right   ✗ wrong   ? inconclusive   o began anew   · not tried", "quiet"
)
KIND_HEAD = ("fault", "tried", "right", "wrong", "inconclusive", "began anew")
#: The look of a count in each column but the first; a calm one has no mark.
KIND_TONES: tuple[Tone, ...] = ("calm", "good", "bad", "open", "calm")


def list_parts(card: Card) -> Iterator[ReportPart]:
    """Yield the verdict, faults by kind, places, findings, evidence, and the ways on.

    The terminal has no notes: they were shown before the first fault.
    """
    yield _build_headline(card)
    if card.since is not None:
        text = f"this audit continues `{card.since.folder}`"
        lead = Paragraph(text, "quiet", media=["page"])
        parts = [lead, LabelledLines([*describe_changes(card)])]
        yield Section(parts, heading="Since the last audit", name="since")
    yield Figures([*list_figures(card).items()])
    if card.runs:
        text = (
            "runs by kind of fault and by result. A run in which the job began anew tests no resume"
        )
        lead = Paragraph(text, "quiet", media=["page"])
        yield Section([lead, _build_kind_table(card)], heading="Faults", name="kinds")
        yield limit_media("terminal", parts=[_build_place_table(card), _LEGEND])
    findings = [*_list_findings(card)]
    if findings:
        yield Section(findings, heading="What is wrong", name="findings")
    if card.inconclusive:
        yield _build_doubts(card)
    if build_cells(card):
        yield from _list_place_sections(card)
    yield from _list_evidence(card)
    yield _build_omissions(card)
    yield _build_ways(card)


def choose_tone(card: Card) -> Tone:
    """Return the look of the verdict; an inconclusive one never looks like success."""
    return _TONES[card.word]


def _build_headline(card: Card) -> Headline:
    comparison = "was compared with a run without a fault"
    runs = f"each place was tried in a run of its own on the {card.backend} backend, and the run"
    if card.shared:
        runs = (
            f"faults were injected in {card.run_count} runs, several of them in one where they are "
            f"a checkpoint apart, on the {card.backend} backend, and each run"
        )
    share, untried_kinds = coverage_share(card), find_untried_kinds(card)
    coverage = f"Coverage: {card.places[0]} of {card.places[1]} places ({share:.0%})"
    equal_results = describe_equal_results(card)
    ends = {
        "interrupted": "the audit was interrupted; this page shows what was tried until then",
        "budget": f"the audit ended at {card.limit or 'its time limit'}; the places that it did "
        "not try are listed below",
    }
    notes = (
        f"{card.size}; {runs} {comparison}",
        describe_confidence(card),
        f"equal in the runs that came out right: {equal_results}" if equal_results else "",
        *(card.reasons if card.word == "inconclusive" else ()),
        ends.get(card.ended, ""),
    )
    return Headline(
        choose_tone(card),
        card.sentence,
        subject=posixpath.basename(card.job.script),
        page_notes=[note for note in notes if note],
        meter=(
            share,
            f"{coverage}. Not tested: {', '.join(untried_kinds)}" if untried_kinds else coverage,
        ),
    )


def list_figures(card: Card) -> dict[str, str]:
    """Return the figures at a glance, by name."""
    landed_count, planned_count = card.landed
    tried_count, place_count = card.places
    figures = {
        "resumes right": f"{card.resumed_right} of {card.resumed}",
        "places tried": f"{tried_count} of {place_count}",
        "wrong": str(card.broken),
        "severity": card.severity,
        "inconclusive": str(len(card.inconclusive)),
        "began anew": str(card.scratch_count),
        "faults landed": f"{landed_count} of {planned_count}",
        "recomputed steps, worst": format_figure(
            max(collect_lost_steps(card.runs), default=None), "{}"
        ),
        "runs with faults": str(card.run_count),
        "places in shared runs": str(card.shared) if card.shared else None,
        "took": f"{card.seconds:.0f} s",
        "seed": str(card.seed),
    }
    return {name: value for name, value in figures.items() if value is not None}


def build_kind_cells(card: Card) -> list[list[str]]:
    """Return the table of faults by kind and result, as text."""
    return [[row.kind, *_build_kind_row(row)] for row in kind_rows(card)]


def _build_kind_row(row: KindRow) -> list[str]:
    if not row.places:
        return ["no place", "", "", "", ""]
    tried_text, tally = f"{row.tried} of {row.places}", row.tally
    if not tally.total:
        return [tried_text, "not tried", "", "", ""]
    return [
        tried_text,
        *map(str, (tally.right, tally.wrong, tally.inconclusive, tally.from_scratch)),
    ]


def _build_kind_table(card: Card) -> ResultTable:
    """Return a row for each kind of fault, in grey if it was not tried."""
    rows = [
        (
            Cell(name, None if cells[-1] else "calm"),
            *(
                Cell(text, "calm" if not cells[-1] or tone == "calm" else _mark_count(text, tone))
                for text, tone in zip(cells, KIND_TONES, strict=True)
            ),
        )
        for name, *cells in build_kind_cells(card)
    ]
    return ResultTable(KIND_HEAD, rows, numbers=range(2, 6), breakable=())


def _mark_count(text: str, tone: Tone) -> Tone | None:
    return None if text == "0" else tone


def _build_place_table(card: Card) -> ResultTable:
    """Return a row for each group: a mark per epoch, counts, and recomputed steps."""
    marks = {
        (cell.group, cell.column): Cell(*_MARKS[cell.tally.fate]) for cell in build_cells(card)
    }
    rows: list[Sequence[CellContent]] = []
    for row in group_rows(card):
        if row.places == 0:
            continue
        tone: Tone | None = "open" if row.tally.inconclusive else None
        lost_text = "-" if row.lost_mean is None else f"{row.lost_mean:.0f}, max {row.lost_max}"
        rows.append(
            (
                Cell(row.group, None if row.tried else "calm"),
                [marks.get((row.group, n), Cell(" ")) for n in range(len(card.columns))],
                Cell(f"{row.tried} of {row.places}", None if row.tried else "calm"),
                Cell(_describe_resumes(row), "bad" if row.tally.wrong else tone),
                lost_text,
            )
        )
    columns = ("place", f"epoch {_span(card.columns)}", "tried", "resumes", "recomputed")
    return ResultTable(columns, rows, numbers=(2, 3, 4), breakable=())


def _describe_resumes(row: GroupRow) -> str:
    return f"{row.resumed_right} of {row.resumed}" if row.resumed else "-"


def _span(labels: tuple[str, ...]) -> str:
    first, last = labels[0].split("-")[0], labels[-1].split("-")[-1]
    return first if first == last else f"{first}-{last}"


def _list_findings(card: Card) -> Iterator[ReportPart]:
    for cause in list_causes(card):
        yield FindingPart(cause.title, cause.sentence, [*_list_cause_parts(cause, card)])
    if rows := wrong_rows(card):
        reports = {finding.smallest.number: finding.report for finding in card.findings}
        runs: list[ReportPart] = [_build_run_section(row, reports.get(row.number)) for row in rows]
        runs.append(Commands([("page of a run", f"chaos report {card.folder}/runs/NUMBER --open")]))
        if (rest := card.broken - len(rows)) > 0:
            runs.append(Paragraph(describe_omitted(rest, "in audit.json"), "quiet"))
        summary = f"{plural(len(rows), 'wrong run')}, one by one"
        yield Section(runs, summary=summary, media=["page"])


def _list_cause_parts(cause: CauseSection, card: Card) -> Iterator[ReportPart]:
    """Yield where a cause was seen, its lines of the job's code, and what to do."""
    finding = cause.finding
    if finding is None:
        yield Commands([(cause.label, cause.remedy)])
        text = "seen after one fault under the script's own retries. The runs below had as many as"
        yield Paragraph(f"{text} their faults take", "quiet", media=["page"])
        return
    groups = ", ".join(f"{group} ({count})" for group, count in finding.groups.items())
    places = [*finding.places[:PLACES_IN_MARKDOWN]]
    if (rest := finding.count - PLACES_IN_MARKDOWN) > 0:
        places.append(describe_omitted(rest, "on the card"))
    lines = [
        ReportLine("calm", "where", groups),
        ReportLine("calm", "places", "; ".join(places), media=["markdown"]),
    ]
    if finding.elsewhere:
        lines.append(ReportLine("calm", "on Ray", finding.elsewhere))
    elif card.backend != "ray" and (text := card.job.facts.words.untried_cluster):
        lines.append(ReportLine("calm", "on Ray", text, media=["page"]))
    yield LabelledLines(lines)
    yield SourceLines(finding.lines)
    yield Commands(
        [(cause.label, cause.remedy), ("report", f"{card.folder}/{finding.report}")],
        links={"report": quote(finding.report)},
    )


def _build_run_section(run: RunRow, report: str | None) -> Section:
    parts: list[ReportPart] = [Paragraph(run.headline)]
    if report:
        parts.append(Commands([("report", report)], links={"report": quote(report)}))
    title = f"run {run.number}: {run.group}, {run.name}"
    return Section(parts, title=title, name=f"run-{run.number}")


def _build_doubts(card: Card) -> Section:
    lines = [
        ReportLine("open", str(run.group), f"{run.name}: {run.headline}")
        for run in card.inconclusive
    ]
    lead = Paragraph("these runs show neither that the job came out right nor that it did not")
    parts = [lead, LabelledLines(lines)]
    return Section(parts, heading="Inconclusive runs", name="inconclusive", media=["page"])


def _list_place_sections(card: Card) -> Iterator[Section]:
    """Yield the result by place, and the cost of a restart by place, which a page has."""
    yield Section(
        [_build_place_table(card), _LEGEND], heading="Places", name="places", media=["page"]
    )
    worst = list_figures(card)["recomputed steps, worst"]
    text = f"steps that a restart recomputes, on the rank with most of them: {worst} at worst"
    rows = [
        (
            row.group,
            f"{row.tried} of {row.places}",
            _describe_resumes(row),
            format_figure(row.lost_max, "{}"),
            format_figure(row.lost_mean, "{:.1f}"),
        )
        for row in group_rows(card)
        if row.tried
    ]
    columns = ("place", "tried", "resumes right", "recomputed, worst", "recomputed, mean")
    lead = Paragraph(f"{text}. Several restarts of one run are added up", "quiet")
    table = Section([ResultTable(columns, rows, range(1, 5))], summary="By place")
    yield Section([lead, table], heading="Cost of a restart", name="cost", media=["page"])
    if len(card.save_steps) > 1:
        act = card.job.facts.words.interrupted_save
        lead = Paragraph(f"the longest save of the clean run. {act} had come this far", "quiet")
        steps = [
            (Cell(step.name, is_code=True), str(step.tried), _build_count(step.wrong, "bad"))
            for step in card.save_steps
        ]
        table_part = ResultTable(("operation", "places tried", "wrong"), steps, range(1, 3))
        title = "A save, operation by operation"
        yield Section([lead, table_part], heading=title, name="save", media=["page"])


def _build_count(count: int, tone: Tone) -> Cell:
    return Cell(str(count), tone if count else None)


def _list_evidence(card: Card) -> Iterator[Section]:
    """Yield the remarks, and the tables of a page that show them."""
    parts = part_rows(card)
    lost_parts = [part for part in parts if part.restored < part.resumes]
    right_parts = [part for part in parts if part.restored == part.resumes]
    tables: list[ReportPart] = [_build_part_table(lost_parts)] if lost_parts else []
    if right_parts:
        summary = f"{plural(len(right_parts), 'part')} came back in every resume"
        tables.append(Section([_build_part_table(right_parts)], summary=summary))
    if tables:
        text = "the state where the job went on from a checkpoint, compared with the baseline"
        lead, title = Paragraph(text, "quiet"), "State after resume"
        yield Section([lead, *tables], heading=title, name="state", media=["page"])
    remarks: list[ReportPart] = [LabelledLines([*list_remarks(card)]), *_list_check_parts(card)]
    if not card.repetition.is_deterministic:
        text = (
            "not deterministic here: what differs without a fault is no defect of a restart. A run "
            "with a fault must lie where five runs without one show that one more may lie. A seed "
            "and deterministic kernels show smaller defects"
        )
        remarks.append(Paragraph(text, media=["page"]))
    yield Section(remarks, heading="Evidence", name="evidence")


def _list_check_parts(card: Card) -> Iterator[ReportPart]:
    """Yield how many checks found nothing wrong, and the others."""
    checks = build_check_rows(card)
    failing_rows = [row for row in checks if row.broken or row.inconclusive]
    text = f"{plural(len(checks) - len(failing_rows), 'check')} found nothing wrong"
    yield Paragraph(f"{text} in {plural(len(card.runs), 'place')}", media=["page"])
    if failing_rows:
        rows = [
            (
                Cell(row.check, is_code=True),
                str(row.with_evidence),
                str(row.without_evidence),
                _build_count(row.broken, "bad"),
                _build_count(row.inconclusive, "open"),
            )
            for row in failing_rows
        ]
        columns = ("check", "runs with evidence", "nothing due", "broken", "inconclusive")
        yield ResultTable(columns, rows, range(1, 5), media=["page"])


def _build_part_table(rows: Sequence[PartTally]) -> ResultTable:
    columns = ("part", "standing", "came back", "did not", "no consequence seen", "not compared")
    return ResultTable(
        columns,
        [
            (
                Cell(row.component, is_code=True),
                Cell(row.standing, _choose_part_tone(row), has_sign=True),
                f"{row.restored} of {row.resumes}",
                *map(str, (row.lost, row.idle, row.not_compared)),
            )
            for row in rows
        ],
        numbers=range(2, 6),
    )


def _choose_part_tone(row: PartTally) -> Tone:
    if row.lost:
        return "bad"
    return "open" if row.idle or not row.restored else "good"


def find_omissions(card: Card) -> dict[SiteCategory, str]:
    """Return the number of places that were not tried, and the reason, by group."""
    return {
        row.group: reason for row in group_rows(card) if (reason := _explain_omission(row, card))
    }


def _explain_omission(row: GroupRow, card: Card) -> str | None:
    if row.places == 0:
        return f"not in this job: {row.why_none}"
    if row.tried == row.places:
        return None
    omission = f"{row.places - row.tried} of {plural(row.places, 'place')}"
    if row.chosen == 0:
        return f"{omission}: not asked for (--places, --for)"
    unsampled_count, unrun_count = row.places - row.chosen, row.chosen - row.tried
    reasons = [f"{unsampled_count} not sampled"] if unsampled_count else []
    if unrun_count:
        limit = f"{card.limit} was reached" if card.limit else "the time limit was reached"
        end_reason = limit if card.ended == "budget" else "the audit was interrupted"
        reasons.append(f"{unrun_count} not run: {end_reason}")
    return f"{omission}: {', '.join(reasons)}"


def _build_omissions(card: Card) -> Section:
    omissions = find_omissions(card)
    if not omissions:
        parts: list[ReportPart] = [Paragraph("every place of every group was tried")]
        return Section(parts, heading="Not tried", name="omitted", media=["page"])
    table = ResultTable(("places", "not tried"), [*omissions.items()])
    text = "several faults in one run, and faults that take a node, are drawn once per epoch"
    note = Paragraph(f"{text} (three in a run: once per rank)", "quiet", media=["page"])
    fold = Section([table], summary="By place, with the reason")
    return Section([fold, note], heading="Not tried", name="omitted", media=["markdown", "page"])


def _build_ways(card: Card) -> Section:
    """Return the command that repeats the audit, and where its card is."""
    repetition, badge = ("again", card.command), ("badge", card.badge)
    page = ("card", f"{card.folder}/card.html")
    parts = (
        Commands([repetition], media=["markdown"]),
        Commands([repetition, page, badge], media=["terminal"]),
        Commands([repetition, badge], media=["page"]),
        Paragraph("beside this page: `summary.md` for a pull request", "quiet", media=["page"]),
    )
    return Section(parts, heading="Reproduce", name="again")
