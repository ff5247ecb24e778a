"""The walk from a manifest to an answer prints what its page shows."""

import shutil
from pathlib import Path

import pytest

from tests.called import chaos
from tests.documents.blocks import ROOT
from tests.documents.exceptions import WALK

PAGE = (ROOT / "docs/manifest-to-answer.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", WALK, ids=range(len(WALK)))
def test_a_command_of_the_walk_prints_what_the_page_shows(tmp_path: Path, command: str) -> None:
    shutil.copytree(ROOT / "docs/examples/spot", tmp_path / "docs/examples/spot")
    _, found, said = PAGE.partition(f"$ .venv/bin/{command}\n")
    shown = [line.rstrip() for line in said.partition("```")[0].splitlines()]

    done = chaos(*command.split()[1:], folder=tmp_path)

    printed = [line.rstrip() for line in (done.out + done.err).splitlines()]
    assert found
    assert not [line for line in shown if line not in {"", "…"} and line not in printed]
