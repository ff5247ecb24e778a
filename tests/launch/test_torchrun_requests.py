"""A script that asks for what torchrun gives its workers is seen to, before any fit()."""

import os
import runpy
from pathlib import Path

import pytest

from chaos.launch.torchrun_requests import TorchrunRequests
from chaos.model.launcher_facts import WORKER_ENV

JOINS = "import torch.distributed as dist\ndist.init_process_group('gloo')\n"


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*WORKER_ENV, "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def asked_by(source: str) -> str | None:
    Path("train.py").write_text(source, encoding="utf-8")
    asked, error = TorchrunRequests(), None
    asked.start()
    try:
        runpy.run_path(str(Path("train.py").absolute()), run_name="__main__")
    except Exception as raised:  # noqa: BLE001 - a script's own, whatever it is
        error = raised
    finally:
        asked.stop()
    return asked.find_request(error)


@pytest.mark.parametrize(
    ("source", "seen"),
    [
        ("import os\nos.environ['RANK']\n", "train.py:2 reads RANK"),
        ("import os\nos.environ.get('WORLD_SIZE', 1)\n", "train.py:2 reads WORLD_SIZE"),
        ("import os\nint(os.getenv('LOCAL_RANK'))\n", "train.py:2 reads LOCAL_RANK"),
        ("import os\nx = 'RANK' in os.environ\n", "train.py:2 reads RANK"),
        (JOINS, "train.py:2 joins a group of processes"),
        ("raise KeyError('RANK')\n", "train.py:1 needs RANK"),  # a library's reading
        ("import os\nos.environ.get('HOME')\nraise KeyError('scale')\n", None),
        ("raise KeyError\n", None),
        ("print('RANK')\n", None),
    ],
)
def test_what_is_asked_for_is_told_by_its_line(source: str, seen: str | None) -> None:
    assert asked_by(source) == seen


def test_a_library_that_looks_asks_for_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("chaos.launch.torchrun_requests._PACKAGES", str(tmp_path / "lib"))
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/asks_for_rank.py").write_text("import os\nos.environ.get('RANK', '0')\n")

    assert asked_by("import asks_for_rank\n") is None


def test_the_environment_is_as_it_was_once_fit_is_called() -> None:
    asked, plain = TorchrunRequests(), type(os.environ)
    asked.start()

    begun = asked.wrap_fit(lambda: None)
    begun()

    assert type(os.environ) is plain
    assert os.environ.get("RANK") is None
    assert asked.find_request() is None
