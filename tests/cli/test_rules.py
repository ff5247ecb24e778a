"""Options that exclude each other are refused by what they declare, whichever command has them."""

import itertools
import shlex
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer

from chaos.app.field_rules import Excludes, FieldUses, Needs, check_fields
from chaos.app.option_names import describe_option
from chaos.cli.command_table import CommandEntry, list_commands
from chaos.cli.commands import app
from chaos.cli.rules import list_options
from chaos.errors import RequestError
from tests.called import chaos
from tests.needs import needs_extension


def command(
    place: Annotated[str | None, typer.Option("--place"), Needs("trace")] = None,
    trace: Annotated[bool, typer.Option("--trace")] = False,
    jobs: Annotated[
        int | None, typer.Option("--jobs", "-j"), Excludes("trace", "no jobs", unless=1)
    ] = None,
    by: Annotated[
        str, typer.Option("--by"), Excludes("jobs", "never three", values=(3,))
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
    uses = FieldUses(list_options(command, params))
    if problem is None:
        check_fields(uses)
        return
    with pytest.raises(RequestError) as refused:
        check_fields(uses)
    assert problem in str(refused.value.rename_fields(describe_option))


def find_command(name: str) -> Any:
    group: Any = typer.main.get_command(app)
    return group.commands[name].loaded


@pytest.mark.parametrize("entry", list_commands(), ids=lambda entry: entry.name)
def test_every_rule_names_options_of_its_command(entry: CommandEntry) -> None:
    function = entry.load_function()
    options = list_options(function, {})
    rules = {name: option.rules for name, option in options.items() if option.rules}
    other_names = {
        rule.other_field
        for rule in itertools.chain(*rules.values())
        if isinstance(rule, Needs | Excludes)
    }

    assert other_names <= {*options}
    params = {param.name: param for param in find_command(entry.name).params}
    for parameter in {*rules, *other_names}:  # so that an error names the option
        assert params[parameter].opts[0] == describe_option(parameter)


SCRIPT = "import argparse\nargparse.ArgumentParser().add_argument('--epochs')\nworkers = 2\n"


@pytest.mark.parametrize(
    ("words", "option", "line"),
    [
        ("audit train.py --epochs 3", "--epochs", "audit train.py -- --epochs 3"),
        pytest.param(
            *("search train.py --epochs=3", "--epochs", "search train.py -- --epochs=3"),
            marks=needs_extension("lab"),
        ),
        pytest.param(
            *("init train.py -lr .1", "-lr", "init train.py -- -lr .1"),
            marks=needs_extension("init"),
        ),
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

    lines = (
        f"chaos: {option} is no option of chaos. Did you mean {meant}?",
        f"  chaos audit train.py {meant} 3",
        "Arguments of the script follow --:",
        f"  chaos audit train.py -- {option} 3",
    )
    assert done.err == "\n".join((*lines, ""))


@pytest.mark.parametrize("words", ["audit --nope", "audit nothing.py --nope", "run --nope x"])
def test_without_a_script_an_unknown_option_is_told_as_ever(tmp_path: Path, words: str) -> None:
    done = chaos(*words.split(), folder=tmp_path)

    assert done.code == 3
    assert "no option of chaos" not in done.err or "nothing.py" in words
