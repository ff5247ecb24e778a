"""What a command takes, the function of its name in Python takes as well."""

import inspect
from typing import Any

import typer

import chaos
from chaos.cli.commands import app


def test_the_keywords_of_an_audit_are_the_options_of_the_command() -> None:
    command: Any = typer.main.get_command(app)
    options = {
        each.name: each
        for each in command.commands["audit"].loaded.params
        if each.param_type_name == "option"
    }
    taken = set(inspect.signature(chaos.audit).parameters) - {"script", "args", "quiet"}

    assert taken == options.keys() - {"form", "output", "help"}
