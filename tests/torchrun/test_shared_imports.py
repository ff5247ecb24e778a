"""A library is imported ahead only if its import leaves what it would leave in each worker."""

import functools
import json
import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Literal

import pytest
import torch

from chaos.launch.commands import shared_imports
from chaos.launch.commands.shared_imports import (
    ImportRecorder,
    RecordedImport,
    SharedImports,
    find_shared_imports,
    find_unshared_import,
)
from tests.torchrun.conftest import JOBS, Runs, plan_of
from tests.torchrun.test_runs import killed

VARYING = ("RANK", "MASTER_PORT")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return a folder of installed libraries; what is imported from it is forgotten afterwards."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    monkeypatch.setenv("RANK", "0")
    known = {*sys.modules}
    yield folder
    for name in {*sys.modules} - known:
        del sys.modules[name]


def library(site: Path, text: str, name: str = "some_library") -> RecordedImport:
    """Write a library of one module; return its import by a script in that folder's sight."""
    file = site / f"{name}.py"
    file.write_text(text, encoding="utf-8")
    return RecordedImport(name, str(file), (), (str(site), *sys.path))


def unshared(*imports: RecordedImport) -> tuple[int, str] | None:
    return find_unshared_import(SharedImports(imports, VARYING, ("train.py",)))


# -- what is shared -----------------------------------------------------------------------------


def test_a_library_that_leaves_modules_alone_is_shared_and_sees_what_its_worker_would(
    site: Path,
) -> None:
    sees = "import os, sys\nsaw = (os.environ.get('HUB_OFFLINE'), sys.argv, 'HOME' in os.environ)\n"
    wanted = library(site, sees)._replace(env=(("HUB_OFFLINE", "1"), ("HOME", None)))
    before, path = dict(os.environ), [*sys.path]

    assert unshared(wanted) is None
    assert sys.modules["some_library"].saw == ("1", ["train.py"], False)
    assert dict(os.environ) == before
    assert sys.path == path


def test_a_library_that_asks_for_ipv6_as_urllib3_does_is_shared(site: Path) -> None:
    asks = "import socket\nwith socket.socket() as asked:\n    asked.bind(('127.0.0.1', 0))\n"

    hears = library(
        site, "import socket\nheard = socket.create_server(('127.0.0.1', 0))\n", "hears"
    )

    assert unshared(library(site, asks), hears) == (1, "it changes open files")
    sys.modules["hears"].heard.close()


HARM = {
    "reads RANK": "import os\nrank = int(os.environ.get('RANK', 0))\n",
    "reads all variables": "import os\nenv = os.environ.copy()\n",
    "changes environment": "import os\nos.environ['OF_A_LIBRARY'] = '1'\n",
    "changes random generators": "import random\nrandom.random()\n",
    "changes threads": "import threading\n"
    "over = threading.Event()\nthreading.Thread(target=over.wait, daemon=True).start()\n",
    "changes open files": "import os\nopened = os.open('/dev/null', os.O_RDONLY)\n",
    "does socket.bind": "import socket\n"
    "with socket.socket() as port:\n    port.bind(('127.0.0.1', 29517))\n",
    "changes signal handlers": "import signal\nsignal.signal(signal.SIGUSR2, lambda *_: None)\n",
    "changes log handlers": "import logging\nlogging.root.addHandler(logging.NullHandler())\n",
    "changes hooks": "import sys\nsys.excepthook = lambda *_: None\n",
    "changes default type": "import torch\ntorch.set_default_dtype(torch.float64)\n",
    "does open": "open(__file__ + '.made', 'w').close()\n",
    "does os.mkdir": "import os\nos.mkdir(__file__ + '.made')\n",
    "does subprocess.Popen": "import subprocess\nsubprocess.run(['true'])\n",
    "raises ImportError": "raise ImportError('no such hardware')\n",
    "takes torch.save by its name": "from torch import save\n",
}


@pytest.fixture
def put_back() -> Iterator[None]:
    """Take back what a harmful library does to this process."""
    hook, handlers = sys.excepthook, [*logging.root.handlers]
    yield
    sys.excepthook, logging.root.handlers[:] = hook, handlers
    signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    torch.set_default_dtype(torch.float32)
    os.environ.pop("OF_A_LIBRARY", None)
    if (over := getattr(sys.modules.get("harmful"), "over", None)) is not None:
        over.set()


@pytest.mark.usefixtures("put_back")
@pytest.mark.parametrize("harm", HARM)
def test_a_library_that_leaves_more_is_left_to_each_worker(site: Path, harm: str) -> None:
    good, later = (library(site, "", name) for name in ("harmless", "later"))
    bad = library(site, HARM[harm], "harmful")

    stop = unshared(good, bad, later)

    assert stop is not None
    at, why = stop
    assert (at, harm in why) == (1, True), why
    assert "later" not in sys.modules


