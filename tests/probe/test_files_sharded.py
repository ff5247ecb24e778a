"""What a folder holds of a sharded checkpoint, by its own index."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.checkpoint as dcp

from chaos.probe.state.files import build_sharded_part

STATE = {"model": {"w": torch.ones(3), "b": torch.ones(2, dtype=torch.bfloat16)}, "done": 3}
PATHS = ("model/.metadata", "model/__0_0.distcp")

pytestmark = pytest.mark.filterwarnings("ignore:torch.distributed is")


def saved(folder: Path, state: Mapping[str, Any] = STATE) -> None:
    dcp.save(dict(state), checkpoint_id=folder / "model", no_dist=True)


def test_an_index_names_files_with_their_sizes_and_entries(tmp_path: Path) -> None:
    saved(tmp_path)

    found = build_sharded_part(tmp_path, [*PATHS, "gone.distcp"])

    assert found is not None
    assert found.indexes == ("model/.metadata",)
    assert found.keys == ("done", "model.b", "model.w")
    assert found.needs == found.sizes
    assert found.sizes == {PATHS[1]: (tmp_path / PATHS[1]).stat().st_size}


def test_a_folder_of_other_files_is_not_sharded(tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes(b"1")

    assert build_sharded_part(tmp_path, ["model.pt"]) is None


def test_shards_without_an_index_are_seen(tmp_path: Path) -> None:
    saved(tmp_path)

    found = build_sharded_part(tmp_path, PATHS[1:])

    assert found is not None
    assert (found.indexes, found.needs, list(found.sizes)) == ((), {}, [PATHS[1]])


class Evil:
    """A value whose reading makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


@pytest.mark.parametrize("is_evil", [False, True])
def test_an_index_that_is_none_of_torchs_names_nothing_and_runs_nothing(
    tmp_path: Path, *, is_evil: bool
) -> None:
    saved(tmp_path)
    index = tmp_path / PATHS[0]
    index.write_bytes(pickle.dumps(Evil(tmp_path / "made")) if is_evil else index.read_bytes()[:99])

    found = build_sharded_part(tmp_path, PATHS)

    assert found is not None
    assert (found.indexes, found.needs, found.keys) == ((PATHS[0],), {}, ())
    assert not (tmp_path / "made").exists()
