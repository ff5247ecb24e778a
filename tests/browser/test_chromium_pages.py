"""The pages as a reader has them: in a browser, by keyboard, by ear, on a phone, on paper."""

import base64
import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.browser.chromium import Page
from tests.browser.scripts import COLORS, FAINT, FOCUSED, IS_SHOWN, MARKS, OVERFLOWING

PAGE_BYTES_MAX = 3_000_000
PHONE = (390, 844)
KINDS = ("guilty", "valid", "suite", "trend", "audit", "preflight")
# A suite and an audit are tables; the other pages have charts.
WITHOUT_CHARTS = {"suite", "audit"}
every_page = pytest.mark.parametrize("kind", KINDS)


def spec(file: Path, name: str) -> dict[str, Any]:
    text = file.read_text(encoding="utf-8")
    found = re.search(rf'id="spec-{name}">(.*?)</script>', text)
    assert found
    read: dict[str, Any] = json.loads(found.group(1))
    return read


@every_page
def test_a_page_opens_without_a_word_on_the_console_and_asks_for_nothing(
    page: Page, pages: dict[str, Path], kind: str
) -> None:
    page.show(pages[kind])

    assert page.complaints == []
    assert pages[kind].stat().st_size < PAGE_BYTES_MAX


@pytest.mark.parametrize("kind", sorted({*KINDS} - WITHOUT_CHARTS))
def test_every_chart_has_its_marks(page: Page, pages: dict[str, Path], kind: str) -> None:
    page.show(pages[kind])
    marks = page.js(MARKS)

    assert (
        set(marks)
        == {
            "guilty": {"loss", "divergence", "timeline"},
            "valid": {"loss", "timeline"},
            "trend": {"standings", "recovery", "lost", "goodput"},
            "preflight": {"interval", "finish", "availability", "losses", "grace", "ledger"},
        }[kind]
    )
    for groups in marks.values():
        assert groups
        assert all(count > 0 for _, count in groups)


def test_a_mark_is_drawn_for_every_row(page: Page, pages: dict[str, Path]) -> None:
    page.show(pages["guilty"])
    marks = page.js(MARKS)
    timeline = spec(pages["guilty"], "timeline")["datasets"]

    assert [count for _, count in marks["timeline"]] == [len(rows) for rows in timeline.values()]


def test_a_card_on_a_phone_has_its_long_tables_folded(page: Page, pages: dict[str, Path]) -> None:
    page.resize(*PHONE)
    page.show(pages["audit"])
    folded = page.js("document.documentElement.scrollHeight")
    page.js("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")

    assert folded < 0.7 * page.js("document.documentElement.scrollHeight")


def test_choosing_a_rank_draws_its_loss(page: Page, pages: dict[str, Path]) -> None:
    page.show(pages["guilty"])
    path = "document.querySelector('[data-spec=spec-loss] .mark-line path').getAttribute('d')"
    before = page.js(path)
    changed = page.js(f"""new Promise(done => {{
        const choice = document.querySelector('.choices select');
        choice.selectedIndex = 1 - choice.selectedIndex;
        choice.dispatchEvent(new Event('change', {{bubbles: true}}));
        choice.dispatchEvent(new Event('input', {{bubbles: true}}));
        setTimeout(() => done({path}), 300);
    }})""")

    assert changed != before
    assert page.complaints == []


def test_every_anomaly_and_every_event_of_a_strike_is_one_link_away(
    page: Page, pages: dict[str, Path]
) -> None:
    page.show(pages["guilty"])
    linked = page.js(
        "[...document.querySelectorAll('.banner a, #done ~ .scroll a')].map(a => a.hash.slice(1))"
    )
    anomalies = page.js("[...document.querySelectorAll('.anomaly')].map(a => a.id)")

    assert set(anomalies) <= set(linked)
    assert len(linked) > len(anomalies)
    page.js("document.querySelectorAll('details').forEach(fold => { fold.open = false })")
    for target in linked:
        page.js(f"document.querySelector('a[href=\"#{target}\"]').click()")
        shown = f"""new Promise((done, fail) => {{
            let tries = 0;
            const look = () => {IS_SHOWN}('{target}') ? done(true)
                : ++tries > 200 ? done(false) : setTimeout(look, 25);
            look();
        }})"""
        assert page.js(shown), f"{target} is not to be seen"


