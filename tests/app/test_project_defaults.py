"""Defaults of the project and of the environment."""

from dataclasses import fields
from pathlib import Path

import pytest

from chaos.app.audit_request import AuditRequest
from chaos.app.project_defaults import merge_project_defaults

NAMES = [item.name for item in fields(AuditRequest) if item.name not in ("script", "arguments")]


def test_defaults_are_the_projects_and_the_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.chaos]\nreports = "settled"\nseed = 3\nretries = 2\nexclude = ["a"]\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CHAOS_REPORTS_DIR", raising=False)

    assert merge_project_defaults(NAMES, {"seed": 4, "retries": None}) == {
        "reports": tmp_path / "settled",
        "seed": 4,
        "retries": 2,
    }
    monkeypatch.setenv("CHAOS_REPORTS_DIR", "elsewhere")
    assert merge_project_defaults(NAMES, {})["reports"] == "elsewhere"
