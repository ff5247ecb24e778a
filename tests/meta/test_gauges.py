"""How easily the code is read may only become better: each gauge is at most what is recorded."""

import ast
import shutil
from pathlib import Path

import pytest

from tests.tools import gauges

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.timeout(300)  # each measure parses all of chaos
PLANTED = """\
class Finding: ...
class Finding: ...
def told_of(found, due: tuple[int, int]):
    seen, victim = found, due
    if facts.has_reports or "queue" in facts.features:
        probe.listener = seen
"""


@pytest.fixture(scope="module")
def actual() -> gauges.Gauges:
    """Return the gauges of the tree, measured once: each parses all of chaos."""
    return gauges.measure(ROOT)


def test_no_gauge_is_worse_than_recorded(actual: gauges.Gauges) -> None:
    problems = list(gauges.find_worse(actual, gauges.load_recorded()))

    assert not problems, "\n".join(problems) + "\nmend it; `python -m tests.tools.gauges` shows all"


def test_what_has_fallen_is_recorded(actual: gauges.Gauges) -> None:
    """So that no later commit can lose what one has earned."""
    recorded = gauges.load_recorded()
    slack = [
        f"{name}: {package}"
        for name in ("odd names, %", "odd function names, %")
        for package, count in recorded[name].items()  # type: ignore[union-attr]
        if count > actual[name].get(package, 0) + 0.5  # type: ignore[union-attr]
    ]

    assert not slack, f"run `python -m tests.tools.gauges --lower`: {slack}"


@pytest.mark.parametrize(
    "gauge",
    [
        "odd names, % of check",
        "odd function names, % of check",
        "names in words that pages may not use",
        "class names defined twice",
        "questions about a launcher's features outside launch/",
        "attributes assigned from outside",
        "functions assigned from outside in probe and guard",
        "bare tuples",
        "lines of check",
        "lines of the core",
        "words in docs",
        "sentences above 30 words, %",
        "test files without a module of their name",
        "modules without a test file of their name, %",
        "asserts on wording",
    ],
)
def test_a_worse_file_is_noticed(gauge: str, worse: list[str]) -> None:
    assert any(problem.startswith(f"{gauge}:") for problem in worse), worse


@pytest.fixture(scope="module")
def worse(tmp_path_factory: pytest.TempPathFactory, actual: gauges.Gauges) -> list[str]:
    """Return what is worse in a copy of the tree with a planted module, page and test."""
    root = tmp_path_factory.mktemp("tree")
    for folder in ("chaos", "docs", "tests"):
        shutil.copytree(
            ROOT / folder, root / folder, ignore=lambda at, names: _useless(Path(at), names)
        )
    (root / "chaos/check/of_no_test.py").write_text(PLANTED * 40, encoding="utf-8")
    (root / "chaos/probe/late.py").write_text(LATE, encoding="utf-8")
    (root / "docs/planted.md").write_text("word " * 5000 + ".\n\n" + LONG * 400, encoding="utf-8")
    (root / "tests/check/test_zebra_of_none.py").write_text(ASSERTS, encoding="utf-8")
    return list(gauges.find_worse(gauges.measure(root), actual))


LATE = """\
class Hook:
    def __init__(self, find_stop): self.on_step, self.find_stop = lambda: None, find_stop
    def step_done(self): self.find_stop()
class Probe:
    def install(self, hook, torch):
        hook.find_stop = self.find_stop
        hook.step_done = self.note_step
    def replace(self, torch): torch.step_done = wrap(torch.step_done)
"""
ASSERTS = """\
assert "a sentence of more than thirty letters" in text
assert f"{name} is a sentence of more than thirty letters" == text
assert "short, and " "joined to a sentence of thirty" not in text
"""
LONG = "word " * 31 + "end.\n\n"


def _useless(folder: Path, names: list[str]) -> set[str]:
    is_kept = (".py", ".md")
    return {n for n in names if (folder / n).is_file() and not n.endswith(is_kept)}


def test_only_what_fell_is_written_but_lines_may_move_between_packages() -> None:
    recorded: gauges.Gauges = {"a": 3, "lines": {"check": 10, "guard": 5}}

    assert gauges.lower_recorded({"a": 4, "lines": {"check": 9, "guard": 6}}, recorded) == {
        "a": 3,
        "lines": {"check": 9, "guard": 6},
    }
    assert gauges.lower_recorded({"a": 2, "lines": {"check": 12, "guard": 4}}, recorded) == {
        "a": 2,
        "lines": {"check": 10, "guard": 4},
    }


@pytest.mark.parametrize(
    ("file", "module"), [("test_saves.py", "saves"), ("test_own_saves_lost.py", "own_saves"),
                         ("test_saves_of_ranks.py", "saves"), ("test_savesome.py", None)],
)  # fmt: skip
def test_a_test_file_bears_the_longest_name_of_a_module(file: str, module: str | None) -> None:
    assert gauges.find_module_name(Path(file), ["own", "own_saves", "saves"]) == module


@pytest.mark.parametrize(
    ("name", "is_odd"), [("told_of", True), ("of", True), ("held_steps", True), ("step_of", True),
                         ("find_saves", False), ("is_due", False), ("restart_after_fault", False)],
)  # fmt: skip
def test_a_functions_name_neither_begins_nor_ends_with_a_preposition(
    name: str, *, is_odd: bool
) -> None:
    assert gauges.is_odd_function(name) is is_odd


def test_a_function_that_is_assigned_late_is_told_from_one_of_a_library_that_is_replaced() -> None:
    late = [ast.unparse(target) for target in gauges.late_callables([ast.parse(LATE)])]

    assert late == ["hook.find_stop", "hook.step_done"]


def test_identifiers_are_read_as_prose_is() -> None:
    names = list(gauges.bound_names(ast.parse("struck = told = 1\ndef f(victims): ...")))

    assert [name for name in names if gauges.is_dialect(name)] == ["struck", "victims"]
