"""A launcher is one folder: nothing outside asks for its name, and a page says what is in it."""

import re
from pathlib import Path

from chaos.launch.local_run import LocalRun

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs/examples/shell_loop"
PAGE = ROOT / "docs/writing-a-launcher.md"
# `launcher == "ray"`, `if launcher in (…)`, `match job.launcher:`
ASKS = re.compile(r"launcher (==|!=|in|not in|is) \{?[\"'(]|match \S*launcher:")
MAY_ASK = ("chaos/launch/",)


def test_nothing_but_its_own_folder_asks_which_launcher_a_job_has() -> None:
    asking = [
        f"{file.relative_to(ROOT)}: {line.strip()}"
        for file in sorted(ROOT.joinpath("chaos").rglob("*.py"))
        if not str(file.relative_to(ROOT)).startswith(MAY_ASK)
        for line in file.read_text(encoding="utf-8").splitlines()
        if ASKS.search(line)
    ]

    assert asking == []


def test_the_page_names_every_file_of_the_worked_example_and_every_method_to_fill_in() -> None:
    page = PAGE.read_text(encoding="utf-8")
    files = [file.relative_to(EXAMPLE.parent) for file in EXAMPLE.glob("*.py")]

    assert [file for file in files if f"`{file}`" not in page] == []
    assert [name for name in LocalRun.__abstractmethods__ if f"`{name}`" not in page] == []