def test_what_comes_from_the_job_or_from_another_place_is_not_shared(
    site: Path, tmp_path: Path
) -> None:
    (tmp_path / "settings_of_the_job.py").write_text("", encoding="utf-8")
    shadowed = library(site, "import settings_of_the_job\n")
    seen = (str(tmp_path), *shadowed.path)

    stop = unshared(shadowed._replace(path=seen))
    assert stop is not None
    assert "which is the job's" in stop[1]
    other = library(site, "", "moved")._replace(origin="/opt/site-packages/moved.py")
    assert unshared(other) == (0, "another file is found")


# -- what a worker notes ------------------------------------------------------------------------


@pytest.fixture
def noted(site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ImportRecorder]:
    """Return what notes imports, in a process that was forked from a root without a rank."""
    (tmp_path / "of_the_job.py").write_text("import library_b\n", encoding="utf-8")
    for name in ("library_a", "library_b", "library_c"):
        (site / f"{name}.py").write_text("def used(): pass\n", encoding="utf-8")
    monkeypatch.setattr(shared_imports, "LEAST", 1)
    monkeypatch.setattr(
        shared_imports, "_root_env", {k: v for k, v in os.environ.items() if k != "RANK"}
    )
    monkeypatch.setattr(sys, "path", [str(tmp_path), str(site), *sys.path])
    made = ImportRecorder()
    yield made
    if made in sys.meta_path:
        sys.meta_path.remove(made)


def told(
    noted: ImportRecorder, folder: Path, *, warns: Literal["default", "error"] = "default"
) -> SharedImports:
    with warnings.catch_warnings():
        warnings.resetwarnings()  # pytest's own raise
        warnings.simplefilter(warns)
        noted.write(folder / "imports", 0)
    found = find_shared_imports(folder / "imports", 1)
    assert found is not None
    return found


def test_libraries_are_noted_in_their_order_with_what_the_script_had_set(
    noted: ImportRecorder, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_module("library_a")
    import_module("of_the_job")

    monkeypatch.setenv("HUB_OFFLINE", "1")
    import_module("library_c")

    found = told(noted, tmp_path)

    own = [(one.name, dict(one.env)) for one in found.imports]
    for _, env in own:
        env.pop("PYTEST_CURRENT_TEST")
    assert own == [
        ("library_a", {}),
        ("library_b", {}),
        ("library_c", {"HUB_OFFLINE": "1"}),
    ]
    assert found.imports[0].origin == str(site / "library_a.py")
    assert found.varying == ("RANK",)
    assert SharedImports.from_text(found.to_text()) == found
    assert noted not in sys.meta_path


PATCHES: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "a function of torch": lambda to: to.setattr(torch, "load", functools.partial(torch.load)),
    "its own in place of one": lambda to: to.setattr(torch, "load", _mine()),
    "a class of torch": lambda to: to.setattr(torch.nn, "Linear", _class_of_main()),
    "a function added": lambda to: to.setattr(torch, "mine", _mine(), raising=False),
    "a library's own": lambda to: to.setattr("library_a.used", _mine()),
    "a module kept out": lambda to: to.setitem(sys.modules, "kept_out", None),
    "a module made by hand": lambda to: to.setitem(sys.modules, "stub", ModuleType("stub")),
    "another default type": lambda to: to.setattr(
        torch, "get_default_dtype", lambda: torch.float64
    ),
}


def _class_of_main() -> type:
    return type("Linear", (), {"__module__": "__main__"})


def _mine() -> object:
    """Return a function of a script."""
    space: dict[str, object] = {}
    exec(compile("def mine(): pass", "/home/someone/train.py", "exec"), space)
    return space["mine"]


@pytest.mark.parametrize("patch", PATCHES)
def test_where_the_script_has_changed_what_libraries_find_none_is_shared(
    noted: ImportRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, patch: str
) -> None:
    import_module("library_a")

    PATCHES[patch](monkeypatch)

    assert told(noted, tmp_path) == SharedImports()


def test_where_warnings_raise_none_is_shared(noted: ImportRecorder, tmp_path: Path) -> None:
    import_module("library_a")

    assert told(noted, tmp_path, warns="error") == SharedImports()


