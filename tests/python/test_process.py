"""The rank that a process says to `init_process_group`, by whatever means."""

import inspect
from typing import Any

import pytest
import torch.distributed as dist

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