@every_page
def test_all_that_can_be_used_has_a_name_for_who_cannot_see_it(
    page: Page, pages: dict[str, Path], kind: str
) -> None:
    page.show(pages[kind])
    tree = page.do("Accessibility.getFullAXTree")["nodes"]
    named = (
        "link",
        "button",
        "combobox",
        "image",
        "region",
        "img",
        "textbox",
        "DisclosureTriangle",
    )
    found = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree
        if not node["ignored"] and node.get("role", {}).get("value") in named
    ]
    roles = [node.get("role", {}).get("value") for node in tree if not node["ignored"]]

    assert found or kind == "suite"
    assert [role for role, name in found if not name.strip()] == []
    assert roles.count("main") == 1
    headings = page.js("[...document.querySelectorAll('h1,h2,h3')].map(h => +h.tagName[1])")
    assert headings[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(headings))
    if kind not in WITHOUT_CHARTS:
        drawings = page.js("[...document.querySelectorAll('.drawing')].map(d => d.ariaLabel)")
        assert drawings
        assert all(len(label) > 40 for label in drawings)


@every_page
def test_the_keyboard_reaches_everything_and_shows_where_it_is(
    page: Page, pages: dict[str, Path], kind: str
) -> None:
    page.show(pages[kind])
    count = page.js("""[...document.querySelectorAll('a[href], select, summary, [tabindex="0"]')]
        .filter(element => element.checkVisibility()).length""")
    page.press("Tab")
    first = page.js(FOCUSED)
    seen = [first]
    for _ in range(min(count - 1, 40)):
        page.press("Tab")
        seen.append(page.js(FOCUSED))

    assert first["to"] == "#main"
    assert all(at["tag"] != "BODY" for at in seen)
    assert [at for at in seen if not at["seen"]] == []
    assert [at for at in seen if not at["marked"]] == []


@every_page
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_by_day_and_by_night(
    page: Page, pages: dict[str, Path], kind: str, scheme: str
) -> None:
    page.prefer(scheme)
    page.show(pages[kind])
    page.js("document.querySelectorAll('details').forEach(fold => { fold.open = true })")

    assert page.js(FAINT) == []


def test_charts_follow_from_light_to_dark_without_a_reload(
    page: Page, pages: dict[str, Path]
) -> None:
    page.show(pages["guilty"])
    by_day = page.js(COLORS)
    page.prefer("dark")
    by_night = page.js(COLORS)

    assert by_day["page"] != by_night["page"]
    assert by_day["axis"] != by_night["axis"]


@every_page
def test_a_phone_shows_all_of_it_without_scrolling_sideways(
    page: Page, pages: dict[str, Path], kind: str
) -> None:
    page.resize(*PHONE)
    page.show(pages[kind])

    assert page.js("document.documentElement.scrollWidth") <= PHONE[0]
    assert page.js(OVERFLOWING) == []
    assert page.js("""[...document.querySelectorAll('.drawing')].every(
        d => d.getBoundingClientRect().width > 300)""")


@every_page
def test_a_page_can_be_printed(page: Page, pages: dict[str, Path], kind: str) -> None:
    page.show(pages[kind])
    page.prefer("dark")
    paper = base64.b64decode(page.do("Page.printToPDF", preferCSSPageSize=True)["data"])

    assert paper.startswith(b"%PDF")
    sheets = len(re.findall(rb"/Type\s*/Page[^s]", paper))
    assert 1 <= sheets <= 12
    page.do("Emulation.setEmulatedMedia", media="print")
    assert page.js("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.js("getComputedStyle(document.querySelector('.banner,h1')).color") != ""


def test_a_page_that_is_broken_is_found_to_be(page: Page, pages: dict[str, Path]) -> None:
    """What the tests above ask can be answered with a no."""
    page.resize(*PHONE)
    page.show(pages["valid"])
    page.js("""document.querySelector('main').insertAdjacentHTML('beforeend',
        '<p id="faint" style="color: #aaa; background: #fff">faint</p>'
        + '<pre id="wide" style="width: 900px; overflow: visible">wide</pre>')""")
    page.js("console.error('broken'); fetch('http://localhost:9/x').catch(() => {})")
    page.js("document.querySelector('.drawing .mark-rect').replaceChildren()")

    assert [found for found in page.js(FAINT) if found.endswith("faint")]
    assert [found for found in page.js(OVERFLOWING) if found.endswith("wide")]
    assert any("broken" in complaint for complaint in page.complaints)
    assert ["mark-rect", 0] in [group for of in page.js(MARKS).values() for group in of]


def test_the_rows_of_a_suite_are_filtered_by_their_words(
    page: Page, pages: dict[str, Path]
) -> None:
    page.show(pages["suite"])

    def left(words: str) -> list[str]:
        page.js(
            f"{{ const box = document.querySelector('.filter input'); box.value = {words!r};"
            "box.dispatchEvent(new Event('input')) }"
        )
        shown: list[str] = page.js(
            "[...document.querySelectorAll('tbody th')].filter((cell) => cell.checkVisibility())"
            ".map((cell) => cell.textContent)"
        )
        return shown

    assert len(left("")) == 3
    assert left("be could") == ["cannot be"]
    assert left("nothing has this") == []
    assert page.js("document.querySelector('.filter output').value") == "0 of 3"
