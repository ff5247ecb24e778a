"""Which line of a job runs, and which one gives a name its value."""

import json
import linecache
import sys
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest
import torch

from chaos.model.event import CodeLine
from chaos.model.masking import MASK
from chaos.probe.job_code import find_naming_line, find_running_line, is_job_file
from tests.accepted import expect_text

JOB = '''\
"""A job."""

import sys

LIMIT = 3


class Trainer:
    def __init__(self, rate, other):
        self.rate = rate
        other.value = 1

    def start(self):
        self.count, self.seen = 0, []
        self.rate = 2 * self.rate

    @property
    def half(self):
        return self.rate / 2


class Router:
    def __init__(self):
        self.register_buffer("bias", 0)


def train(rate):
    trainer = Trainer(rate, sys)
    for step in range(1):
        with open(__file__) as file:
            pass
    rate = 2 * rate
    def inner():
        hidden = 1
        return hidden
    return inner() and sys._getframe(), trainer, running_line()
'''


@pytest.fixture
def job(tmp_path: Path) -> ModuleType:
    file = tmp_path / "job.py"
    file.write_text(JOB, encoding="utf-8")
    module = ModuleType("job")
    module.__dict__.update(__file__=str(file), running_line=find_running_line)
    exec(compile(JOB, str(file), "exec"), module.__dict__)
    linecache.checkcache(str(file))
    return module


def text(code: CodeLine | None) -> str | None:
    return None if code is None else code.around[code.line - code.first].strip()


def ran(job: ModuleType) -> tuple[FrameType, Any, CodeLine]:
    found: tuple[FrameType, Any, CodeLine] = job.train(0.1)
    return found


def test_the_running_line_is_the_innermost_of_the_job_with_its_neighbours(job: ModuleType) -> None:
    _, _, line = ran(job)

    expect_text(text(line))
    assert (line.line - line.first, len(line.around)) == (2, 3)
    assert line.around[0] == "        hidden = 1"
    assert line.file == job.__file__


def test_a_variable_has_the_first_line_that_sets_it(job: ModuleType) -> None:
    frame, _, _ = ran(job)

    assert text(find_naming_line(frame, "trainer")) == "trainer = Trainer(rate, sys)"
    assert text(find_naming_line(frame, "step")) == "for step in range(1):"
    assert text(find_naming_line(frame, "file")) == "with open(__file__) as file:"
    assert find_naming_line(frame, "hidden") is None


def test_a_global_is_found_in_its_file(job: ModuleType) -> None:
    assert text(find_naming_line(job.__dict__, "LIMIT")) == "LIMIT = 3"
    assert find_naming_line(job.__dict__, "train") is None
    assert find_naming_line({"LIMIT": 3}, "LIMIT") is None


def test_an_attribute_is_found_in_the_methods_of_its_class(job: ModuleType) -> None:
    _, trainer, _ = ran(job)

    assert text(find_naming_line(trainer, "rate")) == "self.rate = rate"
    assert text(find_naming_line(trainer, "seen")) == "self.count, self.seen = 0, []"
    assert find_naming_line(trainer, "value") is None, "it is another object's"
    expect_text(text(find_naming_line(job.Router, "bias")))


def test_what_is_no_name_or_of_a_library_has_no_line() -> None:
    assert find_naming_line([1], 0) is None
    assert find_naming_line(torch.nn.Linear(1, 1), "in_features") is None
    assert not is_job_file(json.__file__)


def test_a_file_that_is_gone_or_no_python_has_no_lines(tmp_path: Path) -> None:
    odd = tmp_path / "odd.py"
    odd.write_text("x = = 1\n", encoding="utf-8")

    assert find_naming_line({"__file__": str(odd)}, "x") is None
    assert find_naming_line({"__file__": str(tmp_path / "gone.py")}, "x") is None


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ('api_key = "abc"', f"api_key = {MASK}"),
        ('login(token="abc", user="me")', f"login(token={MASK}, user={MASK})"),
        ('{"password": "abc"}', f"{{{MASK}: {MASK}}}"),
        ('state["key"] = value', 'state["key"] = value'),
        ("url = 's3://u:p@host/x'", f"url = 's3://{MASK}@host/x'"),
    ],
)
def test_secrets_in_the_code_are_not_shown(tmp_path: Path, line: str, shown: str) -> None:
    file = tmp_path / "secrets.py"
    file.write_text(f"x = 1\n{line}\n", encoding="utf-8")

    code = find_naming_line({"__file__": str(file)}, "x")

    assert code is not None
    assert code.around == ("x = 1", shown)


def test_a_long_line_is_cut(tmp_path: Path) -> None:
    file = tmp_path / "long.py"
    file.write_text(f"x = {'1' * 500}\n", encoding="utf-8")

    code = find_naming_line({"__file__": str(file)}, "x")

    assert code is not None
    assert len(code.around[0]) == 100
    assert sys.getsizeof(code.around[0]) < 200
