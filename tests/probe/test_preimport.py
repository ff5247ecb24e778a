"""What a worker process imports before it is a worker, and that nothing else comes of it."""

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from chaos.launch.raytrain import compat
from chaos.launch.raytrain.preimport import (
    HOOK,
    MODULES_ENV,
    OMP_ENV,
    THREADS_ENV,
    WANTED_ENV,
    build_preimport_env,
    preimport,
)


class TorchTrainer:
    """Called as Ray Train's own is."""

    def __init__(self, *, runtime_env: dict[str, Any] | None = None, cpus: float = 1) -> None:
        self.run_config = SimpleNamespace(worker_runtime_env=runtime_env)
        self.scaling_config = SimpleNamespace(_resources_per_worker_not_none={"CPU": cpus})


class OwnTrainer(TorchTrainer):
    """A user's class over it."""


class XGBoostTrainer:
    """Another trainer, with the same settings."""

    def __init__(self) -> None:
        vars(self).update(vars(TorchTrainer()))


@pytest.fixture
def wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WANTED_ENV, "1")


def test_nobody_is_marked_where_it_was_not_asked_for() -> None:
    assert build_preimport_env(TorchTrainer()) == {}


@pytest.mark.usefixtures("wanted")
@pytest.mark.parametrize(
    ("trainer", "has_torch"),
    [(TorchTrainer(), True), (OwnTrainer(), True), (XGBoostTrainer(), False)],
)
def test_torch_is_imported_for_those_alone_whose_trainer_is_torchs(
    trainer: Any, *, has_torch: bool
) -> None:
    found = build_preimport_env(trainer)

    assert found[compat.setup_hook_env()] == HOOK
    assert ("torch" in found[MODULES_ENV]) is has_torch


@pytest.mark.usefixtures("wanted")
@pytest.mark.parametrize(("cpus", "threads"), [(0.5, "1"), (1, "1"), (2.9, "2")])
def test_libraries_are_loaded_for_as_many_threads_as_ray_gives_a_worker(
    cpus: float, threads: str
) -> None:
    assert build_preimport_env(TorchTrainer(cpus=cpus))[THREADS_ENV] == threads


@pytest.mark.usefixtures("wanted")
@pytest.mark.parametrize(
    "own",
    [{"worker_process_setup_hook": "mine.setup"}, {"env_vars": {compat.setup_hook_env(): "mine"}}],
)
def test_a_jobs_own_set_up_function_is_left_in_its_place(own: dict[str, Any]) -> None:
    assert build_preimport_env(TorchTrainer(runtime_env=own)) == {}


@pytest.fixture
def module(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Yield the name of a module that notes the threads that it may use."""
    name = "chaos_test_noted"
    (tmp_path / f"{name}.py").write_text(f"import os\nTHREADS = os.environ.get({OMP_ENV!r})\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv(THREADS_ENV, "3")
    monkeypatch.delenv(OMP_ENV, raising=False)
    yield name
    sys.modules.pop(name, None)


def test_modules_are_imported_as_a_worker_would_and_leave_no_trace_in_its_environment(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODULES_ENV, module)
    before = dict(os.environ)

    preimport()

    assert sys.modules[module].THREADS == "3"
    assert set(before) - set(os.environ) == {MODULES_ENV, THREADS_ENV}
    assert not set(os.environ) - set(before)


def test_what_the_user_set_is_kept(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MODULES_ENV, module)
    monkeypatch.setenv(OMP_ENV, "5")

    preimport()

    assert sys.modules[module].THREADS == "5"
    assert os.environ[OMP_ENV] == "5"


def test_what_cannot_be_imported_is_the_jobs_to_fail_on(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODULES_ENV, f"there.is.no.such,{module}")

    preimport()

    assert module in sys.modules


def test_a_process_that_is_not_marked_imports_nothing() -> None:
    before = set(sys.modules)

    preimport()

    assert set(sys.modules) == before
