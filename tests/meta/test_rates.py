"""The page of the statistics has every table, and what makes them works."""

import re

from tests.tools.rates import BEGIN, END, PAGE, TABLES, Effort, made, with_tables


def labels(lines: str) -> list[str]:
    return [line.split("|")[1].strip() for line in lines.splitlines() if line.startswith("|")]


def test_the_page_has_the_rows_that_are_made_for_it() -> None:
    page = PAGE.read_text(encoding="utf-8")
    fresh = with_tables(page, made(Effort(part=0.005)))

    assert labels(page) == labels(fresh)
    assert all(BEGIN.format(name) in page and END.format(name) in page for name in TABLES)


def test_every_figure_of_others_agrees_to_the_last_digits() -> None:
    page = PAGE.read_text(encoding="utf-8")
    off = re.findall(r"\| (?:scipy.*?|all choices|closed testing) \| \d+ \| (\S+) \|", page)

    assert len(off) == 9
    assert max(map(float, off)) < 1e-8
