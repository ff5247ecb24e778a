"""Pages: one file each, which loads nothing.

What draws is imported where a page is made: Altair takes half a second, which `--help`, a usage
error, and an audit that finds nothing need not pay.
"""
# ruff: noqa: PLC0415

import json
import posixpath
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from chaos.check.code_lines import belongs
from chaos.check.headline import as_sentence
from chaos.model.summary import SuiteSummary, changed
from chaos.report import page
from chaos.report.outcome import (
    FIGURES,
    STANDINGS,
    FinishedRun,
    ScenarioRuns,
    SuiteRow,
    Tone,
    by_scenario,
    tone,
    tone_of,
    tone_of_all,
)
from chaos.report.page import excerpt, settings
from chaos.report.sections import in_words, is_unexplained, resume_table, suite_in_words
from chaos.words import begun

if TYPE_CHECKING:
    from chaos.report import chart as ch
    from chaos.report.trend import Suites

PAGE_NAME = "report.html"
FINDINGS_LINKED = 8  # in the banner; the section of each check has all of them


def pages(*packages: str) -> Environment:
    """Return the templates of these packages, in the frame, style and words of a run's report."""
    env = Environment(
        loader=ChoiceLoader([PackageLoader(name) for name in (*packages, "chaos.report")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    env.filters |= {"sentence": as_sentence, "begun": begun, "belongs": belongs}
    return env


_env = pages()


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


def render_fragment(shown: Fragment) -> str:
    """Return a result as a part of another's page, such as a notebook, light or dark."""
    return _env.get_template("fragment.html.j2").render(shown=shown)


def render_run(run: FinishedRun) -> str:
    """Return the page of one run: the verdict first, then its evidence."""
    from chaos.report.goodput import goodput
    from chaos.report.loss_chart import loss_charts
    from chaos.report.timeline import timeline

    in_time = timeline(run.analysis)
    loss = loss_charts(run.analysis)
    spent = goodput(run.analysis)
    ops = page.op_rows(run)
    checks = page.check_rows(run.history, run.verdict)
    charts = [*loss, *([in_time] if in_time else []), *([spent.chart] if spent else [])]
    return _env.get_template("run.html.j2").render(
        run=run,
        verdict=run.verdict,
        word=in_words(run.verdict),
        is_unexplained=is_unexplained(run.verdict),
        tone=tone(run.verdict),
        facts=page.facts(run),
        ops=ops,
        saves=page.saves_with_faults(run),
        loss=loss,
        timeline=in_time,
        goodput=spent,
        restarts=page.restart_rows(run),
        recovery=[*page.ENDED_IN, *page.BEGUN_WITH],
        FINDINGS_LINKED=FINDINGS_LINKED,
        resumes=[resume_table(resume, run.plan.job.launcher) for resume in run.verdict.diagnosis],
        checks=checks,
        findings=[anomaly for row in checks for anomaly in row.anomalies],
        excerpt=excerpt(run.history, run.verdict, (n for op in ops for n in op.events)),
        settings=settings(run),
        **drawings(charts),
    )


def render_trend(suites: "Suites") -> str:
    """Return the page of the history of suites; links are relative to the folder of reports."""
    from chaos.report.trend import trend

    found = trend(suites)
    return _env.get_template("trend.html.j2").render(trend=found, **drawings(found.charts))


def render_suite(
    rows: Sequence[SuiteRow],
    suite: SuiteSummary,
    *,
    folder: str | None = None,
    before: tuple[str, SuiteSummary] | None = None,
) -> str:
    """Return the page of a suite; links are relative to `folder`, that of the page.

    `before` is the last suite of the same folder, with the name of its own.
    """
    groups = sorted(by_scenario(rows), key=lambda runs: runs.gravity)
    rows = [row for runs in groups for row in runs.rows]
    return _env.get_template("suite.html.j2").render(
        suite=suite,
        before=before,
        changed=before and changed(before[1].runs, suite.runs),
        tone=tone_of_all(rows),
        headline=suite_in_words(groups),
        versions=next((row.versions for row in rows if row.versions), {}),
        groups=groups,
        tallies=[runs.tally for runs in groups for _ in runs.rows],
        rows=rows,
        figures=[ScenarioRuns((row,)).figures for row in rows],
        FIGURES=[*FIGURES],
        STANDINGS={kind: look.word for kind, look in STANDINGS.items()},
        words_of=[
            in_words(row.verdict, brief=True) if row.verdict else STANDINGS[row.standing].word
            for row in rows
        ],
        tones=[tone_of(row) for row in rows],
        links=[_link(row, folder) for row in rows],
        counts=Counter(runs.worst.standing for runs in groups),
        flaky=sum(runs.is_flaky for runs in groups),
        total_s=sum(row.duration_s for row in rows),
    )


def drawings(charts: "Sequence[ch.Chart]") -> dict[str, Any]:
    """Return the charts of a page: as SVG, as specifications, and the script to draw these."""
    from chaos.report.chart import bundle

    return {
        "svg": {chart.name: Markup(chart.svg) for chart in charts},  # noqa: S704 (Vega escapes it)
        "specs": {chart.name: _as_script(chart.spec) for chart in charts},
        "bundle": Markup(bundle()) if charts else None,  # noqa: S704 (a library)
    }


def _link(row: SuiteRow, folder: str | None) -> str | None:
    if row.directory is None:
        return None
    path = row.directory if folder is None else posixpath.relpath(row.directory, folder)
    return quote(posixpath.join(path, PAGE_NAME))


def _as_script(spec: dict[str, Any]) -> Markup:
    """Return JSON that no HTML parser can mistake for the end of its script element."""
    text = json.dumps(spec, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return Markup(text)  # noqa: S704 (escaped just now)
