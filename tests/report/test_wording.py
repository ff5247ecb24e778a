"""Every report reads as it did when its wording was last accepted."""

import pytest

from tests.report.wording import RENDERERS, file_of, wording


@pytest.mark.parametrize("renderer", RENDERERS)
def test_a_report_reads_as_accepted(renderer: str) -> None:
    accepted = file_of(renderer).read_text(encoding="utf-8")

    assert wording(renderer).splitlines() == accepted.splitlines(), (
        "`python -m tests.report.wording` accepts the new wording"
    )
