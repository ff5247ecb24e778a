"""Pages: one file each, which loads nothing.

What draws is imported where a page is made: Altair takes half a second, which `--help`, a usage
error, and an audit that finds nothing need not pay.
"""
# ruff: noqa: PLC0415

import json
import posixpath
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from chaos.check.code_lines import describe_save_contents
from chaos.model.summary import SuiteSummary, compare_suites
from chaos.report import page
from chaos.report.outcome import (
    FIGURES,
    STANDINGS,
    FinishedRun,
    ScenarioRuns,
    SuiteRow,
    Tone,
    find_row_tone,
    find_suite_tone,
    find_tone,
    group_scenarios,
)
from chaos.report.page import build_settings, select_excerpt
from chaos.report.parts import ReportPart, list_charts, split_cell
from chaos.report.sections import (
    build_resume_table,
    describe_suite,
    describe_verdict,
    is_unexplained,
)
from chaos.wording import capitalize_first, format_sentence

if TYPE_CHECKING:
    from chaos.report import chart as ch

PAGE_NAME = "report.html"
FINDINGS_LINKED = 8  # in the banner; the section of each check has all of them


def _format_code(text: str) -> Markup:
    """Return a text in which words between backticks are code."""
    words = (escape(word) for word in text.split("`"))
    parts = (f"<code>{word}</code>" if n % 2 else word for n, word in enumerate(words))
    return Markup("".join(parts))  # noqa: S704 (escaped just now)


def build_environment(*packages: str) -> Environment:
    """Return the templates of these packages, in the frame, style and words of a run's report."""
    env = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (*packages, "chaos.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {
        "sentence": format_sentence,
        "begun": capitalize_first,
        "belongs": describe_save_contents,
        "cells": split_cell,
        "coded": _format_code,
        "slug": lambda title: "-".join(re.findall("[a-z]+", title.lower())),
    }
    return env


_env = build_environment()


@dataclass(frozen=True)
class Fragment:
    """A result for a notebook: the verdict, its figures, and the ways on."""

    tone: Tone
    word: str
    title: str
    sentence: str
    #: of a table, the first with the names of its columns
    rows: Sequence[Sequence[str]]
    #: what is wrong: a title, a sentence, and the command that shows it, or nothing
    found: Sequence[tuple[str, str, str]]
    #: paths and commands, each with its label
    ways: Sequence[tuple[str, str]]


def render_fragment(fragment: Fragment) -> str:
    """Return a result as a part of another's page, such as a notebook, light or dark."""
    return _env.get_template("fragment.html.j2").render(shown=fragment)


def render_page(
    parts: Sequence[ReportPart], *, kind: str, heading: str, footer: str = "", title: str = ""
) -> str:
    """Return the page of a result: its heading, its parts and their drawings."""
    template = _env.get_template("result.html.j2")
    frame = {"kind": kind, "heading": heading, "footer": footer, "title": title or heading}
    return template.render(list=parts, **frame, **build_drawings([*list_charts(parts)]))


def render_run(run: FinishedRun) -> str:
    """Return the page of one run: the verdict first, then its evidence."""
    from chaos.report.goodput import build_goodput
    from chaos.report.loss_chart import build_loss_charts
    from chaos.report.timeline import draw_timeline

    timeline_chart = draw_timeline(run.analysis)
    loss = build_loss_charts(run.analysis)
    goodput_view = build_goodput(run.analysis)
    ops = page.build_op_rows(run)
    checks = page.build_check_rows(run.history, run.verdict)
    charts = [
        *loss,
        *([timeline_chart] if timeline_chart else []),
    ]
    return _env.get_template("run.html.j2").render(
        run=run,
        verdict=run.verdict,
        word=describe_verdict(run.verdict),
        is_unexplained=is_unexplained(run.verdict),
        tone=find_tone(run.verdict),
        facts=page.build_facts(run),
        ops=ops,
        saves=page.find_faulted_saves(run),
        loss=loss,
        timeline=timeline_chart,
        goodput=goodput_view,
        restarts=page.build_restart_rows(run),
        recovery=[*page.PREVIOUS_ATTEMPT_PHASES, *page.NEW_ATTEMPT_PHASES],
        FINDINGS_LINKED=FINDINGS_LINKED,
        resumes=[
            build_resume_table(resume, run.plan.job.launcher) for resume in run.verdict.diagnosis
        ],
        checks=checks,
        findings=[anomaly for row in checks for anomaly in row.anomalies],
        excerpt=select_excerpt(
            run.history, run.verdict, (number for op in ops for number in op.events)
        ),
        settings=build_settings(run),
        **build_drawings(charts),
    )


def render_suite(
    rows: Sequence[SuiteRow],
    suite: SuiteSummary,
    *,
    folder: str | None = None,
    previous_suite: tuple[str, SuiteSummary] | None = None,
) -> str:
    """Return the page of a suite; links are relative to `folder`, that of the page.

    `before` is the last suite of the same folder, with the name of its own.
    """
    groups = sorted(group_scenarios(rows), key=lambda runs: runs.gravity)
    rows = [row for runs in groups for row in runs.rows]
    return _env.get_template("suite.html.j2").render(
        suite=suite,
        before=previous_suite,
        changed=previous_suite and compare_suites(previous_suite[1].runs, suite.runs),
        tone=find_suite_tone(rows),
        headline=describe_suite(groups),
        versions=next((row.versions for row in rows if row.versions), {}),
        groups=groups,
        tallies=[runs.tally for runs in groups for _ in runs.rows],
        rows=rows,
        figures=[ScenarioRuns((row,)).figures for row in rows],
        FIGURES=[*FIGURES],
        STANDINGS={kind: look.word for kind, look in STANDINGS.items()},
        words_of=[
            describe_verdict(row.verdict, brief=True)
            if row.verdict
            else STANDINGS[row.standing].word
            for row in rows
        ],
        tones=[find_row_tone(row) for row in rows],
        links=[_build_link(row, folder) for row in rows],
        counts=Counter(runs.worst_row.standing for runs in groups),
        flaky=sum(runs.is_flaky for runs in groups),
        total_s=sum(row.duration_s for row in rows),
    )


def build_drawings(charts: "Sequence[ch.Chart]") -> dict[str, Any]:
    """Return the charts of a page: as SVG, as specifications, and the script to draw these."""
    from chaos.report.chart import build_bundle

    return {
        "svg": {chart.name: Markup(chart.svg) for chart in charts},  # noqa: S704 (Vega escapes it)
        "specs": {chart.name: _encode_script(chart.spec) for chart in charts},
        "bundle": Markup(build_bundle()) if charts else None,  # noqa: S704 (a library)
    }


def _build_link(row: SuiteRow, folder: str | None) -> str | None:
    if row.directory is None:
        return None
    path = row.directory if folder is None else posixpath.relpath(row.directory, folder)
    return quote(posixpath.join(path, PAGE_NAME))


def _encode_script(spec: dict[str, Any]) -> Markup:
    """Return JSON that no HTML parser can mistake for the end of its script element."""
    text = json.dumps(spec, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704 (escaped just now)
