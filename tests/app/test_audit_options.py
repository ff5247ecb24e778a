"""Each field of a request is an option with its name and its default."""

from dataclasses import fields
from typing import Any

import typer

from chaos.app.audit_options import AuditOptions
from chaos.app.audit_request import AuditRequest
from chaos.app.option_names import describe_option
from chaos.cli.commands import app

NAMES = [item.name for item in fields(AuditRequest) if item.name not in ("script", "arguments")]


def asked(**options: Any) -> AuditRequest:
    return AuditRequest.parse("train.py", (), options)


def options_of_the_command() -> dict[str, Any]:
    command: Any = typer.main.get_command(app)
    params = command.commands["audit"].loaded.params
    return {
        each.name: each
        for each in params
        if each.param_type_name == "option" and each.name not in ("form", "output", "help")
    }


def test_each_field_is_an_option_with_its_name_and_its_default() -> None:
    options, request = options_of_the_command(), asked()

    assert list(AuditOptions.__annotations__) == NAMES
    # How much of the card is printed is no matter of the audit.
    assert {*NAMES} == {*options} - {"verbose", "quiet"}
    for name in NAMES:
        assert describe_option(name) == options[name].opts[0]
        default = options[name].default
        assert default in (None, []) or default == getattr(request, name), name
