"""Settings in pyproject.toml, times, forms, and what `--help` imports."""

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from chaos import settings
from chaos.cli.command_table import list_commands
from chaos.cli.documents import Document
from chaos.cli.options import parse_hours, parse_seconds
from chaos.errors import ScenarioError, UsageError
from tests.called import chaos
from tests.cli.process import ROOT, environment
from tests.needs import needs_extension

HEAVY = {"altair", "jinja2", "numpy", "psutil", "pydantic", "ray", "ruamel", "scipy", "torch"}
DRAWS = {"altair", "vl_convert", "ray", "torch"}  # charts, and what trains


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


@pytest.mark.parametrize(
    ("text", "means"), [("90", 90), ("90s", 90), ("5m", 300), ("1.5h", 5400), ("2d", 172_800)]
)
def test_a_time_has_a_unit_or_is_in_seconds(text: str, means: float) -> None:
    assert parse_seconds(text) == means


def test_a_deadline_without_a_unit_is_in_hours() -> None:
    assert (parse_hours("72"), parse_hours("72h"), parse_hours("3d"), parse_hours("30m")) == (
        72,
        72,
        72,
        0.5,
    )
    with pytest.raises(typer.BadParameter):
        parse_hours("-1")


def test_the_form_is_the_one_asked_for_or_that_of_the_file(tmp_path: Path) -> None:
    assert Document.from_options(None, tmp_path / "a" / "x.xml", "junit").form == "junit"
    assert Document.from_options("junit", tmp_path / "x", "junit").output == tmp_path / "x"
    assert Document.from_options("text", None, "text").form is None
    assert Document.from_options("json", None, "json").takes_stdout
    assert not (tmp_path / "a" / "x.xml").exists()  # that it can be written was tried
    (tmp_path / "kept.xml").write_text("as it was")
    Document.from_options(None, tmp_path / "kept.xml", "junit")
    assert (tmp_path / "kept.xml").read_text() == "as it was"
    for form, file in ((None, "x.pdf"), ("html", "x.html")):
        with pytest.raises(UsageError):
            Document.from_options(form, tmp_path / file, "json")  # type: ignore[arg-type]


def list_imported(*words: str) -> set[str]:
    """Return the modules that a command has imported, in a process of its own."""
    code = f"import sys; sys.argv[1:] = {[*words]}\ntry: from chaos.cli import main; main()\n"
    code += "except SystemExit: print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environment(),
        capture_output=True,
        text=True,
        check=True,
    )
    modules = set(done.stdout.splitlines()[-1].split())
    assert "chaos.cli.commands" in modules
    return modules


@pytest.mark.parametrize(
    ("words", "slow"),
    [
        (["--help"], HEAVY),
        (["audit", "--help"], DRAWS),
        (["run", "--help"], DRAWS),
        pytest.param(["preflight", "--help"], DRAWS, marks=needs_extension("preflight")),
        (["report", "--help"], DRAWS),
    ],
)
def test_help_imports_nothing_that_is_slow(words: list[str], slow: set[str]) -> None:
    assert not {name.partition(".")[0] for name in list_imported(*words)} & slow


def test_help_imports_no_extension() -> None:
    assert not [name for name in list_imported("--help") if name.startswith("chaos.extensions.")]


@needs_extension("doctor")
def test_no_check_is_imported_where_no_other_package_registers_any() -> None:
    """The extensions of chaos register faults, and are no other package."""
    assert "chaos.other_packages" not in list_imported("doctor", "--nope")


def test_help_names_every_command(tmp_path: Path) -> None:
    said = chaos("--help", folder=tmp_path).out

    named = [entry.name for entry in list_commands() if f"\n  {entry.name} " in said]
    assert named == [entry.name for entry in list_commands()]
    assert said.index("\n  audit ") < said.index("\n  run ") < said.index("\n  report ")
