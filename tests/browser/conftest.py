"""One browser for all tests of a session, and the pages that it is shown."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.audit.audit import SiteChoice
from chaos.audit.page import render_card
from chaos.extensions.lab.trend import render_trend
from chaos.extensions.preflight.answer import answer_question
from chaos.extensions.preflight.forecast import Effort
from chaos.extensions.preflight.market import find_preset
from chaos.extensions.preflight.page import render_answer
from chaos.extensions.preflight.question import change_question
from chaos.model.summary import RunSummary, SuiteSummary
from chaos.report.ci import build_summary
from chaos.report.html import render_run, render_suite
from chaos.report.outcome import build_suite_row, build_unrun_row
from tests.audit.backend import FakeBackend, audit_of, loses_momentum
from tests.browser.chromium import Browser, Page, browser, find_browser
from tests.extensions.preflight.questions import sound_question
from tests.report.conftest import clean_history, run_of, struck_history


@pytest.fixture(scope="session")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    path = find_browser()
    if path is None:
        pytest.skip("no Chromium on the PATH (Debian's package is `chromium`)")
    with browser(path, tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture
def page(chromium: Browser) -> Page:
    tab = chromium.open()
    tab.resize(1100, 900)
    tab.prefer("light")
    return tab


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return every kind of page; of a run there are two, `guilty` and `valid`."""
    folder = tmp_path_factory.mktemp("pages")
    baseline = clean_history()
    valid = run_of(struck_history(), baseline=baseline)
    guilty = run_of(struck_history(defect=0.09), baseline=baseline)
    rows = [
        build_suite_row(valid),
        build_suite_row(guilty),
        build_unrun_row(scenario="cannot be", file="f", error="why not"),
    ]
    summaries = [build_summary(row) for row in rows]
    audited = audit_of(
        tmp_path_factory.mktemp("audit"),
        FakeBackend(epochs=20, defect=loses_momentum),
        choice=SiteChoice(limit=40),
    )
    market = {"market": find_preset("hot-4h").model_dump(mode="json"), "settings.max_failures": 0}
    asked = answer_question(change_question(sound_question(), market), Effort(runs=200, jobs=1))
    texts = {
        "valid": render_run(valid),
        "guilty": render_run(guilty),
        "suite": render_suite(rows, past(0, summaries)),
        "trend": render_trend([(f"s{n}", past(n, summaries)) for n in range(5)]),
        "audit": render_card(audited.run()),
        "preflight": render_answer(asked),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in texts}


def past(number: int, runs: list[RunSummary]) -> SuiteSummary:
    """Return a suite whose recovery was a little slower than the one's before."""
    slower = [
        run.model_copy(update={"recovery_s": run.recovery_s and run.recovery_s + number / 10})
        for run in runs
    ]
    return SuiteSummary(started=f"2026-11-21T0{number}:45:00Z", runs=tuple(slower))
