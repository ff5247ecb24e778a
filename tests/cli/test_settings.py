"""Settings in pyproject.toml are the defaults of options."""

from pathlib import Path

import pytest

from chaos import settings
from chaos.errors import ScenarioError
from tests.called import chaos


def settled(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> dict[str, object]:
    (folder / "pyproject.toml").write_text(text)
    (folder / "below").mkdir()
    monkeypatch.chdir(folder / "below")
    found: dict[str, object] = settings.load_defaults(["run"])["run"]
    return found


def test_the_nearest_table_gives_defaults_and_its_folder_is_the_reports_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        '[tool.chaos]\nbackend = "fork"\nreports = "out"\ntime-limit = "5m"\nexclude = ["slow/*"]\n'
    )

    assert settled(tmp_path, monkeypatch, text) == {
        "backend": "fork",
        "reports": tmp_path / "out",
        "time_limit": "5m",
        "exclude": ["slow/*"],
    }


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("bakend = 'fork'", "unknown key 'bakend'. Did you mean backend?"),
        ("backend = 'spark'", "backend must be ray or fork, got 'spark'"),
        ("seed = -1", "seed must be a number from 0"),
        ("seed = true", "seed must be a number from 0"),
        ("time-limit = 'soon'", "time-limit must be a time such as 90s or 5m"),
        ("exclude = 'x'", "exclude must be a list of patterns"),
        ("seed = ", "not TOML"),
    ],
)
def test_a_mistake_is_refused_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, says: str
) -> None:
    with pytest.raises(ScenarioError) as refused:
        settled(tmp_path, monkeypatch, f"[project]\nseed = 1\n[tool.chaos]\n{line}\n")

    assert says in str(refused.value)
    assert refused.value.line == 4


def test_an_option_wins_over_the_environment_and_that_over_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.chaos]\nreports = "settled"\n')

    assert "settled" in chaos("report", folder=tmp_path).out
    monkeypatch.setenv("CHAOS_REPORTS_DIR", "of-the-shell")
    assert "in of-the-shell" in chaos("report", folder=tmp_path).out
    assert "in given" in chaos("report", "--reports", "given", folder=tmp_path).out
