"""The mutants of a module: each is one change, none touches what is only read."""

from collections import Counter
from pathlib import Path

import pytest

from tests.mutation.hunt import PACKAGES, wilson
from tests.mutation.mutants import drawn, mutants

ROOT = Path(__file__).parents[2]
FILES = sorted(file for name in PACKAGES for file in (ROOT / "chaos" / name).glob("*.py"))
SAMPLE = FILES[::12]


def made_of(line: str) -> list[str]:
    source = line.encode()
    return [mutant.applied(source).decode() for mutant in mutants("a.py", source)]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a < b", ["(a >= b)", "(a <= b)"]),
        ("a == b", ["(a != b)"]),
        ("a and b", ["(a or b)", "(b)", "(a)"]),
        ("not a", ["(a)"]),
        ("a - b", ["(a + b)"]),
        ("a += b", ["a -= b"]),
        ("-a", ["(a)"]),
        ("a = 3", ["a = (4)", "a = (2)"]),
        ("a = 5_000", ["a = (10000)", "a = (0)"]),
        ("a = True", ["a = (False)"]),
        ("a = 'valid'", ["a = ('XXvalid')"]),
        ("a if b else c", ["a if (True) else c", "a if (False) else c"]),
        ("[a for a in b if c]", ["([a for a in b])"]),
        ("b = any(a)", ["b = (all(a))"]),
        ("a.append(b)", ["pass"]),
    ],
)
def test_each_kind_of_wrong_is_done(line: str, expected: list[str]) -> None:
    assert made_of(line) == expected


def test_what_a_function_gives_is_taken_away() -> None:
    assert made_of("def f():\n    return a") == ["def f():\n    return None"]
    assert made_of("def f():\n    yield a") == ["def f():\n    yield from ()"]


@pytest.mark.parametrize(
    "line",
    [
        '"""A docstring."""',
        "a = 'some words'",
        "a = f'{b < c}'",
        "assert a < b",
        "a: Literal['b']",
        "A: TypeAlias = dict[Literal['b'], int]",
        "a = f(message='b')",
        "a = plural(b, 'step')",
        "@dataclass(frozen=True)\nclass A: ...",
        "a = None",
    ],
)
def test_what_no_judgement_hangs_on_is_left_alone(line: str) -> None:
    assert made_of(line) == []


@pytest.mark.parametrize(
    "file",
    [pytest.param(f, id=f.name, marks=() if f in SAMPLE else pytest.mark.nightly) for f in FILES],
)
def test_every_mutant_of_a_check_is_another_module_that_compiles(file: Path) -> None:
    source = file.read_bytes()
    for mutant in mutants(file.name, source):
        assert mutant.applied(source) != source
        compile(mutant.applied(source), file.name, "exec")


def test_letters_beyond_ascii_move_nothing() -> None:
    assert made_of("a = 'ü x'; b = 3")[0] == "a = 'ü x'; b = (4)"


def test_a_sample_is_the_same_for_the_same_seed_wherever_the_lines_have_moved_to() -> None:
    source = FILES[0].read_bytes() + FILES[1].read_bytes()
    keys = [mutant.key for mutant in drawn(mutants("a.py", source), 9, seed=1)]
    moved = [mutant.key for mutant in drawn(mutants("a.py", b"\n\n" + source), 9, seed=1)]
    other = [mutant.key for mutant in drawn(mutants("a.py", source), 9, seed=2)]

    assert keys == moved
    assert keys != other


def test_no_two_mutants_are_taken_for_one() -> None:
    keys = Counter(m.key for file in FILES for m in mutants(file.name, file.read_bytes()))

    assert max(keys.values()) == 1


def test_the_interval_of_a_share_stays_within_nought_and_one() -> None:
    low, high = wilson(90, 100)

    assert (round(low, 3), round(high, 3)) == (0.826, 0.945)
    assert wilson(10, 10)[1] == pytest.approx(1)
    assert wilson(0, 10)[0] == pytest.approx(0)
