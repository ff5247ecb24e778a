"""What another launcher takes is refused."""

from typing import Any

import pytest

from chaos.app.audit_request import AuditRequest
from chaos.app.field_rules import NeedsLauncher
from chaos.app.option_names import describe_option
from chaos.errors import RequestError
from chaos.model.launcher import LAUNCHER_FACTS
from tests.needs import needs_extension


def asked(**options: Any) -> AuditRequest:
    return AuditRequest.parse("train.py", (), options)


@needs_extension("slurm")
def test_every_field_that_a_launchers_row_names_needs_such_a_launcher() -> None:
    named_fields = {name for facts in LAUNCHER_FACTS.values() for name in facts.fields.audit}

    assert named_fields == {
        field.name
        for field in asked().list_fields().values()
        if any(isinstance(rule, NeedsLauncher) for rule in field.rules)
    }


@needs_extension("slurm")
@pytest.mark.parametrize(
    ("options", "launcher", "problem"),
    [
        ({"nodes": 2}, "ray", "--nodes is for scripts that torchrun starts: Ray Train's ranks"),
        ({"fit": 2}, "python", "--fit needs Ray Train, and python starts this script"),
        ({"backend": "torchrun"}, "python", "--backend torchrun is for scripts that torchrun"),
        ({"retries": 2}, "slurm", "--retries: a script for sbatch is started again by Slurm"),
    ],
)
def test_what_another_launcher_takes_is_refused_once_the_launcher_is_known(
    options: dict[str, Any], launcher: Any, problem: str
) -> None:
    with pytest.raises(RequestError) as refused:
        asked(**options).validate(LAUNCHER_FACTS[launcher])

    assert problem in str(refused.value.rename_fields(describe_option))
