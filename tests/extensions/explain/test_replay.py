"""`chaos replay` runs a record's code: it says which, asks, and writes where it was told to."""

import io
import json
import sys
from pathlib import Path

import pytest

from chaos.errors import HistoryError, UsageError
from chaos.extensions.explain import replay as cli
from chaos.run.directory import RunDirectory, create_run
from tests.called import Done, chaos
from tests.report.conftest import plan_of

SECRETS = {"EPOCHS": "3", "HF_TOKEN": "hf_s3cr3t", "STORE": "s3://k:s3cr3t@bucket/x"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object, **__: object) -> None:
        raise UsageError("it was about to run")

    monkeypatch.setattr(cli, "open_backend", opened)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a stranger's record, which brings the script along."""
    plan = plan_of("of a\x1b[2J stranger")
    evil = tmp_path / "runs" / "7" / "evil.py"
    env = {**SECRETS, "NAME": "a\x1b[2J"}
    job = plan.job.model_copy(
        update={"script": str(evil), "env": env, "args": {"api-key": "s3cr3t"}}
    )
    plan = plan.model_copy(update={"job": job, "cwd": str(tmp_path)})
    directory = create_run(tmp_path / "runs", "7", plan, {})
    evil.write_text("")
    return directory.path


def replayed(folder: Path, *words: str) -> Done:
    done = chaos("replay", folder, *words, folder=folder.parents[1])
    assert "s3cr3t" not in done.out + done.err
    assert "\x1b" not in done.out + done.err
    return done


def test_without_a_terminal_nothing_is_run(folder: Path) -> None:
    done = replayed(folder)
    said = " ".join(done.out.split())

    assert done.code == 3
    assert "evil.py (in the run's folder: it came with the record)" in said
    assert "with --api-key" in said
    assert f"in {folder.parents[1]} (outside the run's folder)" in said
    assert "EPOCHS=3 HF_TOKEN=*** STORE=s3://***@bucket/x NAME=a\\u001b[2J" in said
    assert "nothing was run" in done.err
    assert "give --yes" in done.err


@pytest.mark.parametrize("answer", ["n\n", "\n", ""])
def test_no_is_no(folder: Path, answer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    done = replayed(folder)

    assert done.code == 3
    assert "Run it? [y/N]" in done.out
    assert "nothing was run" in done.err


def test_yes_is_yes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal("y\n"))

    assert "it was about to run" in replayed(folder).err


def test_yes_can_be_said_beforehand(folder: Path) -> None:
    assert "it was about to run" in replayed(folder, "--yes").err


@pytest.mark.parametrize("slug", ["../../escaped", "/etc", "..", ".", "", ".baselines", "a\nb"])
def test_a_slug_never_leads_out_of_the_reports(folder: Path, slug: str) -> None:
    plan = json.loads((folder / "plan.json").read_text())
    (folder / "plan.json").write_text(json.dumps({**plan, "slug": slug}))

    with pytest.raises(HistoryError, match="not a plan of this version: slug"):
        RunDirectory(folder).load_plan()
    assert replayed(folder, "--yes").code == 3


def test_files_that_hold_secrets_are_their_owners_alone(folder: Path, tmp_path: Path) -> None:
    plain = create_run(tmp_path / "runs", "8", plan_of("without"), {})

    assert (folder / "plan.json").stat().st_mode & 0o077 == 0
    assert (folder / "env.json").stat().st_mode & 0o044
    assert (plain.path / "plan.json").stat().st_mode & 0o044
