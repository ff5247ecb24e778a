"""The operations at which the benchmark of the guard has strace kill a process."""

import random
from pathlib import Path

from tests.bench.guard import Operation, drawn_from, operations

TRACE = """\
7 openat(AT_FDCWD</job>, "last.pt.tmp", O_WRONLY|O_CREAT|O_CLOEXEC, 0666) = 3
7 write(3</job/last.pt.tmp>, "PK", 2) = 2
8 write(3</job/last.pt.tmp>, "PK", 2) = 2
7 write(3</job/last.pt.tmp>, "PK", 2 <unfinished ...>
7 <... write resumed>) = 2
7 write(1</job/log>, "step 1", 6) = 6
7 writev(5<socket:[17]>, [{iov_base="x", iov_len=1}], 1) = 1
7 openat(AT_FDCWD</job>, "last.pt", O_RDONLY|O_CLOEXEC) = 3</job/last.pt>
7 write(9</guard/steps>, "x", 1) = 1
7 rename("last.pt.tmp", "last.pt") = 0
"""
EVERY = [
    Operation("openat", "last.pt.tmp", 1),
    Operation("write", "/job/last.pt.tmp", 1),
    Operation("write", "/job/last.pt.tmp", 1),
    Operation("write", "/job/last.pt.tmp", 2),
    Operation("rename", "last.pt.tmp", 1),
]


def test_what_changes_a_file_of_the_jobs_is_counted_for_each_thread() -> None:
    assert operations(TRACE, Path("/job")) == EVERY


def test_of_each_kind_one_is_drawn_before_a_second_one() -> None:
    drawn = drawn_from(EVERY, 4, random.Random(0))

    assert {each.call for each in drawn[:3]} == {"openat", "write", "rename"}
    assert len(drawn) == 4
    assert len(drawn_from(EVERY, 99, random.Random(0))) == len(EVERY)


def test_a_process_is_killed_at_its_operation_on_that_path_alone() -> None:
    words = Operation("rename", "last.pt.tmp", 3).killed_at()

    assert words[words.index("-P") + 1] == "last.pt.tmp"
    assert words[-1] == "inject=rename:signal=KILL:when=3"
