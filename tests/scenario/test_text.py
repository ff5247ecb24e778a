"""A file that a person wrote is read as text, in a time that does not depend on its size."""

import pkgutil
from pathlib import Path

import pytest

from chaos.errors import ScenarioError
from chaos.scenario_file.load import load_scenario
from tests.needs import needs_extension

PREFLIGHT = "chaos.extensions.preflight"
READERS = [
    ("chaos.scenario_file.load:load_scenario", "scenario", 1),
    *(
        pytest.param(f"{PREFLIGHT}.{function}", what, most, marks=needs_extension("preflight"))
        for function, what, most in (
            ("load:load_question", "question", 1),
            ("trace_files:load_trace", "trace", 8),
        )
    ),
]


@pytest.mark.parametrize(("read", "what", "most"), READERS)
def test_a_file_that_is_too_large_is_refused_unread(
    tmp_path: Path, read: str, what: str, most: int
) -> None:
    file = tmp_path / "x.yaml"
    file.write_bytes(b"- 1\n" * 2_500_000)

    with pytest.raises(ScenarioError, match=f"the {what} has more than {most} MiB") as caught:
        pkgutil.resolve_name(read)(file)
    assert caught.value.line == most * (1 << 18) + 1


@pytest.mark.parametrize(("read", "what", "most"), READERS)
def test_a_device_without_an_end_is_too_large(read: str, what: str, most: int) -> None:
    with pytest.raises(ScenarioError, match=f"the {what} has more than {most} MiB"):
        pkgutil.resolve_name(read)(Path("/dev/zero"))


@pytest.mark.parametrize(("read", "what", "most"), READERS)
def test_what_is_no_text_is_refused_at_its_line(
    tmp_path: Path, read: str, what: str, most: int
) -> None:
    del what, most
    file = tmp_path / "x.yaml"
    file.write_bytes(b"a: 1\nb: \xff\n")

    with pytest.raises(ScenarioError, match=r"x\.yaml:2: this is not UTF-8 text\. \w+"):
        pkgutil.resolve_name(read)(file)


def test_a_mark_before_the_text_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "x.chaos.yaml"
    file.write_text("\ufeffscenario: x\njob: {train_loop: 'a:b', workers: 2}\n", encoding="utf-8")

    assert load_scenario(file).scenario == "x"


@pytest.mark.filterwarnings("error")
def test_a_name_that_is_given_twice_means_the_newer_one_and_is_no_warning(tmp_path: Path) -> None:
    file = tmp_path / "x.chaos.yaml"
    file.write_text(
        "scenario: x\njob: {train_loop: 'a:b', workers: 2, args: {a: &n 1, b: &n 2, c: *n}}\n"
    )

    assert load_scenario(file).job.args == {"a": 1, "b": 2, "c": 2}
