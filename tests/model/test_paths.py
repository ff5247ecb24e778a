"""Paths as they are written: below what they lie, and on which node."""

import pytest

from chaos.model.paths import NAME_BY_CONTENT, TEMPFILE_NAME, is_in_folder, is_node_path, strip_node


@pytest.mark.parametrize(
    ("path", "folder", "expected"),
    [
        ("/runs/a", "/runs/a", True),
        ("/runs/a/b", "/runs/a", True),
        ("/runs/a/b", "/runs/a/", True),
        ("/runs/ab", "/runs/a", False),
        ("/runs", "/runs/a", False),
    ],
)
def test_a_folder_and_all_below_it_lie_in_it(path: str, folder: str, expected: bool) -> None:
    assert is_in_folder(path, folder) is expected


@pytest.mark.parametrize("node", ["node-0", "node-1"])
def test_a_path_of_one_node_is_that_of_any(node: str) -> None:
    path = f"/runs/x/nodes/{node}/tmp/cache/last.pt"

    assert is_node_path(path)
    assert strip_node(path) == "/cache/last.pt"


def test_the_temporary_folder_of_a_node_is_its_own() -> None:
    assert is_node_path("/runs/x/nodes/node-0/tmp")


def test_a_path_that_all_nodes_share_stays_as_it_is() -> None:
    path = "/runs/x/storage/last.pt"

    assert not is_node_path(path)
    assert strip_node(path) == path


def test_names_that_nobody_chose_are_known() -> None:
    assert TEMPFILE_NAME.search("/x/tmpab12cd34.pt")
    assert not TEMPFILE_NAME.search("/x/tmp_model.pt")
    assert NAME_BY_CONTENT.search(f"{'0a' * 16}.safetensors")
    assert not NAME_BY_CONTENT.search("0a0a.safetensors")
