"""`chaos explain`: what it refuses, before anything of a record is run."""

from pathlib import Path

import pytest

from chaos.errors import UsageError
from chaos.extensions.explain import command as cli
from chaos.model.history import Baseline, History
from chaos.run.directory import RunDirectory, create_run
from tests.called import chaos
from tests.check.parts import KILLED
from tests.check.tamper import shifted


@pytest.fixture(autouse=True)
def nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def opened(*_: object, **__: object) -> None:
        raise UsageError("it was about to run")

    monkeypatch.setattr(cli, "open_backend", opened)


def recorded(tmp_path: Path, history: History) -> RunDirectory:
    plan = KILLED.plan().model_copy(update={"cwd": str(tmp_path)})
    directory = create_run(tmp_path / "runs", "7", plan, {})
    directory.save_history(history)
    return directory


def test_a_run_without_a_baseline_cannot_be_explained(tmp_path: Path) -> None:
    directory = recorded(tmp_path, KILLED.history())

    done = chaos("explain", directory.path, "--yes", folder=tmp_path)

    assert done.code == 3
    assert "there is no baseline beside the run" in done.err


def test_a_run_that_is_right_has_nothing_to_be_explained(tmp_path: Path) -> None:
    directory = recorded(tmp_path, KILLED.history())
    directory.save_baseline(Baseline([KILLED.baseline()]))

    done = chaos("explain", directory.path, "--yes", folder=tmp_path)

    assert done.code == 3
    assert "nothing is known to be wrong with this run" in done.err


def test_a_working_folder_that_is_gone_is_named(tmp_path: Path) -> None:
    plan = KILLED.plan().model_copy(update={"cwd": str(tmp_path / "gone")})
    directory = create_run(tmp_path / "runs", "7", plan, {})
    directory.save_history(shifted(KILLED.history(), 2))
    directory.save_baseline(Baseline([KILLED.baseline()]))

    done = chaos("explain", directory.path, "--yes", folder=tmp_path)

    assert done.code == 3
    assert f"the working folder of the job is gone: {tmp_path / 'gone'}" in done.err


@pytest.mark.parametrize(("words", "said"), [((), "nothing was run"), (("--yes",), "about to run")])
def test_nothing_of_a_record_is_run_unasked(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    directory = recorded(tmp_path, shifted(KILLED.history(), 2))
    directory.save_baseline(Baseline([KILLED.baseline()]))

    done = chaos("explain", directory.path, *words, folder=tmp_path)

    assert done.code == 3
    assert said in done.err
