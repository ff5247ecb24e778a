"""Every hint names the place that chaos was installed from."""

import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from chaos.errors import MissingExtraError
from chaos.installation import (
    RECEIPT,
    REPOSITORY,
    TAG,
    Installation,
    find_installation,
    parse_installation,
)
from tests.accepted import expect_text

ROOT = Path(__file__).parents[2]
GIT = "https://git.example/chaos"
COMMIT = "0123456789abcdef"


def line(
    record: dict[str, Any] | None, installer: str = "pip", prefix: Path = Path("/venv")
) -> str:
    """Return the line for the extra `search` of an install with this record."""
    text = None if record is None else json.dumps(record)
    return parse_installation(text, f"{installer}\n", prefix).build_command("search")


def folder(path: Path, **about: bool) -> dict[str, Any]:
    return {"url": path.as_uri(), "dir_info": about}


def of_git(**about: str) -> dict[str, Any]:
    return {"url": GIT, "vcs_info": {"vcs": "git", "commit_id": COMMIT, **about}}


def test_of_an_index_it_is_the_name() -> None:
    expect_text(line(None))


def test_of_git_it_is_the_tag_or_else_the_commit() -> None:
    tagged = f"ray-train-chaos[search] @ git+{GIT}@v9"

    assert line(of_git(requested_revision="v9")) == f"pip install '{tagged}'"
    expect_text(line(of_git()))


def test_of_a_clone_it_is_the_folder_as_it_is_typed_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = tmp_path / "my clone"
    clone.mkdir()
    (clone / "pyproject.toml").touch()

    assert line(folder(clone, editable=True)) == f"pip install -e '{clone}[search]'"
    assert line(folder(clone)) == f"pip install '{clone}[search]'"
    monkeypatch.chdir(tmp_path)
    expect_text(line(folder(clone)))
    monkeypatch.chdir(clone)
    assert line(folder(clone, editable=True)) == "pip install -e '.[search]'"


def test_of_a_wheel_it_is_the_file(tmp_path: Path) -> None:
    wheel = tmp_path / "ray_train_chaos-0.1.0-py3-none-any.whl"
    wheel.touch()
    there: dict[str, Any] = {"url": wheel.as_uri(), "archive_info": {}}
    hosted = {**there, "url": "https://files.example/x.whl"}

    assert line(there) == f"pip install '{wheel}[search]'"
    expect_text(line(hosted))


def test_of_what_is_gone_it_is_the_release(tmp_path: Path) -> None:
    release = f"pip install 'ray-train-chaos[search] @ git+{REPOSITORY}@{TAG}'"

    assert line(folder(tmp_path / "gone")) == release
    assert line({"url": (tmp_path / "gone.whl").as_uri(), "archive_info": {}}) == release


def test_a_record_that_cannot_be_read_is_as_none() -> None:
    assert parse_installation("{", None, Path("/venv")).build_command("search") == line(None)
    assert line({"url": GIT, "vcs_info": {}}) == line(None)


def test_the_tool_is_the_one_that_installed_it(tmp_path: Path) -> None:
    tool = tmp_path / "tools"
    tool.mkdir()
    (tool / RECEIPT).touch()

    expect_text(line(None, "uv"), "line None uv")
    expect_text(line(None, "uv", tool), "line None uv tool")
    expect_text(line(None, "uv", tmp_path / "archive-v0/Qk4x"), "uv tmp_path archive v0 Qk4x")


def test_another_machine_is_given_no_path_of_this_one(tmp_path: Path) -> None:
    release = Installation("git", REPOSITORY, TAG)
    index, git = Installation(), Installation("git", GIT, "v9")

    assert Installation("folder", str(tmp_path), is_editable=True).portable_installation == release
    assert Installation("file", str(tmp_path / "x.whl")).portable_installation == release
    assert Installation("git", tmp_path.as_uri(), "v9").portable_installation == release
    assert (index.portable_installation, git.portable_installation) == (index, git)


@pytest.mark.nightly
@pytest.mark.timeout(300)
def test_pip_installs_a_commit_of_the_repository_and_chaos_knows(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("only a clone has commits")
    git = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    commit = subprocess.run(git, check=True, capture_output=True, text=True).stdout.strip()
    pip = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--target",
        str(tmp_path),
    ]
    subprocess.run([*pip, f"ray-train-chaos[ray] @ git+{ROOT.as_uri()}@{commit}"], check=True)
    (made,) = metadata.distributions(path=[str(tmp_path)])
    found = parse_installation(
        made.read_text("direct_url.json"), made.read_text("INSTALLER"), tmp_path
    )

    assert found == Installation("git", ROOT.as_uri(), commit)
    assert found.portable_installation == Installation("git", REPOSITORY, TAG)
    assert (tmp_path / "chaos/py.typed").is_file()


def test_an_error_says_how_to_install_what_is_missing() -> None:
    assert str(MissingExtraError.from_package("x", "Ray", "ray")).endswith(
        find_installation().build_command("ray")
    )


def test_the_repository_and_the_tag_are_those_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    files = [ROOT / "README.md", ROOT / "action.yml", *(ROOT / "docs").rglob("*.md")]
    files += (ROOT / "docs").rglob("*.yml")
    named = {
        found[1]
        for file in files
        for found in re.finditer(
            r"ray-train-chaos/ray-train-chaos@([\w.-]+)", file.read_text(encoding="utf-8")
        )
    }

    assert project["urls"]["Repository"] == REPOSITORY
    assert named == {TAG}


def test_the_image_is_made_of_files_that_are_there_and_calls_chaos() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "").splitlines()
    words = [line.split() for line in lines if line and not line.startswith("#")]
    copied = [name for first, *rest in words if first == "COPY" for name in rest[:-1]]

    # The version is read from the package; the build reads the README and the licence.
    assert {"pyproject.toml", "chaos", project["readme"], *project["license-files"]} == {*copied}
    assert all((ROOT / name).exists() for name in copied)
    assert words[0] == ["FROM", "python:3.12-slim"]
    assert ["ARG", "EXTRAS=ray"] in words
    assert words[-1] == ["ENTRYPOINT", '["chaos"]']
