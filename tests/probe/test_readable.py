"""The content of files, read without running anything of them."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch

from chaos.probe.state.readable import is_text, load_content
from tests.probe.saving_rank import new as new  # noqa: PLC0414 - a fixture


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        (
            "epoch,loss,who\n1,0.5,a\n2,0.25,b\n",
            {"epoch": [1, 2], "loss": [0.5, 0.25], "who": ["a", "b"]},
        ),
        ("epoch,loss\n", {"epoch": [], "loss": []}),
        ("1.5,2.5\n1,2\n", None),
        ("epoch,loss\n1\n", None),
        ("", None),
    ],
    ids=["columns", "no line yet", "no names", "cut off", "empty"],
)
def test_a_table_is_read_by_its_columns(text: str, holds: object, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)

    assert load_content(tmp_path / "t.csv") == holds


def test_files_are_read_without_running_anything_of_them(tmp_path: Path) -> None:
    heading = json.dumps({"w": {"dtype": "BF16", "shape": [2], "data_offsets": [0, 4]}}).encode()
    raw = len(heading).to_bytes(8, "little") + heading + b"\x80\x3f\x00\x40"
    (tmp_path / "m.safetensors").write_bytes(raw)
    np.save(tmp_path / "a.npy", np.array([1.5, 2.5]))
    np.savez(tmp_path / "b.npz", epoch=3, w=np.ones(2))
    (tmp_path / "c.json").write_text('{"epoch": 3}')
    (tmp_path / "d.pkl").write_bytes(pickle.dumps({"epoch": 3}))
    (tmp_path / "e.json").write_text("{")

    assert load_content(tmp_path / "m.safetensors")["w"].tolist() == [1.0, 2.0]
    assert load_content(tmp_path / "a.npy").tolist() == [1.5, 2.5]
    assert load_content(tmp_path / "b.npz")["epoch"] == 3
    assert load_content(tmp_path / "c.json") == {"epoch": 3}
    assert load_content(tmp_path / "d.pkl") is None
    assert load_content(tmp_path / "e.json") is None
    assert [is_text(tmp_path / name) for name in ("c.json", "d.pkl")] == [True, False]


def test_arrays_are_known_by_their_beginning_before_they_have_their_name(tmp_path: Path) -> None:
    for name in ("a.npy", "b.npz", "m.safetensors", "t.pt", "cut.npz", "text.json"):
        written = tmp_path / name
        match written.suffix:
            case ".npy":
                np.save(written, np.array([1.5, 2.5]))
            case ".npz":
                np.savez(written, w=np.ones(2))
            case ".safetensors":
                safetensors.numpy.save_file({"w": np.ones(2)}, written)
            case ".pt":
                torch.save({"w": torch.ones(2)}, written)
            case _:
                written.write_text('        {"w": [1, 2]}')
        raw = written.read_bytes()
        (tmp_path / f"{name}.new").write_bytes(raw[:-30] if name.startswith("cut") else raw)

    assert load_content(tmp_path / "a.npy.new").tolist() == [1.5, 2.5]
    assert load_content(tmp_path / "b.npz.new")["w"].tolist() == [1.0, 1.0]
    assert load_content(tmp_path / "m.safetensors.new")["w"].tolist() == [1.0, 1.0]
    others = ("t.pt", "cut.npz", "text.json")
    assert [load_content(tmp_path / f"{name}.new") for name in others] == [None] * 3