def test_a_script_that_goes_to_another_folder_shares_what_it_had_imported(
    noted: ImportRecorder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_module("library_a")

    monkeypatch.chdir(tmp_path)
    import_module("library_c")

    found = told(noted, tmp_path)
    assert [one.name for one in found.imports] == ["library_a"]


def test_ranks_share_what_they_import_alike(tmp_path: Path) -> None:
    def wrote(rank: int, *names: str) -> None:
        imports = tuple(RecordedImport(name, f"/site-packages/{name}.py", (), ()) for name in names)
        (tmp_path / f"{rank}.json").write_text(SharedImports(imports, (f"V{rank}",)).to_text())

    many = [f"m{n}" for n in range(shared_imports.LEAST)]
    wrote(0, *many, "logger_of_rank_0", "last")
    assert find_shared_imports(tmp_path, 2) is None  # one did not join a group
    wrote(1, *many, "last")
    found = find_shared_imports(tmp_path, 2)
    assert found is not None
    assert [one.name for one in found.imports] == many
    assert found.varying == ("V0", "V1")
    assert not tmp_path.exists()

    tmp_path.mkdir()
    for rank in range(3):  # a script that starts three, where its plan guesses two
        wrote(rank, *many)
    found = find_shared_imports(tmp_path, 2)
    assert found is not None
    assert not tmp_path.exists()

    tmp_path.mkdir()
    wrote(0, "few")
    wrote(1, "few")
    assert find_shared_imports(tmp_path, 2) == SharedImports()


# -- whole runs ---------------------------------------------------------------------------------

IMPORTS = """
import json, os, sys
sys.path.append({site!r})
def says(what, value):
    os.write(1, f"SAYS {{what}} {{json.dumps(value)}}\\n".encode())
import many_modules, of_each_rank
import random, signal, threading
import numpy, torch
from pathlib import Path
files = [os.path.realpath(p) for p in Path("/proc/self/fd").iterdir()]
says("process", [
    sorted(k for k in os.environ), sys.path[1:], [t.name for t in threading.enumerate()],
    len([*Path("/proc/self/task").iterdir()]), len(files), sys.argv[1:],
    [str(signal.getsignal(s)) for s in signal.valid_signals()], torch.get_num_threads(),
    [n for f in sys.meta_path if (n := type(f).__name__) != "Imports"],
    sys.excepthook is sys.__excepthook__,
])
says("drawn", [random.random(), float(numpy.random.rand()), float(torch.rand(1))])
says("chaos's", sorted(
    f"{{name}}.{{key}}" for name, module in [*sys.modules.items()] if name.partition(".")[0] in
    ("torch", "pickle", "random", "os", "json", "numpy", "safetensors", "builtins", "io")
    for key, value in [*vars(module).items()]
    if type(value) is type(says) and "/chaos/" in value.__code__.co_filename
))
"""


def said(run: str, what: str) -> list[object]:
    lines = (Path(run) / "logs/driver.log").read_text().splitlines()
    return [json.loads(line.split(" ", 2)[2]) for line in lines if line.startswith(f"SAYS {what} ")]


def libraries(site: Path) -> Path:
    """Write one with many modules, which can be shared, and one that is of each rank."""
    (site / "many_modules").mkdir(parents=True)
    tells = "import os\nos.write(1, b'SAYS {0} 1\\n')\n"
    for n in range(shared_imports.LEAST):
        (site / "many_modules" / f"m{n}.py").write_text("")
    every = "".join(f"from many_modules import m{n}\n" for n in range(shared_imports.LEAST))
    (site / "many_modules/__init__.py").write_text(tells.format("shared") + every)
    (site / "of_each_rank.py").write_text(tells.format("own") + "os.environ.get('RANK')\n")
    return site


@pytest.mark.nightly
@pytest.mark.embedded
@pytest.mark.timeout(300)
def test_later_runs_share_imports_and_their_workers_are_as_before(
    runs: Runs, tmp_path: Path
) -> None:
    site = libraries(tmp_path / "site-packages")
    script = runs.folder / "ahead.py"
    job = (JOBS / "ddp.py").read_text().replace("checkpoint.pt", "ahead.pt")
    script.write_text(IMPORTS.format(site=str(site)) + job)
    plan = plan_of(script, killed(1, 2, rank=1), cwd=runs.folder, retries=1, backend="fork")

    clean = runs.of(plan.build_baseline_plan())
    struck = runs.of(plan, clean.history)

    assert struck.verdict.status == "pass", struck.verdict.headline
    assert [len(said(clean.directory, what)) for what in ("shared", "own")] == [2, 2]
    assert [len(said(struck.directory, what)) for what in ("shared", "own")] == [0, 4]
    root = (Path(struck.directory) / "logs/root.log").read_text()
    assert "of_each_rank and later imports are left to each worker: it reads RANK" in root
    seen = said(clean.directory, "process") + said(struck.directory, "process")
    assert len(seen) == 6
    assert all(one == seen[0] for one in seen)
    drawn = said(clean.directory, "drawn") + said(struck.directory, "drawn")
    assert len({str(one) for one in drawn}) == 6
    # What libraries must not have taken by its name before a probe replaces it.
    replaced = {str(one) for found in said(clean.directory, "chaos's") for one in found}  # type: ignore[attr-defined]
    public = {one for one in replaced if not one.rpartition(".")[2].startswith("_")}
    assert public <= {*shared_imports.replaced_functions().values()} | {
        "torch.serialization.save",
        "torch.serialization.load",
    }
