"""A plan as the text of a scenario file, in which nothing is left to draw."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from chaos.model.plan import Op, Plan
from chaos.model.scenario import Limits

_COMMENT_MAX = 96


def render_drawn_scenario(plan: Plan, *, folder: Path) -> str:
    """Return a plan as a scenario that is the same plan with any seed, to be saved in `folder`."""
    comment = (f"Drawn from seed {plan.seed} of {_make_relative(plan.file, folder)}.",)
    expect = plan.expect.model_dump(mode="json", exclude_defaults=True)
    return render_scenario(plan, folder=folder, comment=comment, expect=expect, limits=plan.limits)


def render_scenario(
    plan: Plan,
    *,
    folder: Path,
    comment: Sequence[str],
    expect: Mapping[str, Any],
    limits: Limits | None = None,
) -> str:
    """Return a plan as a scenario, to be saved in `folder`, below a comment.

    Without `limits` it has the plan's time limit where that is above the usual one: a real
    cluster is slower, never faster. Scalars are written as JSON, which YAML 1.2 reads as the
    same values, so that no text becomes a number or a truth value.
    """
    lines = [
        *(line for text in comment for line in _render_comment(text)),
        f"scenario: {_format_flow(plan.scenario)}",
        "job:",
        *(f"  {key}: {_format_flow(value)}" for key, value in _build_job(plan, folder).items()),
        *_render_cluster(plan),
        "faults:" if plan.ops else "faults: []",
        *(line for op in plan.ops for line in _render_fault(op)),
    ]
    if expect:
        lines += ["expect:", *(f"  {key}: {_format_flow(value)}" for key, value in expect.items())]
    run_limits = limits or Limits(run_s=max(plan.limits.run_s, Limits().run_s))
    if plan.storage:
        lines.append(f"storage: {_format_flow(plan.storage)}")
    for key, record in (("watch", plan.watch), ("limits", run_limits)):
        if changed_values := record.model_dump(mode="json", exclude_defaults=True):
            lines.append(f"{key}: {_format_flow(changed_values)}")
    return "\n".join(lines) + "\n"


def _build_job(plan: Plan, folder: Path) -> dict[str, Any]:
    job = plan.job.model_dump(mode="json", exclude_defaults=True, exclude_none=True)
    if plan.job.script is not None:
        job["script"] = _make_relative(plan.job.script, folder)
    if plan.job.inputs:
        job["inputs"] = [_make_relative(path, folder) for path in plan.job.inputs]
    if plan.job.then:
        job["then"] = {kind: _make_relative(path, folder) for kind, path in plan.job.then.items()}
    return job


def _make_relative(path: str, folder: Path) -> str:
    try:
        return os.path.relpath(path, folder)
    except ValueError:  # another drive
        return path


def _render_fault(op: Op) -> Iterator[str]:
    trigger = op.at.model_dump(mode="json", exclude_none=True)
    yield f"  - at: {_format_flow(trigger)}"
    fault = op.fault.model_dump(mode="json", exclude_defaults=True)
    yield f"    {op.kind}: {_format_flow(fault)}"


def _render_comment(text: str) -> list[str]:
    printable_text = "".join(
        character if character.isprintable() else "?" for character in " ".join(text.split())
    )
    lines = wrap(printable_text, _COMMENT_MAX - 2, break_long_words=False, break_on_hyphens=False)
    return [f"# {line}" for line in lines] or ["#"]


def _render_cluster(plan: Plan) -> Iterator[str]:
    # What kind of GCS and nodes it has follows from the faults.
    cluster = plan.shape.model_dump(exclude={"keeps_gcs", "drain_s"}, exclude_none=True)
    facts = plan.job.launcher_facts
    omitted_keys = {"nodes"} if plan.shape.nodes == 1 and not facts.nodes.has_spares else set()
    kept_keys = set(facts.fields.cluster) - omitted_keys
    cluster = {key: value for key, value in cluster.items() if key in kept_keys}
    if cluster:
        yield "cluster:"
        for key, value in cluster.items():
            yield f"  {key}: {_format_flow(value)}"


def _format_flow(value: Any) -> str:  # noqa: ANN401 (what JSON has)
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(f"{_format_key(key)}: {_format_flow(item)}" for key, item in value.items())
            + "}"
        )
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_format_flow(item) for item in value) + "]"
    return json.dumps(value, allow_nan=False)


def _format_key(key: str) -> str:
    return key if key.isidentifier() and key.isascii() and key not in _WORDS else json.dumps(key)


_WORDS = {"true", "True", "TRUE", "false", "False", "FALSE", "null", "Null", "NULL"}
