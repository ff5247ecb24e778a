"""Known defects: each is of a version, and what it names is there."""

import re
from pathlib import Path

import pytest

from chaos.extensions.known_defects import KNOWN, KnownDefect, find_installed_defects

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("defect", KNOWN, ids=str)
def test_a_defect_was_seen_and_its_source_is_a_report_or_is_here(defect: KnownDefect) -> None:
    is_report = re.fullmatch(r"[\w.-]+(/[\w.-]+)?#\d+", defect.source)
    pages = "".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))

    if is_report:
        assert defect.source in pages
    else:
        assert (ROOT / defect.source).is_file()
    if defect.source.startswith("scenarios/"):
        assert defect.version in (ROOT / defect.source).read_text(encoding="utf-8")
    else:
        assert re.search(rf"{defect.package}\W+{re.escape(defect.version)}", pages) or (
            defect.package in ("torch", "ray")
        )


def test_only_the_very_version_has_a_defect() -> None:
    found = list(find_installed_defects({"torch": "2.13.0+cpu", "ray": "2.61.0"}.get))

    assert {defect.package for defect in found} == {"torch"}
    assert str(found[0]).endswith("(pytorch#135712); TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1")
