"""The rank that a process says to `init_process_group`, by whatever means."""

import inspect
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist

from chaos.launch.child_environment import SITECUSTOMIZE_FOLDER
from chaos.launch.python.process import RankPosition, parse_rank_position


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: object = None,
    world_size: int = -1,
    rank: int = -1,
    store: object = None,
) -> None:
    """As torch's own, 2.13."""


TORCHRUNS = {"RANK": "3", "WORLD_SIZE": "4"}


@pytest.mark.parametrize(
    ("args", "kwargs", "env", "seat"),
    [
        (("gloo",), {"rank": 1, "world_size": 2}, {}, RankPosition(1, 2)),
        (("gloo", "tcp://127.0.0.1:1", None, 2, 0), {}, TORCHRUNS, RankPosition(0, 2)),
        (("gloo",), {"init_method": "tcp://h:1?rank=1&world_size=3"}, {}, RankPosition(1, 3)),
        ((), {}, TORCHRUNS, RankPosition(3, 4)),
        (("gloo",), {"init_method": "env://", "world_size": 8}, TORCHRUNS, RankPosition(3, 8)),
        (("mpi",), {}, {}, None),
        (("gloo",), {"rank": 5, "world_size": 2}, {}, None),
    ],
)
def test_a_rank_is_found_where_torch_looks_for_it(
    args: tuple[Any, ...], kwargs: dict[str, Any], env: dict[str, str], seat: RankPosition | None
) -> None:
    assert parse_rank_position(init_process_group, args, kwargs, env) == seat


def test_the_stand_in_has_the_parameters_of_torchs_own() -> None:
    torchs = inspect.signature(dist.init_process_group).parameters
    assert [*torchs][:6] == [*inspect.signature(init_process_group).parameters]


def test_the_interpreters_own_sitecustomize_is_imported_as_well(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('its own')\n")
    look = "import sys; print(sys.modules['sitecustomize'].__file__, sys.path[1])"

    for folders in ([SITECUSTOMIZE_FOLDER, str(tmp_path)], [SITECUSTOMIZE_FOLDER]):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
        done = subprocess.run(
            [sys.executable, "-c", look], env=env, text=True, capture_output=True, check=True
        )
        assert done.stderr == ""
        own = f"its own\n{tmp_path}/sitecustomize.py {tmp_path}"
        assert done.stdout.startswith(own if len(folders) > 1 else SITECUSTOMIZE_FOLDER)
        assert SITECUSTOMIZE_FOLDER not in done.stdout.split()
