"""A check is one function: the worked example adds one within the files that its page names."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DIFF = ROOT / "docs/examples/add-a-check.diff"
PAGE = ROOT / "docs/writing-a-check.md"


def added_to() -> list[str]:
    return re.findall(r"^\+\+\+ b/(.*)$", DIFF.read_text(encoding="utf-8"), re.MULTILINE)


def test_the_page_names_every_file_of_the_worked_example() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert [file for file in added_to() if f"`{file}`" not in page] == []


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_the_worked_example_adds_a_check_that_all_tests_of_checks_accept(tmp_path: Path) -> None:
    for folder in ("chaos", "tests/check", "docs"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    check = DIFF.read_text(encoding="utf-8")
    subprocess.run(["git", "apply", "-C1", "-"], cwd=tmp_path, input=check, text=True, check=True)
    words = "unfinished or half or every_check or most_specific"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "tests/check", "-k", words],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"[^0-9][1-9]\d* passed", done.stdout)
