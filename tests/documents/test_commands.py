"""Every command in the documents is one that chaos takes, and is run unless a reason is named."""

import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer

from chaos.cli.commands import app
from chaos.extensions.preflight.verdict import EXIT
from chaos.extensions.pytest_plugin.options import Option
from tests.documents.blocks import (
    DOCUMENTS,
    PROGRAMS,
    ROOT,
    Block,
    Command,
    blocks,
    commands,
    inline_commands,
    inline_options,
    options_in,
)
from tests.documents.conftest import Desk
from tests.documents.exceptions import (
    DEAR,
    NOT_RUN,
    OTHERS_OPTIONS,
    READERS_OWN,
    RUN_ELSEWHERE,
    SMALLER,
)
from tests.documents.test_blocks import CALLS

CHAOS: Any = typer.main.get_command(app)
EVERY = commands()
# As where chaos is installed, though here it may not be.
PLUGIN = ("-p", "no:chaos", "-p", "chaos.extensions.pytest_plugin", "-p", "no:randomly")
# What the pages show is a job that does not stand, or not as it is set.
FINDS = {
    "chaos audit scenarios/jobs/digits_optimizer_lost.py": 1,
    "chaos preflight": EXIT["go with changes"],
}
_FILE = re.compile(r"[\w./-]+\.(py|yaml|csv)|scenarios[\w/.-]*")


def parsed(words: list[str]) -> None:
    """Read a command line as `chaos` does, and carry nothing out."""
    top = CHAOS.make_context("chaos", list(words))
    name, command, rest = CHAOS.resolve_command(top, list(words))
    command.make_context(name, rest, parent=top)


@pytest.mark.parametrize("command", EVERY, ids=str)
def test_a_command_is_taken_as_it_is_written(command: Command) -> None:
    assert command.program in PROGRAMS
    if command.program == "chaos":
        parsed(command.words)
    for first, second in pairwise(command.words):  # what uv and docker are to call
        if first == "chaos" and second in CHAOS.commands:
            parsed(command.words[command.words.index(second) :])
    if command.program == "make":
        targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert set(command.words) <= set(targets)


@pytest.mark.parametrize("command", EVERY, ids=str)
def test_the_files_that_a_command_names_are_there_or_the_readers_own(command: Command) -> None:
    named = [word for word in command.words if _FILE.fullmatch(word)]

    for name in named:
        assert name in READERS_OWN or (ROOT / name).exists(), name


