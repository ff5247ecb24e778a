"""Options that exclude each other are refused by what they declare, whichever command has them."""

import shlex
from importlib import import_module
from pathlib import Path
from typing import Annotated

import pytest
import typer

from chaos.cli.commands import COMMANDS, CommandEntry
from chaos.cli.rules import ExcludesOption, RequiresOption, list_options, refuse_contradictions
from chaos.errors import UsageError
from tests.called import chaos


def command(
    place: Annotated[str | None, typer.Option("--place"), RequiresOption("trace")] = None,
    trace: Annotated[bool, typer.Option("--trace")] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j"), ExcludesOption("trace", "no jobs", unless=1)
    ] = None,
    by: Annotated[
        str, typer.Option("--by"), ExcludesOption("jobs", "never three", values=(3,))
    ] = "clock",
) -> None:
    """Do nothing."""
    del place, trace, jobs, by


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"place": "here"}, "--place goes with --trace"),
        ({"place": "here", "trace": True}, None),
        ({"jobs": 2, "trace": True}, "no jobs"),
        ({"jobs": 1, "trace": True}, None),
        ({"jobs": 0, "trace": True}, "no jobs"),  # 0 is a number that was given
        ({"jobs": 2}, None),
        ({"by": "steps", "jobs": 3}, "never three"),
        ({"by": "steps", "jobs": 2}, None),
        ({"by": "clock", "jobs": 3}, None),  # the default asks for nothing
    ],
)
def test_what_is_given_is_held_to_its_rules(given: dict[str, object], problem: str | None) -> None:
    params = {"by": "clock", "trace": False, **given}
    if problem is None:
        refuse_contradictions(command, params)
        return
    with pytest.raises(UsageError, match=problem):
        refuse_contradictions(command, params)


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_every_rule_names_a_parameter_of_its_command(entry: CommandEntry) -> None:
    module, _, name = entry.function.partition(":")
    options = list_options(getattr(import_module(f"chaos.cli.{module}"), name), {})

    rules = [rule for option in options.values() for rule in option.rules]
    assert all(
        rule.parameter in options
        for rule in rules
        if isinstance(rule, RequiresOption | ExcludesOption)
    )


SCRIPT = "import argparse\nargparse.ArgumentParser().add_argument('--epochs')\nworkers = 2\n"


@pytest.mark.parametrize(
    ("words", "option", "line"),
    [
        ("audit train.py --epochs 3", "--epochs", "audit train.py -- --epochs 3"),
        ("search train.py --epochs=3", "--epochs", "search train.py -- --epochs=3"),
        ("init train.py -lr .1", "-lr", "init train.py -- -lr .1"),
        ("audit --jobs 2 --lr 3 train.py", "--lr", "audit train.py --jobs 2 -- --lr 3"),
        (
            "audit train.py --seed 3 --lr 3 --one-by-one --name 'a b' more -- --last",
            "--lr",
            "audit train.py --seed 3 --one-by-one -- --lr 3 --name 'a b' more --last",
        ),
    ],
)
def test_an_option_of_the_script_is_answered_with_the_line_to_paste(
    tmp_path: Path, words: str, option: str, line: str
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)

    done = chaos(*shlex.split(words), folder=tmp_path)

    told = (
        f"chaos: {option} is no option of chaos. Arguments of the script follow --:\n  chaos {line}"
    )
    assert (done.code, done.err.strip()) == (3, told)


@pytest.mark.parametrize(
    ("option", "meant"),
    [
        ("--worker", "--workers"),
        ("--timelimit", "--time-limit"),
        ("--epochs-step", "--epoch-steps"),
    ],
)
def test_an_option_of_chaos_in_other_letters_is_answered_with_the_right_one(
    tmp_path: Path, option: str, meant: str
) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)

    done = chaos("audit", "train.py", option, "3", folder=tmp_path)

    assert f"{option} is no option of chaos. Did you mean {meant}? Arguments of" in done.err


@pytest.mark.parametrize("words", ["audit --nope", "audit nothing.py --nope", "run --nope x"])
def test_without_a_script_an_unknown_option_is_told_as_ever(tmp_path: Path, words: str) -> None:
    done = chaos(*words.split(), folder=tmp_path)

    assert done.code == 3
    assert "no option of chaos" not in done.err or "nothing.py" in words
