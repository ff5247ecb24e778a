"""A request of an audit: its fields are the command's options; what cannot be meant is refused."""

import inspect
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import typer

import chaos
from chaos.app.audit_command import write_command
from chaos.app.audit_options import AuditOptions
from chaos.app.audit_request import AuditRequest
from chaos.app.field_rules import NeedsLauncher
from chaos.app.option_names import describe_option
from chaos.app.project_defaults import merge_project_defaults
from chaos.audit.plans import NodeRange
from chaos.cli.commands import app
from chaos.errors import RequestError
from chaos.model.expect import AcceptedFinding
from chaos.model.launcher import LAUNCHER_FACTS
from tests.accepted import expect_text
from tests.needs import needs_extension

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


@needs_extension("slurm")
def test_every_field_that_a_launchers_row_names_needs_such_a_launcher() -> None:
    named_fields = {name for facts in LAUNCHER_FACTS.values() for name in facts.fields.audit}

    assert named_fields == {
        field.name
        for field in asked().list_fields().values()
        if any(isinstance(rule, NeedsLauncher) for rule in field.rules)
    }


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


def test_defaults_are_the_projects_and_the_environments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").write_text(
        '[tool.chaos]\nreports = "settled"\nseed = 3\nretries = 2\nexclude = ["a"]\n'
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CHAOS_REPORTS_DIR", raising=False)

    assert merge_project_defaults(NAMES, {"seed": 4, "retries": None}) == {
        "reports": tmp_path / "settled",
        "seed": 4,
        "retries": 2,
    }
    monkeypatch.setenv("CHAOS_REPORTS_DIR", "elsewhere")
    assert merge_project_defaults(NAMES, {})["reports"] == "elsewhere"


def test_help_lists_the_keywords_and_an_unknown_one_is_a_mistake() -> None:
    parameters = inspect.signature(chaos.audit).parameters

    assert list(parameters) == ["script", "args", "quiet", *NAMES]
    assert all(
        name in (inspect.getdoc(chaos.audit) or "").partition("Keywords: ")[2] for name in NAMES
    )
    with pytest.raises(TypeError, match="max_runz"):
        chaos.audit("train.py", max_runz=3)  # type: ignore[call-arg]
