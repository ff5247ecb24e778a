"""The wording of every report: a fixed set of verdicts and cards, as each renderer prints them.

    python -m tests.report.wording    take today's wording for right

Each renderer has a file in `wording/`, which is compared whole. Other tests compare checks, events
and figures, so that a better sentence changes these files alone.
"""

import html
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path
from unittest import mock

from chaos.audit.audit import SiteChoice
from chaos.audit.brief import list_brief_parts
from chaos.audit.card import Card, ReplacedSetting
from chaos.audit.finding import Confirmation
from chaos.audit.notes import Note
from chaos.audit.page import render_card, render_paragraph
from chaos.audit.parts import list_parts
from chaos.audit.retries import Retries
from chaos.model.diagnosis import Part, Resume
from chaos.model.expect import Expect
from chaos.model.history import History
from chaos.model.summary import SuiteSummary
from chaos.model.verdict import Anomaly, CheckResult
from chaos.report.ci import AnnotatedLine, build_annotations, render
from chaos.report.html import render_run, render_suite
from chaos.report.markdown import render_run_markdown, render_suite_markdown
from chaos.report.markdown_parts import render_markdown_parts
from chaos.report.outcome import (
    FinishedRun,
    SuiteRow,
    build_skipped_row,
    build_suite_row,
    build_unrun_row,
)
from chaos.report.screen import render_plain
from chaos.report.sections import describe_finding
from chaos.report.terminal import (
    build_explanation,
    describe_interrupted_run,
    print_suite,
    render_plain_text,
)
from chaos.report.terminal_parts import render_plain_parts
from tests.audit.backend import FakeBackend, audit_of, loses_momentum
from tests.report.conftest import clean_history, run_of, struck_history

FILES = Path(__file__).parent / "wording"
WIDTH = 100


def _failed(check: str, *messages: str, events: int) -> CheckResult:
    found = tuple(Anomaly(message=each, events=tuple(range(events))) for each in messages)
    return CheckResult(check=check, status="fail", summary=messages[0], evidence=1, anomalies=found)


def _open(check: str, why: str) -> CheckResult:
    return CheckResult(check=check, status="inconclusive", summary=why, evidence=0)


def _crowded(run: FinishedRun) -> FinishedRun:
    """Return a run with more of everything than any report but the page has room for."""
    parts = tuple(
        Part(
            group="optimizer",
            component=f"optimizer.part_{number}",
            rank=rank,
            standing="not restored" if number % 2 else "reset",
            ours="empty" if number % 3 else "",
            baseline="norm 2",
        )
        for number in range(22)
        for rank in (0, 1)
    )
    resume = Resume(
        attempt=1,
        epoch=2,
        step=3,
        checkpoint="checkpoint_1",
        sound=False,
        sentence="the optimizer is lost",
        parts=parts,
        grounds="by its model",
    )
    update = {
        "headline": "Rank 1 was killed; the model is gone; nothing else.",
        "notes": ("all ranks train the same samples", "the job keeps no seed"),
        "diagnosis": (resume,),
        "results": (
            _failed("state", "the model is gone", events=1),
            _failed("epochs", *(f"epoch {n} is missing" for n in range(12)), events=12),
            _open("watched", "no restart was seen"),
            _open("cursor", "no restart was seen"),
        ),
    }
    return replace(run, verdict=run.verdict.model_copy(update=update))


@lru_cache(maxsize=1)
def runs() -> Mapping[str, FinishedRun]:
    """Return the judged runs, by the verdict of each."""
    clean, defect = clean_history(), struck_history(defect=0.09)
    failed = run_of(defect, baseline=clean)
    passed = run_of(struck_history(), baseline=clean)
    unexpected = {"as_expected": False, "expectation": "expected fail; got pass"}
    return {
        "pass": passed,
        "fail": failed,
        "inconclusive": run_of(struck_history(status="info"), baseline=clean),
        "fail, expected": run_of(defect, baseline=clean, expect=Expect(verdict="fail")),
        "pass, unexpected": replace(
            passed, verdict=passed.verdict.model_copy(update=unexpected), directory="odd path"
        ),
        "crowded": _crowded(failed),
    }


def suites() -> Mapping[str, list[SuiteRow]]:
    """Return suites: one with every standing, one with repeats, one in which nothing ran."""
    rows = [build_suite_row(run) for run in runs().values()]
    others = [
        build_unrun_row("no job", "f.chaos.yaml", "f:3: no job"),
        build_skipped_row("more", "g", "needs more"),
    ]
    repeats = [replace(row, repeat=number) for number, row in enumerate(rows[:3], 1)]
    return {"all": [*rows, *others], "repeats": repeats, "right": rows[:1], "skipped": others[1:]}


