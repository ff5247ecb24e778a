"""Every recorded run is judged as it was, and shows what each check reads."""

import pytest

from tests.recorded.guard import accepted
from tests.tools.reads import readers
from tests.tools.reference import FOLDER, PAGES

pytestmark = pytest.mark.timeout(300)


def test_every_recorded_run_is_judged_as_it_was() -> None:
    before, (_, now) = accepted(), readers()

    assert now.keys() == before.keys()
    assert [(run, before[run], now[run]) for run in now if now[run] != before[run]] == []
    assert len(before) >= 200


def test_the_page_on_what_each_check_reads_is_that_of_the_code() -> None:
    stale = "run: python -m tests.tools.reference"
    assert (FOLDER / "reads.md").read_text(encoding="utf-8") == PAGES["reads.md"](), stale
