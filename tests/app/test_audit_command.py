"""The command of a request."""

from chaos.app.audit_command import write_command
from chaos.app.audit_request import AuditRequest
from tests.accepted import expect_text


def test_the_command_of_a_request_has_what_is_not_the_commands_own_default() -> None:
    options = {
        "question": "crash",
        "time_limit": "90s",
        "accept": ["rng", "older-save=best"],
        "explain": False,
        "restart_args": ["--resume", "latest"],
        "nodes": 2,
        "tier": {"/local": "node"},
        "seed": 0,
    }
    projects = {"retries": 2, "jobs": 2}  # the command reads them as well
    request = AuditRequest.parse("train.py", ["--token", "x y"], options | projects)

    expect_text(write_command(request, {**options, "jobs": None}))
