"""The command line that repeats an audit which Python has asked for."""

import os
import shlex
from collections.abc import Iterator, Mapping

from chaos.app.audit_request import AuditRequest
from chaos.app.option_names import describe_option
from chaos.audit.plans import NodeRange
from chaos.model.expect import AcceptedFinding
from chaos.model.masking import mask_words


def write_command(request: AuditRequest, options: Mapping[str, object]) -> str:
    """Return the command of a request, without secrets: the options that are not the command's.

    Only `options` were given; what else the request has, the command takes from the project, too.
    """
    words = ["audit"]
    for field in request.list_fields().values():
        if field.is_given and options.get(field.name) is not None:
            words += _list_option_words(field.name, field.value)
    words.append(os.fspath(request.script))
    if request.arguments:
        words += ["--", *request.arguments]
    return shlex.join(["chaos", *map(str, mask_words(words))])


def _list_option_words(field: str, value: object) -> Iterator[str]:
    option = describe_option(field)
    if isinstance(value, bool):
        yield option if value else option.replace("--", "--no-", 1)
    elif field == "restart_args" and isinstance(value, tuple):
        yield from (option, shlex.join(value))
    elif isinstance(value, NodeRange):
        yield from (option, f"{value.min_nodes}:{value.max_nodes}")
    elif isinstance(value, tuple | Mapping):
        items = value.items() if isinstance(value, Mapping) else value
        for item in items:
            yield from (option, _write_item(item))
    else:
        is_whole = isinstance(value, float) and value.is_integer()
        yield from (option, str(value).removesuffix(".0") if is_whole else str(value))


def _write_item(item: object) -> str:
    if isinstance(item, AcceptedFinding):
        part = f":{item.part}" if item.part else ""
        return f"{item.finding}{part}={item.reason}"
    return "=".join(item) if isinstance(item, tuple) else str(item)
