"""The pages, read back with a parser as a browser would."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser

import pytest

from chaos.model.history import History, JournalEntry
from chaos.report.html import render_run, render_suite
from chaos.report.outcome import FinishedRun, SuiteRow, build_suite_row, build_unrun_row
from tests.report.past import past_run, past_suite

VOID = {"meta", "link", "br", "img", "input", "hr"}
EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"


@dataclass
class Element:
    tag: str
    attrs: dict[str, str | None]
    text: str = ""
    children: list["Element"] = field(default_factory=list)

    def all(self, tag: str) -> list["Element"]:
        below = [found for child in self.children for found in child.all(tag)]
        return ([self] if self.tag == tag else []) + below

    def of_class(self, name: str) -> list["Element"]:
        below = [found for child in self.children for found in child.of_class(name)]
        return ([self] if name in (self.attrs.get("class") or "").split() else []) + below

    @property
    def words(self) -> str:
        if self.tag == "#text":
            return self.text.strip()
        return " ".join(words for child in self.children if (words := child.words))


class Parser(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("root", {})
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, dict(attrs))
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].text += data
        self.open[-1].children.append(Element("#text", {}, data))


def parsed(page: str) -> Element:
    parser = Parser()
    parser.feed(page)
    parser.close()
    assert [element.tag for element in parser.open] == ["root"]
    return parser.root


@pytest.fixture(scope="module")
def valid_page(valid_run: FinishedRun) -> str:
    return render_run(valid_run)


@pytest.fixture(scope="module")
def guilty_page(guilty_run: FinishedRun) -> str:
    return render_run(guilty_run)


def specs(page: str) -> dict[str, dict[str, dict[str, list[object]]]]:
    return {
        (script.attrs["id"] or "").removeprefix("spec-"): json.loads(script.text)
        for script in parsed(page).all("script")
        if script.attrs.get("type") == "application/json"
    }


def test_a_valid_run_says_so_in_word_and_colour(valid_page: str) -> None:
    (banner,) = parsed(valid_page).of_class("banner")

    assert "good" in (banner.attrs["class"] or "")
    assert banner.words.startswith("✓ pass Rank 1 was killed")


def test_an_invalid_run_names_the_defect_first(guilty_page: str) -> None:
    root = parsed(guilty_page)
    (banner,) = root.of_class("banner")
    (table,) = [t for t in root.all("table") if "trajectory" in t.words]
    first = table.all("tbody")[0].all("tr")[0]

    assert "bad" in (banner.attrs["class"] or "")
    assert "epoch 2, step 1" in banner.words
    assert first.words.startswith("trajectory")


def test_a_defect_that_the_scenario_expects_is_not_shown_as_a_failure(
    expected_invalid_run: FinishedRun,
) -> None:
    (banner,) = parsed(render_run(expected_invalid_run)).of_class("banner")

    assert "fail, as the scenario expects" in banner.words
    assert "calm" in (banner.attrs["class"] or "")


@pytest.mark.parametrize("as_expected", [False, True])
def test_unknown_never_looks_like_success(unknown_run: FinishedRun, as_expected: bool) -> None:
    judged = unknown_run.verdict.model_copy(update={"as_expected": as_expected})
    (banner,) = parsed(render_run(replace(unknown_run, verdict=judged))).of_class("banner")

    assert "open" in (banner.attrs["class"] or "")
    assert "good" not in (banner.attrs["class"] or "")
    assert banner.of_class("word")[0].words.startswith("? inconclusive")
    assert "✓" not in banner.words


def test_a_run_found_valid_against_expectation_is_a_failure(valid_run: FinishedRun) -> None:
    judged = valid_run.verdict.model_copy(update={"as_expected": False})
    (banner,) = parsed(render_run(replace(valid_run, verdict=judged))).of_class("banner")

    assert "bad" in (banner.attrs["class"] or "")
    assert "against the scenario's expectation" in banner.words


def test_a_page_loads_nothing(guilty_page: str) -> None:
    root = parsed(guilty_page)
    elements = [e for tag in ("script", "link", "img", "iframe", "source") for e in root.all(tag)]
    style = root.all("style")[0].text
    policy = next(m for m in root.all("meta") if m.attrs.get("http-equiv"))

    assert not [e for e in elements if e.attrs.get("src") or e.attrs.get("href")]
    assert all((a.attrs["href"] or "").startswith("#") for a in root.all("a"))
    assert "url(" not in style
    assert "@import" not in style
    assert (policy.attrs["content"] or "").startswith("default-src 'none'")


def test_the_library_that_draws_is_there_once(guilty_page: str) -> None:
    scripts = [s for s in parsed(guilty_page).all("script") if len(s.text) > 100_000]

    assert len(scripts) == 1
    assert len(guilty_page) < 3_000_000


def test_every_chart_has_marks_and_rows_and_words(guilty_page: str) -> None:
    drawings = parsed(guilty_page).of_class("drawing")

    assert list(specs(guilty_page)) == ["loss", "divergence", "timeline"]
    assert [d.attrs["role"] for d in drawings] == ["img", "img", "img"]
    assert all(len(d.attrs["aria-label"] or "") > 40 for d in drawings)
    assert all(d.all("path") for d in drawings), "each is drawn without scripts, too"
    for spec in specs(guilty_page).values():
        assert min(map(len, spec["datasets"].values())) > 0
        assert spec["layer"]


def test_there_is_a_closer_chart_only_where_the_run_leaves_the_baseline(valid_page: str) -> None:
    assert list(specs(valid_page)) == ["loss", "timeline"]


def test_ids_stand_once_and_every_link_within_the_page_leads_somewhere(guilty_page: str) -> None:
    root = parsed(guilty_page)
    ids = re.findall(r'\sid="([^"]+)"', guilty_page)
    targets = {(a.attrs["href"] or "").removeprefix("#") for a in root.all("a")}

    assert len(ids) == len(set(ids))
    assert targets <= set(ids)
    assert any(target.startswith("event-") for target in targets)


def test_the_events_of_an_anomaly_are_one_click_away_in_words(guilty_page: str) -> None:
    (anomaly,) = parsed(guilty_page).of_class("anomaly")

    assert anomaly.all("a")[0].attrs["href"] == "#event-143"
    assert "epoch 2, step 1 done" in anomaly.words


def test_tables_name_their_columns_and_details_their_contents(guilty_page: str) -> None:
    root = parsed(guilty_page)

    assert root.all("html")[0].attrs["lang"] == "en"
    assert len(root.all("main")) == 1
    assert all(th.attrs.get("scope") for th in root.all("th"))
    assert all(len(d.all("summary")) == 1 for d in root.all("details"))
    assert all(r.attrs.get("tabindex") == "0" for r in root.of_class("scroll"))


def test_the_page_shows_what_was_done_and_that_it_landed(valid_page: str) -> None:
    table = parsed(valid_page).all("table")[0]
    row = table.all("tbody")[0].words

    for part in ("epoch 2, step 5, rank 1", "SIGKILL", "pid 201", "node1nod", "ok", "6.52 s"):
        assert part in row


def test_a_fault_that_did_not_begin_is_said_to_be_so(valid_run: FinishedRun) -> None:
    run = replace(valid_run, history=valid_run.baseline or valid_run.history)
    row = parsed(render_run(run)).all("table")[0].all("tbody")[0].words

    assert "did not begin" in row


def test_the_page_tells_how_to_do_it_again(valid_page: str, valid_run: FinishedRun) -> None:
    (commands,) = parsed(valid_page).all("pre")

    assert f"chaos replay {valid_run.directory}" in commands.text
    assert f"chaos rejudge {valid_run.directory}" in commands.text


def test_a_replaced_setting_is_shown_beside_what_the_script_had(valid_page: str) -> None:
    rows = [r for t in parsed(valid_page).of_class("settings") for r in t.all("tr")]
    (max_failures,) = [r for r in rows if r.words.startswith("max_failures")]

    assert [cell.words for cell in max_failures.all("th") + max_failures.all("td")] == [
        "max_failures",
        "2",
        "0",
    ]


def test_names_cannot_become_elements(renamed: Callable[[str], FinishedRun]) -> None:
    plain, evil = parsed(render_run(renamed("plain"))), parsed(render_run(renamed(EVIL)))

    assert len(evil.all("script")) == len(plain.all("script"))
    assert not evil.all("img")
    assert EVIL in evil.all("h1")[0].text


def test_events_cannot_end_a_script_element(valid_run: FinishedRun, valid_page: str) -> None:
    def spoiled(entry: JournalEntry) -> JournalEntry:
        text = entry.event.checkpoint if hasattr(entry.event, "checkpoint") else None
        if text is None:
            return entry
        values = {f: getattr(entry.event, f) for f in entry.event.__struct_fields__}
        evil = type(entry.event)(**{**values, "checkpoint": EVIL})
        return JournalEntry(time_ns=entry.time_ns, source=entry.source, seq=entry.seq, event=evil)

    history = History([spoiled(entry) for entry in valid_run.history])
    page = render_run(replace(valid_run, history=history))

    assert len(parsed(page).all("script")) == len(parsed(valid_page).all("script"))
    assert not parsed(page).all("img")


def test_a_run_of_which_nothing_was_seen_still_has_a_page(valid_run: FinishedRun) -> None:
    page = render_run(replace(valid_run, history=History([]), baseline=None))

    assert "No worker was seen." in page
    assert "There is no baseline to compare with." in page
    assert not specs(page)


def rows_of_all_kinds(*runs: FinishedRun) -> list[SuiteRow]:
    error = "x.chaos.yaml:12: notice_s must be > 0"
    return [
        *(build_suite_row(run) for run in runs),
        build_unrun_row(scenario=EVIL, file="x", error=error),
    ]


def test_a_suite_counts_and_links_its_runs(
    valid_run: FinishedRun, guilty_run: FinishedRun, unknown_run: FinishedRun
) -> None:
    rows = rows_of_all_kinds(valid_run, guilty_run, unknown_run)
    root = parsed(render_suite(rows, past_suite(), folder="reports"))
    counts = [dd.text for dd in root.all("dd")]
    links = [a.attrs["href"] for a in root.all("table")[0].all("a")]

    assert counts == ["1", "1", "1", "1", "64.2 s"]
    assert links == ["killed-in-an-epoch/7-20260101-101500/report.html"] * 3
    assert not any("src" in script.attrs for script in root.all("script"))
    assert "bad" in (root.of_class("banner")[0].attrs["class"] or "")
    assert "notice_s must be > 0" in root.words


def test_a_suite_is_green_only_if_every_scenario_is_as_expected(
    valid_run: FinishedRun, expected_invalid_run: FinishedRun, unknown_run: FinishedRun
) -> None:
    def tone(rows: list[SuiteRow]) -> str:
        page = render_suite(rows, past_suite())
        return (parsed(page).of_class("banner")[0].attrs["class"] or "").split()[-1]

    good = [build_suite_row(valid_run), build_suite_row(expected_invalid_run)]
    assert tone(good) == "good"
    assert tone([*good, build_suite_row(unknown_run)]) == "open"
    assert tone([*good, build_unrun_row(scenario="s", file="f", error="e")]) == "bad"
    assert tone([]) == "open"


def test_a_strange_directory_stays_a_path_in_a_link(valid_run: FinishedRun) -> None:
    row = build_suite_row(replace(valid_run, directory='javascript:alert("1")'))
    (link,) = parsed(render_suite([row], past_suite())).all("table")[0].all("a")

    assert link.attrs["href"] == "javascript%3Aalert%28%221%22%29/report.html"


def test_a_suite_has_its_project_time_commit_and_branch(valid_run: FinishedRun) -> None:
    runs = (past_run("a"), past_run("b"))
    suite = past_suite(*runs).model_copy(
        update={"project": "digits", "commit": "0123456789ab", "branch": "main"}
    )
    root = parsed(render_suite([build_suite_row(valid_run)], suite))

    assert root.all("h1")[0].words == "digits · /jobs"
    (kind,) = root.of_class("kind")
    assert "started 2026-11-21T01:45:00Z · commit 0123456789ab · branch main" in kind.words


def test_a_suite_names_what_stands_otherwise_than_in_the_last_one(valid_run: FinishedRun) -> None:
    standings = {
        "broke": ("expected", "unexpected"),
        "mended": ("not_run", "expected"),
        "doubtful": ("expected", "undecided"),
        "sick": ("unexpected", "unexpected"),
        "well": ("expected", "expected"),
        "passed over": ("unexpected", "skipped"),
    }
    before, after = (
        past_suite(*(past_run(name, pair[side]) for name, pair in standings.items()))
        for side in (0, 1)
    )
    after = past_suite(*after.runs, past_run("young"))
    page = render_suite(
        [build_suite_row(valid_run)], after, previous_suite=("20261120T014500", before)
    )
    (found,) = parsed(page).of_class("changed")

    assert [item.words for item in found.all("li")] == [
        "✗ newly failing broke",
        "? newly inconclusive doubtful",
        "✓ mended mended",
        "? not run then young",
        "1 scenario failed then as well.",
    ]
    assert "../20261120T014500/report.html" in page


def test_a_suite_like_the_last_one_says_so(valid_run: FinishedRun) -> None:
    page = render_suite(
        [build_suite_row(valid_run)], past_suite(), previous_suite=("1", past_suite())
    )

    assert "No scenario stands otherwise than then." in page
