"""An upgrade of Ray fails here first, name by name."""

import ast
import importlib
import importlib.util
import inspect
import signal
from pathlib import Path

import pytest

from chaos.launch.forked.compat import WARM
from chaos.launch.ray import compat

SOURCES = sorted(Path(compat.__file__).parents[1].glob("*/compat.py"))


def imported_names() -> list[tuple[str, str | None]]:
    """Return every (module, name) of Ray that a compat imports, wherever in the file."""
    found: list[tuple[str, str | None]] = []
    for node in (node for path in SOURCES for node in ast.walk(ast.parse(path.read_text()))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("ray"):
            found += [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found += [(a.name, None) for a in node.names if a.name.startswith("ray")]
    return found


@pytest.mark.filterwarnings("ignore")  # what Ray warns of while it is imported is Ray's affair
@pytest.mark.parametrize(("module", "name"), imported_names())
def test_ray_still_has(module: str, name: str | None) -> None:
    found = importlib.import_module(module)

    assert name is None or hasattr(found, name)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("module", WARM)
def test_what_a_zygote_imports_beforehand_is_there(module: str) -> None:
    assert importlib.import_module(module)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("module", "name"),
    [("node", compat.NODE_ID_ENV), ("ray_constants", compat.DRAIN_ENV)],
)
def test_ray_still_reads_from_the_environment_of_a_node(module: str, name: str) -> None:
    assert name in inspect.getsource(importlib.import_module(f"ray._private.{module}"))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("module", "cls", "name"),
    [
        ("execution.context", "TrainContext", "get_checkpoint"),
        ("execution.context", "TrainContext", "_upload_checkpoint"),
        ("execution.context", "TrainContext", "_wait_then_report"),
        ("execution.worker_group.thread_runner", "ThreadRunner", "run"),
        ("execution.checkpoint.checkpoint_manager", None, "delete_fs_path"),
    ],
)
def test_ray_still_calls_what_is_replaced(module: str, cls: str | None, name: str) -> None:
    found = importlib.import_module(f"ray.train.v2._internal.{module}")

    assert callable(getattr(found if cls is None else getattr(found, cls), name))


@pytest.mark.filterwarnings("ignore")
def test_an_upload_is_still_given_its_name_and_who_uploads_where_they_were() -> None:
    context = importlib.import_module("ray.train.v2._internal.execution.context").TrainContext

    given = list(inspect.signature(context._upload_checkpoint).parameters)
    handed = list(inspect.signature(context._wait_then_report).parameters)

    assert given[:4] == ["self", "checkpoint_dir_name", "metrics", "checkpoint"]
    assert given[4:6] == ["delete_local_checkpoint_after_upload", "checkpoint_upload_fn"]
    assert handed[:2] == ["self", "training_report"]


def test_there_are_names_to_look_for() -> None:
    assert ("ray._raylet", "GcsClient") in imported_names()


@pytest.mark.parametrize("version", ["2.60.0", "2.60.3"])
def test_a_tested_ray_is_not_warned_about(version: str) -> None:
    assert compat.untested_version(version) is None


@pytest.mark.parametrize("version", ["2.59.1", "2.61.0", "3.0.0"])
def test_another_ray_is_a_warning_that_names_the_file(version: str) -> None:
    warning = compat.untested_version(version)

    assert warning is not None
    assert "compat.py" in warning


def test_ray_sets_no_handler_of_signals_while_it_is_kept_from_it() -> None:
    private_utils = importlib.import_module("ray._private.utils")

    def ours(*_: object) -> None:
        raise AssertionError

    before = signal.signal(signal.SIGTERM, ours)
    try:
        with compat.preserve_signal_handlers():
            private_utils.set_sigterm_handler(print)
            assert signal.getsignal(signal.SIGTERM) is ours
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        assert signal.getsignal(signal.SIGTERM) is ours
    finally:
        signal.signal(signal.SIGTERM, before)
