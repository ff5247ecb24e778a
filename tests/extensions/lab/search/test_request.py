"""A request of a search: its fields are the command's options."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

from chaos.app.option_names import describe_option
from chaos.cli.commands import app
from chaos.errors import RequestError
from chaos.extensions.lab.search.request import SearchRequest

NAMES = [item.name for item in fields(SearchRequest) if item.name not in ("script", "arguments")]


def test_each_field_is_an_option_with_its_name_and_its_default() -> None:
    command: Any = typer.main.get_command(app)
    params = command.commands["search"].loaded.params
    options = {each.name: each for each in params if each.param_type_name == "option"}
    request = SearchRequest(script=Path("train.py"))

    assert {*NAMES} == {*options} - {"form", "output", "help"}
    for name in NAMES:
        assert describe_option(name) == options[name].opts[0]
        default = options[name].default
        assert default in (None, []) or default == getattr(request, name), name


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"kinds": ["kill_workr"]}, "--fault: no fault is drawn that is called 'kill_workr'. Did"),
        ({"max_faults": 0}, "--most-faults: it is a whole number from 1; got 0"),
    ],
)
def test_what_no_search_has_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(RequestError) as refused:
        SearchRequest.parse("train.py", (), options)

    assert str(refused.value.rename_fields(describe_option)).startswith(problem)
