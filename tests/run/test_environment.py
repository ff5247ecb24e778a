"""What a baseline's digest holds besides the job."""

import re
import subprocess
from pathlib import Path

import pytest

from chaos.run.environment import digest_chaos_code, find_commit_and_branch, find_decisive_versions


def test_a_change_of_chaos_itself_makes_other_baselines(tmp_path: Path) -> None:
    packages = [tmp_path / "before", tmp_path / "same", tmp_path / "after"]
    for package, code in zip(packages, ("a = 1", "a = 1", "a = 2"), strict=True):
        (package / "inner").mkdir(parents=True)
        (package / "inner/module.py").write_text(code)

    before, same, after = map(digest_chaos_code, packages)

    assert before == same != after
    assert find_decisive_versions()["code of chaos"] == digest_chaos_code()


def test_a_repository_has_a_commit_a_branch_and_a_mark_of_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*words: str) -> None:
        identity = ("-c", "user.name=n", "-c", "user.email=e", "-c", "commit.gpgsign=false")
        subprocess.run(["git", *identity, *words], cwd=tmp_path, check=True, capture_output=True)

    assert find_commit_and_branch(tmp_path) == (None, None)
    git("init", "-b", "trunk")
    assert find_commit_and_branch(tmp_path) == (None, None)
    (tmp_path / "file").write_text("1")
    git("add", "file")
    git("commit", "-m", "first")
    commit, branch = find_commit_and_branch(tmp_path)
    assert re.fullmatch("[0-9a-f]{12}", commit or "")
    assert branch == "trunk"
    (tmp_path / "file").write_text("2")
    assert find_commit_and_branch(tmp_path) == (f"{commit}-dirty", "trunk")
    git("checkout", "--detach")
    monkeypatch.setenv("GITHUB_HEAD_REF", "feature")
    assert find_commit_and_branch(tmp_path) == (f"{commit}-dirty", "feature")
