"""A request of an audit: its fields are the command's options; what cannot be meant is refused."""

from pathlib import Path
from typing import Any

import pytest

from chaos.app.audit_request import AuditRequest
from chaos.audit.plans import NodeRange
from chaos.errors import RequestError
from chaos.model.expect import AcceptedFinding


def asked(**options: Any) -> AuditRequest:
    return AuditRequest.parse("train.py", (), options)


def test_options_as_they_are_written_are_read_as_values() -> None:
    request = AuditRequest.parse(
        "train.py",
        {"epochs": 4},
        {
            "time_limit": "5m",
            "grace": 2,
            "nodes": "1:2",
            "accept": ["rng", "older-save:model=we keep the best"],
            "restart_args": "--resume 'the latest'",
            "tier": {Path("/local/ckpt"): "node"},
            "allow_writes": ["out"],
            "jobs": None,
        },
    )

    assert request == AuditRequest(
        script=Path("train.py"),
        arguments=("--epochs", "4"),
        time_limit=300.0,
        grace=2.0,
        nodes=NodeRange(1, 2),
        accept=(
            "rng",
            AcceptedFinding(finding="older-save", part="model", reason="we keep the best"),
        ),
        restart_args=("--resume", "the latest"),
        tier={"/local/ckpt": "node"},
        allow_writes=(Path("out"),),
    )
    assert asked(tier=["/a=b=node"]).tier == {"/a=b": "node"}
    assert asked(nodes=2).nodes == NodeRange(2, 2)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"question": "hail"}, "question: it is spot, crash; got 'hail'"),
        ({"workers": True}, "workers: it is a whole number from 1; got True"),
        ({"seed": -1}, "seed: it is a whole number from 0; got -1"),
        ({"tolerance": "x"}, "tolerance: it is a number from 0; got 'x'"),
        ({"time_limit": -1}, "time_limit: it is a number from 0; got -1.0"),
        ({"confirm": "yes"}, "confirm: it is True or False; got 'yes'"),
    ],
)
def test_a_value_that_no_audit_has_is_refused(options: dict[str, Any], problem: str) -> None:
    with pytest.raises(RequestError) as refused:
        asked(**options)

    assert str(refused.value) == problem


def test_one_run_at_a_time_goes_with_any_backend() -> None:
    assert asked(backend="ray", jobs=1).jobs == 1
