"""What a command takes, the function of its name in Python takes as well."""

import inspect
import pydoc
from typing import Any

import pytest
import typer

import chaos
from chaos.cli.commands import app


@pytest.mark.parametrize(
    ("function", "keyword", "meant"),
    [(chaos.audit, "time_limt", "time_limit"), (chaos.run, "bakend", "backend")],
)
def test_a_misspelt_keyword_is_answered_with_the_right_one(
    function: Any, keyword: str, meant: str
) -> None:
    with pytest.raises(TypeError, match=rf"'{keyword}'. Did you mean {meant}\?$"):
        function("train.py", **{keyword: 3})


def test_the_help_of_a_callable_package_begins_with_the_call() -> None:
    assert (
        pydoc.plain(pydoc.render_doc(chaos.audit))
        .partition("chaos.audit - ")[2]
        .startswith("audit(script, args=(), **keywords)")
    )


def test_the_keywords_of_an_audit_are_the_options_of_the_command() -> None:
    command: Any = typer.main.get_command(app)
    options = {
        each.name: each
        for each in command.commands["audit"].loaded.params
        if each.param_type_name == "option"
    }
    taken = set(inspect.signature(chaos.audit).parameters) - {"script", "args", "quiet"}

    assert taken == options.keys() - {"form", "output", "help", "verbose", "quiet"}
