"""How full the memory is, of the machine or of the container that holds us."""

from pathlib import Path

from chaos.processes.memory_monitor import find_largest, measure_used_share
from chaos.run.machine import free_bytes

GIB = 2**30


def cgroup(folder: Path, *, limit: str, current: int, inactive: int) -> Path:
    (folder / "memory.max").write_text(limit)
    (folder / "memory.current").write_text(str(current))
    (folder / "memory.stat").write_text(f"anon 5\ninactive_file {inactive}\n")
    return folder


def test_a_containers_own_limit_counts_and_its_file_cache_does_not(tmp_path: Path) -> None:
    full = cgroup(tmp_path, limit=str(100 * GIB), current=99 * GIB, inactive=0)
    assert measure_used_share(full) == 0.99

    cached = cgroup(tmp_path, limit=str(100 * GIB), current=99 * GIB, inactive=98 * GIB)
    assert measure_used_share(cached) < 0.99


def test_a_container_without_a_limit_is_as_full_as_its_machine(tmp_path: Path) -> None:
    unlimited = cgroup(tmp_path, limit="max", current=99 * GIB, inactive=0)

    assert 0 < measure_used_share(unlimited) < 1
    assert 0 < measure_used_share(tmp_path / "nowhere") < 1


def test_no_process_is_the_largest_of_none() -> None:
    assert find_largest([]) is None


def test_a_container_has_what_its_limit_leaves_and_its_file_cache(tmp_path: Path) -> None:
    small = cgroup(tmp_path, limit=str(2 * 2**20), current=2 * 2**20, inactive=2**19)
    assert free_bytes(small) == 2**19

    assert free_bytes(tmp_path / "nowhere") > 0
