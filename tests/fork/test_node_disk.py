"""A node's temporary folder is its own, short enough to bind sockets in, and gone with it."""

import os
from pathlib import Path

from chaos.backends.fork.node_disk import SOCKET_PATH_MAX, NodeDisk
from chaos.backends.train.address import RunAddress
from tests.fork.conftest import RunJob

JOB = Path(__file__).parent / "jobs/writes_around.py"


def address(directory: Path) -> RunAddress:
    return RunAddress(directory, "0123abcd", "unix:x")


def test_a_temporary_folder_lies_in_the_runs_folder_where_a_socket_has_room_there() -> None:
    disk = NodeDisk(address(Path("/home/me/reports/audits/a/runs/1")), "node-0")

    assert disk.tmp == Path("/home/me/reports/audits/a/runs/1/nodes/node-0/tmp")


def test_of_a_deep_folder_it_is_a_short_one_of_the_runs_own() -> None:
    disk = NodeDisk(address(Path("/home/me") / ("deep" * 20)), "node-0")

    assert disk.tmp == Path("/tmp/chaos-0123abcd/node-0")
    assert len(os.fsencode(disk.tmp)) < SOCKET_PATH_MAX - 40


def test_each_node_has_a_temporary_folder_of_its_own_and_none_is_left(
    run: RunJob, tmp_path: Path
) -> None:
    judged = run(script=JOB, workers=2, told=str(tmp_path / "told"))

    places = [(tmp_path / f"told-{rank}").read_text() for rank in range(2)]
    assert len(set(places)) == 2, judged.verdict.headline
    assert not any(Path(place).exists() for place in places)
    assert not (judged.directory.path / "nodes").exists()
