"""A refusal names what the caller gave: a keyword, or an option."""

from typing import Any

import pytest

from chaos.app.audit_request import AuditRequest
from chaos.app.option_names import describe_option
from chaos.errors import RequestError


def asked(**options: Any) -> AuditRequest:
    return AuditRequest.parse("train.py", (), options)


@pytest.mark.parametrize(
    ("options", "python", "command_line"),
    [
        (
            {"restart": "launcher", "restart_args": "-r"},
            'restart_args: restart_args are for restart="command". Leave out restart="launcher".',
            (
                "--restart-args: --restart-args are for --restart command. Leave out --restart "
                "launcher."
            ),
        ),
        (
            {"backend": "ray", "jobs": 2},
            'jobs: only forked workers run side by side. Add backend="fork".',
            "--jobs: only forked workers run side by side. Add --backend fork.",
        ),
        (
            {"address": "auto"},
            (
                'address="auto" is no address. Give host:port, as `ray start --head` prints it; '
                "never `auto`."
            ),
            (
                "--address auto is no address. Give host:port, as `ray start --head` prints it; "
                "never `auto`."
            ),
        ),
        (
            {"storage": "mine"},
            (
                "storage: storage is own or the run's; got 'mine'. Write storage=\"own\" to keep "
                "the script's bucket, or leave it out."
            ),
            (
                "--storage: storage is own or the run's; got 'mine'. Write --storage own to keep "
                "the script's bucket, or leave it out."
            ),
        ),
        (
            {"tier": {"/local": "mine"}},
            (
                "tier: a tier is a path, = and node or shared or bucket; got '/local=mine'. For "
                'example: tier={"/local/ckpt": "node"}'
            ),
            (
                "--tier: a tier is a path, = and node or shared or bucket; got '/local=mine'. For "
                "example: --tier /local/ckpt=node"
            ),
        ),
        (
            {"nodes": "0"},
            (
                "nodes: nodes are a number, or MIN:MAX as in torchrun's --nnodes; got '0'. Write "
                'nodes=2, or nodes="1:2" for a job that goes on with one.'
            ),
            (
                "--nodes: nodes are a number, or MIN:MAX as in torchrun's --nnodes; got '0'. Write "
                "--nodes 2, or --nodes 1:2 for a job that goes on with one."
            ),
        ),
        (
            {"accept": ["older-save"]},
            (
                "accept: the finding 'older-save' is accepted without a reason. Say why it is "
                'meant to be so; reports repeat it: accept=["older-save=REASON"]'
            ),
            (
                "--accept: the finding 'older-save' is accepted without a reason. Say why it is "
                'meant to be so; reports repeat it: --accept "older-save=REASON"'
            ),
        ),
    ],
)
def test_a_refusal_names_keywords_in_python_and_options_on_the_command_line(
    options: dict[str, Any], python: str, command_line: str
) -> None:
    with pytest.raises(RequestError) as refused:
        asked(**options)

    assert str(refused.value) == python
    assert str(refused.value.rename_fields(describe_option)) == command_line
