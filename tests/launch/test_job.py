"""A script or a module is run as Python runs it."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TELLS = """
import json, sys
from {helper} import x
spec = __spec__ and __spec__.name
print(json.dumps([__name__, __package__, __file__, spec, sys.argv, sys.path[0], x]))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, helper in (("pkg/jobs/train.py", "..helper"), ("alone/train.py", "helper")):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text(TELLS.format(helper=helper))
    (tmp_path / "pkg/helper.py").write_text("x = 1\n")
    (tmp_path / "pkg/__main__.py").write_text(TELLS.format(helper=".helper"))
    (tmp_path / "alone/helper.py").write_text("x = 2\n")
    return tmp_path


def said(folder: Path, *words: str) -> Any:
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "words",
    [["-m", "pkg.jobs.train", "--epochs", "2"], ["-m", "pkg"], ["{folder}/alone/train.py", "-m"]],
    ids=["module", "package", "script"],
)
def test_it_has_the_names_the_arguments_and_the_path_that_python_gives_it(
    folder: Path, words: list[str]
) -> None:
    words = [word.format(folder=folder) for word in words]
    ours = f"import sys\nsys.path[:1] = [{str(ROOT)!r}]\nfrom chaos.launch.job import run_script\n"

    seen = said(folder, "-c", f"{ours}run_script({words})")

    expected = said(folder, *words)
    if words[0] != "-m":
        expected[1] = ""  # of a script None by Python itself, "" by its own runpy
    assert seen == expected