@lru_cache(maxsize=1)
def cards() -> Mapping[str, Card]:
    """Return cards of audits, without what is of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        backend = FakeBackend(epochs=4, defect=loses_momentum)
        made = audit_of(Path(folder), backend, choice=SiteChoice(limit=10)).run().to_json()
    versions = {"ray": "2.60.0", "torch": "2.13.0"}
    update = {"versions": versions, "version": "0.0", "seconds": 12.0}
    update["command"] = "chaos audit train.py --limit 10"
    fail = Card.from_json(made.replace(folder, "/jobs")).model_copy(update=update)
    replaced = (
        ReplacedSetting(name="name", before="a", now="b"),
        ReplacedSetting(name="c", before="d", now="e"),
    )
    confirmed = Confirmation(state="confirmed", headline="The same, there.")
    right = tuple(run.model_copy(update={"status": "pass", "defects": ()}) for run in fail.runs)
    doubts = tuple(run.model_copy(update={"status": "inconclusive"}) for run in right[:5])
    more: Mapping[str, Mapping[str, object]] = {
        "pass or not": {"runs": right, "findings": ()},
        "inconclusive": {"runs": (*doubts, *right[5:]), "findings": (), "ended": "interrupted"},
        "fail, with all": {
            "retries": Retries(source="nothing"),
            "findings": tuple(
                each.model_copy(update={"confirmation": confirmed, "name": f"{each.name}_{number}"})
                for each in fail.findings
                for number in range(4)
            ),
            "notes": (Note(kind="warning", text="slow"), Note(kind="note", text="a note")),
            "replaced": replaced,
            "ended": "budget",
            "limit": "--limit 10",
        },
    }
    made_of = {name: fail.model_copy(update=dict(fields)) for name, fields in more.items()}
    return {"fail": fail, **made_of}


def _text(page: str) -> str:
    """Return the words of a page, a line for each block, and bars between the cells of a row."""
    page = re.sub(r"<(script|style|svg|title)\b.*?</\1>", "", page, flags=re.DOTALL)
    page = re.sub(r"</t[dh]>\s*<", " | <", re.sub(r"\s+", " ", page))
    page = re.sub(r"</(p|h\d|tr|li|dd|summary|pre|figcaption|footer|ul)>", "\n", page)
    lines = html.unescape(re.sub(r"<[^>]+>", " ", page)).splitlines()
    return "\n".join(filter(None, (" ".join(line.split()) for line in lines))) + "\n"


def _as_text(name: str, texts: Iterator[tuple[str, str]]) -> str:
    found = (f"==== {name}: {of} ====\n{text.rstrip()}\n" for of, text in texts)
    lines = "\n".join(found).splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _terminal() -> Iterator[tuple[str, str]]:
    for name, rows in suites().items():
        yield name, render_plain(partial(print_suite, rows))


def _below_a_test() -> Iterator[tuple[str, str]]:
    for name, run in runs().items():
        yield (
            name,
            render_plain_text(build_explanation(run), width=WIDTH)
            + f"\n{describe_finding(run.verdict)}",
        )
    unbegun = replace(runs()["pass"], history=History(()))
    yield (
        "broken off before it began",
        render_plain_text(describe_interrupted_run(unbegun, "Timeout"), width=WIDTH),
    )
    yield (
        "broken off",
        render_plain_text(describe_interrupted_run(runs()["crowded"], "Timeout"), width=WIDTH),
    )


def _markdown() -> Iterator[tuple[str, str]]:
    for name, run in runs().items():
        yield name, render_run_markdown(run)
    for name, rows in suites().items():
        yield f"suite, {name}", render_suite_markdown(rows)


def _ci() -> Iterator[tuple[str, str]]:
    for name, rows in suites().items():
        yield f"JUnit, {name}", render(rows)
        yield (
            f"GitHub, {name}",
            "\n".join(build_annotations(rows, [AnnotatedLine("f", 1)] * len(rows))),
        )


def _page() -> Iterator[tuple[str, str]]:
    with mock.patch("chaos.report.html.build_drawings", _undrawn):
        for name in ("pass", "inconclusive", "crowded"):
            yield name, _text(render_run(runs()[name]))
    for name, rows in suites().items():
        yield f"suite, {name}", _text(render_suite(rows, SuiteSummary(started="today", runs=())))


def _undrawn(charts: object) -> dict[str, object]:
    assert isinstance(charts, list)
    return {"svg": {chart.name: "" for chart in charts}, "specs": {}, "bundle": None}


def _brief_card() -> Iterator[tuple[str, str]]:
    for name, card in cards().items():
        yield name, render_plain_parts([*list_brief_parts(card)])


def _card_in_terminal() -> Iterator[tuple[str, str]]:
    for name, card in cards().items():
        yield name, render_plain_parts([*list_parts(card)])


def _card_in_markdown() -> Iterator[tuple[str, str]]:
    for name, card in cards().items():
        yield name, render_markdown_parts(list_parts(card))
        yield f"paragraph, {name}", render_paragraph(card)


def _card_on_a_page() -> Iterator[tuple[str, str]]:
    for name, card in cards().items():
        yield name, _text(render_card(card))


RENDERERS: Mapping[str, Callable[[], Iterator[tuple[str, str]]]] = {
    "terminal": _terminal,
    "below_a_test": _below_a_test,
    "markdown": _markdown,
    "ci": _ci,
    "page": _page,
    "card_in_terminal": _card_in_terminal,
    "brief_card": _brief_card,
    "card_in_markdown": _card_in_markdown,
    "card_on_a_page": _card_on_a_page,
}


def wording(renderer: str) -> str:
    """Return what a renderer prints today."""
    return _as_text(renderer, RENDERERS[renderer]())


def file_of(renderer: str) -> Path:
    """Return the file of what a renderer printed when its wording was last accepted."""
    return FILES / f"{renderer}.txt"


if __name__ == "__main__":
    for name in RENDERERS:
        file_of(name).write_text(wording(name), encoding="utf-8")
