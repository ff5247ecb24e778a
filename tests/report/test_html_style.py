"""Can everything on a page be read, in light and in dark?"""

import re

import pytest

from chaos.report.html import render_suite
from tests.report.past import past_suite


def tokens_of(theme: int) -> dict[str, str]:
    page = render_suite([], past_suite())
    blocks = re.findall(r":root \{(.*?)\}", page, flags=re.DOTALL)
    return dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", blocks[theme]))


def luminance(color: str) -> float:
    parts = [int(color[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    dark, light = sorted([luminance(one), luminance(other)])
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_text_can_be_read_in_both_themes(theme: int) -> None:
    tokens = tokens_of(theme)
    plain = ("ink", "ink-2", "ink-3", "link", "fault", "diverged", "lost-text")
    pairs = [(name, "bg") for name in plain]
    pairs += [(tone, f"{tone}-bg") for tone in ("good", "bad", "open", "calm")]
    pairs += [("ink", "bad-bg"), ("ink-2", "open-bg"), ("ink-3", "panel")]
    pairs += [("on-epoch", "epoch-even"), ("on-epoch", "epoch-odd"), ("on-lost", "lost")]

    assert len(tokens) > 20
    for front, back in pairs:
        assert contrast(tokens[front], tokens[back]) >= 4.5, f"{front} on {back}"


@pytest.mark.parametrize("theme", [0, 1], ids=["light", "dark"])
def test_marks_can_be_told_from_the_page_in_both_themes(theme: int) -> None:
    tokens = tokens_of(theme)

    for mark in ("run", "lost", "fault", "diverged", "commit", "tick"):
        assert contrast(tokens[mark], tokens["bg"]) >= 3, mark
