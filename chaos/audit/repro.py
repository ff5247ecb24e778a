"""A plan as a scenario file, and the confirmation of a finding on another backend."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from chaos.audit.finding import Confirmation
from chaos.errors import UsageError
from chaos.model.plan import Op, Plan, Shape
from chaos.model.scenario import Limits
from chaos.model.verdict import Verdict
from chaos.plan.make import make_plan
from chaos.scenario_file.load import load_scenario

_COMMENT_MAX = 96


def repro_text(plan: Plan, *, check: str, folder: Path, headline: str) -> str:
    """Return the scenario of a plan whose run breaks `check`, to be saved in `folder`."""
    expect: dict[str, Any] = {"verdict": "fail", "check": check}
    if plan.expect.band is not None:
        expect["band"] = plan.expect.band
    if plan.expect.align == "steps":
        expect["align"] = plan.expect.align
    if plan.expect.accept:
        expect["accept"] = list(plan.expect.accept)
    if plan.expect.loss_tolerance is not None:
        expect["loss_tolerance"] = plan.expect.loss_tolerance.model_dump(exclude_defaults=True)
    if plan.expect.ignore_metrics:
        expect["ignore_metrics"] = list(plan.expect.ignore_metrics)
    return scenario_text(plan, folder=folder, comment=(headline,), expect=expect)


def scenario_text(
    plan: Plan, *, folder: Path, comment: Sequence[str], expect: Mapping[str, Any]
) -> str:
    """Return a plan as a scenario, to be saved in `folder`, below a comment.

    Scalars are written as JSON, which YAML 1.2 reads as the same values, so that no
    text becomes a number or a truth value.
    """
    lines = [
        *(line for text in comment for line in _comment(text)),
        f"scenario: {_flow(plan.scenario)}",
        "job:",
        *(f"  {key}: {_flow(value)}" for key, value in _job(plan, folder).items()),
        *_cluster_lines(plan),
        "faults:" if plan.ops else "faults: []",
        *(line for op in plan.ops for line in _fault(op)),
    ]
    if expect:
        lines += ["expect:", *(f"  {key}: {_flow(value)}" for key, value in expect.items())]
    if plan.limits.run_s > Limits().run_s:  # a real cluster is slower, never faster
        lines.append(f"limits: {_flow({'run_s': plan.limits.run_s})}")
    return "\n".join(lines) + "\n"


def _job(plan: Plan, folder: Path) -> dict[str, Any]:
    job = plan.job.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    if plan.job.script is not None:
        job["script"] = _relative(plan.job.script, folder)
    if plan.job.inputs:
        job["inputs"] = [_relative(path, folder) for path in plan.job.inputs]
    return job


def _relative(path: str, folder: Path) -> str:
    try:
        return os.path.relpath(path, folder)
    except ValueError:  # another drive
        return path


def _fault(op: Op) -> Iterator[str]:
    at = op.at.model_dump(mode="json", exclude_none=True)
    yield f"  - at: {_flow(at)}"
    fault = op.fault.model_dump(mode="json", exclude_defaults=True)
    yield f"    {op.kind}: {_flow(fault)}"


def _comment(text: str) -> Iterator[str]:
    line = "#"
    for word in text.split():
        if len(line) + 1 + len(word) > _COMMENT_MAX and line != "#":
            yield _printable(line)
            line = "#"
        line = f"{line} {word}"
    yield _printable(line)


def _printable(line: str) -> str:
    return "".join(sign if sign.isprintable() else "?" for sign in line)


def _cluster(shape: Shape) -> dict[str, Any]:
    """Return a scenario's `cluster`; that a GCS is kept follows from the faults."""
    return shape.model_dump(exclude={"keeps_gcs"}, exclude_none=True)


def _cluster_lines(plan: Plan) -> Iterator[str]:
    if plan.job.launcher == "ray":
        yield "cluster:"
        for key, value in _cluster(plan.shape).items():
            yield f"  {key}: {_flow(value)}"


def _flow(value: Any) -> str:  # noqa: ANN401 (what JSON has)
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_key(key)}: {_flow(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_flow(item) for item in value) + "]"
    return json.dumps(value, allow_nan=False)


def _key(key: str) -> str:
    return key if key.isidentifier() and key.isascii() and key not in _WORDS else json.dumps(key)


_WORDS = {"true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL"}


# Runs a reproduction's plan elsewhere; raises `UsageError` if it cannot be run there.
Confirm: TypeAlias = Callable[[Plan], Verdict]


def confirmation(file: Path, confirm: Confirm, *, seed: int, cwd: Path) -> Confirmation:
    """Run a finding's reproduction, read from its file as a user would; return its result."""
    plan = make_plan(load_scenario(file), file=file, seed=seed, cwd=cwd)
    try:
        verdict = confirm(plan)
    except UsageError as error:  # the others may run there nevertheless
        return Confirmation(state="open", headline=str(error))
    if verdict.status == "fail":
        is_same = verdict.as_expected
        return Confirmation(
            state="confirmed" if is_same else "otherwise", headline=verdict.headline
        )
    state = "refuted" if verdict.status == "pass" else "open"
    return Confirmation(state=state, headline=verdict.headline)