@pytest.mark.parametrize("command", sorted({str(c.text) for c in inline_commands()}))
def test_a_command_in_the_prose_is_known_with_its_options(command: str) -> None:
    if command.startswith("make "):
        assert re.search(rf"^{command.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return
    name, *rest = command.split()[1:]
    if name.startswith("-"):
        assert name in {option for each in CHAOS.params for option in each.opts}
        return
    assert name in CHAOS.commands, name
    own = rest[: rest.index("--")] if "--" in rest else rest
    assert {word for word in own if word.startswith("-")} <= options_of(name)


def options_of(name: str) -> set[str]:
    """Return the options of a command."""
    params = CHAOS.commands[name].loaded.params
    return {option for each in params for option in (*each.opts, *each.secondary_opts)}


def test_every_option_that_the_prose_names_is_one_of_a_commands() -> None:
    shown = inline_options()
    known = {*Option, *(option for name in CHAOS.commands for option in options_of(name))}

    assert {name: at for name, at in shown.items() if name not in {*known, *OTHERS_OPTIONS}} == {}
    assert not known & {*OTHERS_OPTIONS}
    assert {*OTHERS_OPTIONS} <= {*shown}


@pytest.mark.parametrize("name", CHAOS.commands)
def test_the_help_of_a_command_names_no_option_that_it_lacks(name: str) -> None:
    command = CHAOS.commands[name].loaded
    texts = [command.help or "", *(str(getattr(each, "help", "")) for each in command.params)]
    known = {*OTHERS_OPTIONS, *options_of(name)}
    for text in texts:
        for other in re.findall(r"`chaos ([\w-]+)", text):  # named with its own options
            known |= options_of(other)

    assert [option for text in texts for option in options_in(text) if option not in known] == []


def test_every_exception_is_still_shown_and_has_its_test() -> None:
    shown = {command.text for command in EVERY}

    assert {*RUN_ELSEWHERE, *NOT_RUN, *SMALLER, *DEAR} <= shown
    assert not [test for test in RUN_ELSEWHERE.values() if not (ROOT / test).is_file()]
    assert all(NOT_RUN.values())
    documents = " ".join(command.text for command in EVERY)
    assert not [name for name in READERS_OWN if name not in documents and name != "my.chaos.yaml"]


def _runs() -> list[str]:
    """Return the commands to run here, in their order: each may need the one before."""
    texts = dict.fromkeys(command.text for command in EVERY)
    return [text for text in texts if text not in RUN_ELSEWHERE and text not in NOT_RUN]


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_all_other_commands_are_run(desk: Desk) -> None:
    for text in _runs():
        if text not in DEAR:
            _run(desk, text)


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_those_that_take_longer_are_run(desk: Desk) -> None:
    for text in DEAR:
        _run(desk, text)


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "block", [each for each in blocks("python") if CALLS.search(each.text)], ids=str
)
def test_what_python_calls_is_run(
    desk: Desk, block: Block, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(desk.folder)

    exec(compile(block.text, str(block), "exec"), {})

    assert capsys.readouterr().out


def _run(desk: Desk, text: str) -> None:
    command = Command("here", text.replace(*SMALLER.get(text, ("", ""))))
    words = [desk.filled_in(word) for word in command.words]
    if command.program == "pytest":  # its one test is run below; here, all are found
        words += [*PLUGIN, "--collect-only", "-q"]

    done = desk.call(command.program, *words)

    code = next((code for begins, code in FINDS.items() if text.startswith(begins)), 0)
    assert done.code == code, f"{text}: {done.out[-2000:]} {done.err[-2000:]}"
    if " > " in text:
        (desk.folder / text.rpartition(" > ")[2]).write_text(done.out)
    if "--format md" in text:
        assert done.out.startswith("#")


def test_what_is_run_here_is_what_the_readme_is_about() -> None:
    assert {text.split()[1] for text in _runs() if text.startswith("chaos ")} >= {
        "audit",
        "compare",
        "preflight",
        "replay",
        "from-trace",
        "rejudge",
        "report",
        "run",
    }


@pytest.mark.nightly
@pytest.mark.embedded
@pytest.mark.timeout(180)
def test_a_reader_who_follows_the_files_to_pytest_gets_a_passing_test(desk: Desk) -> None:
    done = desk.call("pytest", *PLUGIN, "test_train.py", "--chaos-backend", "fork")

    assert done.code == 0, done.out
    assert "1 passed" in done.out


@pytest.mark.nightly  # ten thousand simulated runs take some twenty seconds
@pytest.mark.timeout(180)
def test_the_answer_of_preflight_is_the_one_that_is_shown(desk: Desk) -> None:
    done = desk.call("chaos", "preflight", "big.preflight.yaml")
    said = " ".join(done.out.split())  # the page has lines of 80 characters, and a file has none

    shown = [" ".join(line.split()) for line in _shown("chaos preflight big")]
    assert not [line for line in shown if line not in said]


def _shown(command: str) -> list[str]:
    """Return the lines that a document shows a command to say."""
    text = (ROOT / "docs/preflight.md").read_text(encoding="utf-8")
    _, _, said = text.partition(f"$ .venv/bin/{command}")
    lines = said.partition("```")[0].splitlines()[1:]
    return [line.rstrip() for line in lines if line.strip() not in {"", "…"}]


def test_paths_in_the_documents_exist() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in DOCUMENTS}
    diffs = "".join(file.read_text(encoding="utf-8") for file in ROOT.glob("docs/examples/*.diff"))
    added = set(re.findall(r"^\+\+\+ b/(.*)$", diffs, re.MULTILINE))
    missing = [
        f"{document.name}: {name}"
        for document, text in texts.items()
        for name in re.findall(r"`((?:chaos|tests|scenarios|docs)/[\w./-]+)`", text)
        if not (ROOT / name).exists()
        and name not in added
        and not name.endswith("/x.py")  # any name
    ]

    assert not missing


@pytest.mark.parametrize("document", [*DOCUMENTS], ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(document: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8")):
        assert (document.parent / target).exists(), target
