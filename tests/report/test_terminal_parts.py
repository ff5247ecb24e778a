"""Each part of a result, as every renderer shows it."""

import io

from rich.console import Console

from chaos.report.terminal_parts import print_parts, render_plain_parts
from tests.report.parts import PARTS


def test_plain_text_has_every_part_once_and_repeats_no_mark_in_colour_alone() -> None:
    assert render_plain_parts(PARTS) == (
        "✗ train.py: 2 causes: as it is\n\n"
        "note       a <tag>\n\n"
        f"state\nIt is lost.\nrepro      chaos run x{' y' * 60}\n\n"
        "part   lost\nmodel   ✗ 1"
    )


def test_a_terminal_frames_a_finding_and_breaks_no_command() -> None:
    written = io.StringIO()
    print_parts(PARTS, Console(file=written, width=40, force_terminal=True, color_system=None))
    lines = written.getvalue().splitlines()

    assert any(line.startswith("╭─ state ─") for line in lines)
    assert f"repro      chaos run x{' y' * 60}" in lines
    assert all(len(line) <= 40 for line in lines if not line.startswith("repro"))
