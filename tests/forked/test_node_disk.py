"""A node's temporary folder is its own, short enough to bind sockets in, and gone with it."""

import json
import os
import signal
import tempfile
from pathlib import Path

import pytest

from chaos.launch.node_disk import (
    SOCKET_PATH_MAX,
    NodeDisk,
    build_node_disk,
    remove_disks,
    reserve_short_folder,
)
from chaos.model.scenario import Scenario
from chaos.model.tiers import Tiers
from chaos.plan.make import make_plan
from chaos.probe.address import RunAddress
from chaos.processes.tree import find_written_files
from chaos.run import held_folders
from tests.forked.conftest import RunJob

JOB = Path(__file__).parent / "jobs/writes_around.py"


def address(directory: Path) -> RunAddress:
    return RunAddress(directory, "0123abcd", "unix:x")


def test_a_temporary_folder_lies_in_the_runs_folder_where_a_socket_has_room_there() -> None:
    disk = NodeDisk(address(Path("/home/me/reports/audits/a/runs/1")), "node-0")

    assert disk.tmp == Path("/home/me/reports/audits/a/runs/1/nodes/node-0/tmp")


def test_of_a_deep_folder_it_is_a_short_one_of_the_runs_own() -> None:
    disk = NodeDisk(address(Path("/home/me") / ("deep" * 20)), "node-0")

    assert disk.tmp == Path("/tmp/chaos-0123abcd.held/node-0")
    assert len(os.fsencode(disk.tmp)) < SOCKET_PATH_MAX - 40


@pytest.mark.parametrize("depth", range(30, 70))
def test_the_harness_holds_the_folder_that_any_node_lives_in(depth: int) -> None:
    """A folder that nobody holds is removed by the next harness that starts."""
    run = address(Path("/") / ("d" * depth))

    reserve_short_folder(run)
    held = held_folders.build_path("chaos-0123abcd").exists()
    remove_disks(run)

    lie_there = {
        NodeDisk(run, name).tmp.is_relative_to(held_folders.build_path("chaos-0123abcd"))
        for name in ("head", "node-0", "node-10", "node-new-12", "start")
    }
    assert lie_there == {held}


def test_the_short_folder_is_the_users_alone_and_goes_with_the_run() -> None:
    run = address(Path("/home/me") / ("deep" * 20))
    folder = NodeDisk(run, "node-0").tmp.parent

    reserve_short_folder(run)
    assert folder.stat().st_mode & 0o777 == 0o700
    held_folders.sweep()
    assert folder.exists()
    remove_disks(run)
    assert not folder.exists()


def test_each_node_has_a_temporary_folder_of_its_own_and_none_is_left(
    run: RunJob, tmp_path: Path
) -> None:
    judged = run(script=JOB, workers=2, told=str(tmp_path / "told"))

    places = [(tmp_path / f"told-{rank}").read_text() for rank in range(2)]
    assert len(set(places)) == 2, judged.verdict.headline
    assert not any(Path(place).exists() for place in places)
    assert not (judged.directory.path / "nodes").exists()


def test_a_lost_node_takes_along_what_it_alone_wrote_below_the_hosts_temporary_folder(
    tmp_path: Path,
) -> None:
    run = address(tmp_path / "run")
    lost, other = NodeDisk(run, "node-0"), NodeDisk(run, "node-1")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="chaos-test-") as folder:
        names = ("its_own", "shared", "data")
        paths = [Path(folder) / name for name in names]
        for path in paths:
            path.touch()
        wrote(lost, [(str(path), path.name != "data") for path in paths])
        wrote(other, [(str(paths[1]), True)])
        reserve_short_folder(run)
        lost.tmp.mkdir(parents=True)

        lost.simulate_loss()

        assert [path.exists() for path in paths] == [False, True, True]
        assert not lost.tmp.exists()
        remove_disks(run)


@pytest.mark.parametrize(("code", "is_left"), [("project", True), ("", False), ("/tmp", False)])
def test_a_project_below_the_hosts_temporary_folder_is_on_no_nodes_disk(
    tmp_path: Path, code: str, *, is_left: bool
) -> None:
    run = address(tmp_path / "run")
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="chaos-test-") as folder:
        project = Path(folder, "project")
        project.mkdir()
        inside, beside = project / "save.pt", Path(folder, "save.pt")
        inside.touch()
        beside.touch()
        cwd = Path(folder, code) if code else Path("/home")
        told = Scenario.model_validate(
            {"scenario": "s", "job": {"script": "train.py", "workers": 1}}
        )
        plan = make_plan(told, file=cwd / "s.chaos.yaml", seed=0, cwd=cwd)
        lost = NodeDisk(run, "node-0", tiers=Tiers.from_plan(plan, normalize=os.path.realpath))
        wrote(lost, [(str(inside), True), (str(beside), True)])

        lost.simulate_loss()

        assert (inside.exists(), beside.exists()) == (is_left, False)


def test_a_lost_node_takes_along_its_workers_working_directory(tmp_path: Path) -> None:
    run = address(tmp_path / "run")
    lost, other = NodeDisk(run, "node-0"), NodeDisk(run, "node-1")
    stored, session = run.directory / "storage/run/state.npz", run.directory / "storage/.session/a"
    for path in (stored, session):
        path.parent.mkdir(parents=True)
        path.touch()
    wrote(lost, [(str(stored), False), (str(session), False)])
    wrote(other, [])

    lost.simulate_loss()

    assert [path.exists() for path in (stored, session)] == [True, False]


def wrote(disk: NodeDisk, lines: list[tuple[str, bool]]) -> None:
    fields = [
        {"path": path, "how": "created", "pid": 1, "is_output": is_output}
        for path, is_output in lines
    ]
    ledger = disk.run.directory / "nodes" / disk.node_id / "written.jsonl"
    ledger.parent.mkdir(parents=True)
    ledger.write_text("".join(f"{json.dumps(line)}\n" for line in fields))


def cut_off(disk: NodeDisk, files: list[Path], log: Path) -> set[str]:
    """Return the files that a process of a node was writing when it was killed."""
    child = os.fork()
    if not child:
        disk.use()
        for path in (files[0], files[-1], log):
            path.write_text("of the first save")
        held = [*(path.open("w") for path in files), log.open("a")]
        for file in held:
            file.write("of the second")
            file.flush()
        os.kill(os.getpid(), signal.SIGSTOP)
    os.waitpid(child, os.WUNTRACED)
    unfinished = find_written_files([child])
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return unfinished


def test_a_bucket_has_a_file_of_a_lost_node_as_a_whole_or_as_it_was_before(tmp_path: Path) -> None:
    run = address(tmp_path / "run")
    made = {
        "scenario": "s",
        "storage": {"bucket": "bucket"},
        "job": {"script": "t.py", "workers": 1},
    }
    told = Scenario.model_validate(made)
    plan = make_plan(told, file=tmp_path / "s.chaos.yaml", seed=0, cwd=tmp_path)
    (tmp_path / "bucket").mkdir()
    new, newer, shared = (tmp_path / name for name in ("bucket/1", "bucket/2", "shared"))
    log = tmp_path / "link/log"
    log.parent.symlink_to("bucket")
    reserve_short_folder(run)
    unfinished = cut_off(build_node_disk(plan, run, "node-0"), [new, newer, shared], log)

    build_node_disk(plan, run, "node-0").simulate_loss(unfinished=unfinished)
    remove_disks(run)

    assert new.read_text() == log.read_text() == "of the first save"
    assert not newer.exists()
    assert shared.read_text() == "of the second"
