"""The launcher of a script: a guess that the first clean run refutes is taken back."""

import py_compile
import zipapp
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from chaos.app.script import check_syntax, retry_launcher
from chaos.errors import FailedJobError, JobError, OtherLauncherError, UsageError
from chaos.model.launcher import Launcher
from chaos.run.modules import ModuleFile

BY_LIBRARY = "from accelerate import Accelerator\nAccelerator()\n"
BY_ITSELF = BY_LIBRARY + "import torch.distributed as dist\ndist.init_process_group()\n"


@dataclass(frozen=True)
class RequestedStart:
    """What a request says of the start of its script."""

    script: Path
    module: bool = False
    launcher: Launcher | None = None
    workers: int | None = None


def fail_at_first(error: JobError) -> Callable[[OtherLauncherError | None], Launcher]:
    """Return an attempt that fails under the guessed launcher, and returns the one after it."""

    def run_attempt(launcher_error: OtherLauncherError | None) -> Launcher:
        if launcher_error is None:
            raise error
        return launcher_error.launcher

    return run_attempt


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Return a script that joins a group by a library alone."""
    file = tmp_path / "train.py"
    file.write_text(BY_LIBRARY)
    return file


def test_a_script_that_fails_in_several_ranks_is_started_as_one_process(script: Path) -> None:
    attempt = fail_at_first(FailedJobError("the job fails"))

    assert retry_launcher(attempt, RequestedStart(script)) == "python"


@pytest.mark.parametrize(
    ("source", "launcher", "workers"),
    [(BY_ITSELF, None, None), (BY_LIBRARY, "torchrun", None), (BY_LIBRARY, None, 2)],
    ids=["it joins a group itself", "a launcher was given", "ranks were given"],
)
def test_a_failure_in_ranks_that_are_meant_stands(
    script: Path, source: str, launcher: Launcher | None, workers: int | None
) -> None:
    script.write_text(source)
    request = RequestedStart(script, launcher=launcher, workers=workers)

    with pytest.raises(FailedJobError):
        retry_launcher(fail_at_first(FailedJobError("the job fails")), request)


def test_another_refusal_is_none_of_the_launcher(script: Path) -> None:
    with pytest.raises(JobError):
        retry_launcher(fail_at_first(JobError("it needs a GPU")), RequestedStart(script))


def test_what_a_start_has_shown_chooses_the_launcher_unless_one_is_given(script: Path) -> None:
    error = OtherLauncherError("", "", location="", launcher="torchrun", evidence="it asks for it")

    assert retry_launcher(fail_at_first(error), RequestedStart(script)) == "torchrun"
    with pytest.raises(OtherLauncherError):
        retry_launcher(fail_at_first(error), RequestedStart(script, launcher="ray"))


def test_compiled_scripts_and_zips_are_left_to_their_start(tmp_path: Path) -> None:
    source = tmp_path / "app"
    source.mkdir()
    (source / "__main__.py").write_text("print('it trains')\n")
    py_compile.compile(str(source / "__main__.py"), cfile=str(tmp_path / "train.pyc"))
    (tmp_path / "compiled").write_bytes((tmp_path / "train.pyc").read_bytes())
    zipapp.create_archive(source, tmp_path / "train.pyz")

    for name in ("train.pyc", "compiled", "train.pyz"):
        check_syntax(ModuleFile(tmp_path / name))


@pytest.mark.parametrize("error", [RecursionError, MemoryError])
def test_a_script_that_is_too_deep_to_compile_is_left_to_its_start(
    script: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("chaos.app.script.compile", fail, raising=False)

    check_syntax(ModuleFile(script))


@pytest.mark.parametrize(
    ("name", "source", "is_shell"),
    [
        ("start.sh", "torchrun train.py\n", True),
        ("start", "#!/bin/bash\ntorchrun train.py\n", True),
        ("start", "#!/usr/bin/env python3\ntorchrun train.py\n", False),
        ("start.py", "#!/usr/bin/env -S uv run --script\ntorchrun train.py\n", False),
        ("start", "torchrun train.py\n", False),
    ],
)
def test_a_shell_script_is_called_one(
    tmp_path: Path, name: str, source: str, *, is_shell: bool
) -> None:
    (tmp_path / name).write_text(source)

    with pytest.raises(UsageError) as caught:
        check_syntax(ModuleFile(tmp_path / name))

    assert ("Give the Python script" in str(caught.value)) is is_shell
    assert ("SyntaxError" in str(caught.value)) is not is_shell
