"""Tables of commands that run nothing: lists, and a plan's dry run."""

import inspect
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias, get_args

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from chaos.check.external_checks import ExternalChecks
from chaos.check.judge import CHECKS, NO_OTHERS, Check
from chaos.check.prose.registry import KindEntry, find_entry, list_entries
from chaos.faults.base import Fault
from chaos.model.fault_entry import FAULTS, REGISTERED
from chaos.model.plan import Plan
from chaos.model.trigger import MOMENTS, STAGES, AtMoment, AtRecovery, AtStart, AtState, AtTime
from chaos.plan.permissions import (
    NodeFacts,
    Permissions,
    find_missing_permission,
    find_platform,
    find_refusals,
)
from chaos.record import Record
from chaos.report.screen import build_bare_table

Topic: TypeAlias = Literal["faults", "places", "checks", "findings"]
Rows: TypeAlias = list[tuple[str, str]]
NAME_MAX = 30
TOPICS: tuple[Topic, ...] = get_args(Topic)

# "`name`: its text." up to the next name
_NAME_TEXTS = re.compile(r"`(\w+)`: (.*?)(?=`\w+`: |$)")


def build_catalogue(topic: Topic, external_checks: ExternalChecks = NO_OTHERS) -> Table:
    """Return names and descriptions, 80 columns wide.

    `external_checks`: the checks of other packages. An entry of another package is followed by that
    package's name.
    """
    rows = {
        "faults": list_fault_rows(),
        "places": list_place_rows(),
        "checks": list_check_rows(external_checks),
        "findings": list_finding_rows(),
    }
    return build_description_table(topic.removesuffix("s"), rows[topic])


def build_description_table(head: str, rows: Sequence[tuple[str, str]]) -> Table:
    """Return a table of names and descriptions; a long name is folded."""
    is_short = all(len(name) <= NAME_MAX for name, _ in rows)
    name_column = Column(head, no_wrap=is_short, overflow="fold")
    table = build_bare_table(name_column, Column("what it is", overflow="fold", ratio=1))
    for name, description in rows:
        table.add_row(Text(name), Text(description))
    return table


def list_fault_rows() -> Rows:
    """Return every fault with its effect, and its settings with their defaults."""
    packages = REGISTERED.packages
    return [
        (
            fault_name,
            _add_package_name(_describe_fault(FAULTS[fault_name]), packages.get(fault_name)),
        )
        for fault_name in FAULTS
    ]


def list_place_rows() -> Rows:
    """Return every kind of trigger, as it is written in a scenario."""
    steps = "{epoch: 2, step: 5}", "after optimizer step 5 of epoch 2, on a rank"
    moments, stages = _parse_name_texts(AtMoment), _parse_name_texts(AtRecovery)
    return [
        steps,
        *((f"moment: {moment}", moments[moment]) for moment in MOMENTS),
        ("recovering_from: 0", _extract_paragraph(AtRecovery)),
        *((f"… stage: {stage}", stages[stage]) for stage in STAGES),
        ("starting: 1", _extract_paragraph(AtStart)),
        ("state: RUNNING", _extract_paragraph(AtState)),
        ("seconds: 2.5", _extract_paragraph(AtTime)),
    ]


def _parse_name_texts(kind: type[Record]) -> dict[str, str]:
    """Return the text on each name in a record's second paragraph."""
    text = _extract_paragraph(kind, 1)
    return {name: description.strip(" .") for name, description in _NAME_TEXTS.findall(text)}


def list_check_rows(external_checks: ExternalChecks = NO_OTHERS) -> Rows:
    """Return every check with the question that it asks; chaos's own in the order of the report."""
    return [
        (check.NAME, _add_package_name(_extract_paragraph(check), package))
        for check, package in _list_checks(external_checks)
    ]


def list_finding_rows() -> Rows:
    """Return every kind of finding with what it means."""
    return [(entry.kind, entry.meaning) for entry in list_entries()]


def list_names(external_checks: ExternalChecks = NO_OTHERS) -> list[str]:
    """Return every fault, every check and every kind of finding."""
    check_names = [check.NAME for check, _ in _list_checks(external_checks)]
    return [*FAULTS, *check_names, *(entry.kind for entry in list_entries())]


def explain_name(name: str, external_checks: ExternalChecks = NO_OTHERS) -> str | None:
    """Return the long text of a fault, a check or a kind of finding; None if there is none."""
    if name in FAULTS:
        return _explain_fault(name)
    if (entry := find_entry(name)) is not None:
        return _explain_finding(entry)
    check_entry = next(
        (pair for pair in _list_checks(external_checks) if name == pair[0].NAME), None
    )
    if check_entry is None:
        return None
    check, package = check_entry
    question, promise = inspect.getdoc(check), inspect.getdoc(check.check)
    head = _add_package_name(f"check {name}", package)
    return f"{head}\n\n{_unwrap_text(question)}\n\n{_unwrap_text(promise)}\n"


def _explain_finding(entry: KindEntry) -> str:
    return (
        f"finding {entry.kind}\n\n{entry.meaning}\n\n"
        f"found by: {entry.check}\n"
        f"usual cause: {entry.usual_cause}\n"
        f"what to do: {entry.remedy}\n"
    )


def _list_checks(external_checks: ExternalChecks) -> list[tuple[Check, str | None]]:
    external_pairs = [
        (extension.extension, extension.package) for extension in external_checks.installed
    ]
    return [*((check, None) for check in CHECKS), *external_pairs]


def _add_package_name(text: str, package: str | None) -> str:
    """Return a text with the name of its package, if that is not chaos."""
    return text if package is None else f"{text} ({package})"


def _explain_fault(name: str) -> str:
    record = FAULTS[name]
    head = _add_package_name(f"fault {name}", REGISTERED.packages.get(name))
    lines = [head, "", _unwrap_text(inspect.getdoc(record))]
    if record.model_fields:
        lines += ["", "settings:"]
    for setting, field in record.model_fields.items():
        value = (
            "needed" if field.is_required() else f"{_format_default(field.default)} unless given"
        )
        lines.append(f"  {setting}: {value}{f'; {field.description}' if field.description else ''}")
    required_settings = [
        name_of_setting
        for name_of_setting, field in record.model_fields.items()
        if field.is_required()
    ]
    example = ", ".join(f"{setting}: …" for setting in required_settings)
    example_place = "{epoch: 2, step: 5, rank: 1}"
    return "\n".join(
        [*lines, "", "faults:", f"  - at: {example_place}", f"    {name}: {{{example}}}", ""]
    )


def _describe_fault(record: type[Record]) -> str:
    settings = ", ".join(
        f"{name}: {'…' if field.is_required() else _format_default(field.default)}"
        for name, field in record.model_fields.items()
        if field.is_required() or field.default is not None
    )
    description = _extract_paragraph(record)
    return f"{description} {{{settings}}}" if settings else description


def _format_default(value: Any) -> str:  # noqa: ANN401 - any field's default
    if isinstance(value, bool):
        return str(value).lower()
    if value == ():
        return "[]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _unwrap_text(text: str | None) -> str:
    """Return paragraphs without the line breaks of the code."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n"))


def _extract_paragraph(subject: object, number: int = 0) -> str:
    """Return one paragraph of a docstring."""
    paragraphs = (inspect.getdoc(subject) or "").split("\n\n")
    return " ".join(paragraphs[number].split()) if number < len(paragraphs) else ""


_STYLES = {"may have faults": "yellow", "spared": "green", "holds no worker": "dim"}


def build_dry_run(
    plan: Plan,
    nodes: Sequence[NodeFacts],
    permissions: Permissions,
    machines: Mapping[str, str],
) -> Group:
    """Return the faults of a plan with their needs, and the cluster's nodes.

    The node of a rank is unknown until the job runs: it may be any permitted node. `machines` are
    the platform's names of the nodes, where it takes them in place of chaos.
    """
    parts: list[Text | Table] = [
        Text(plan.scenario, style="bold"),
        _build_fault_table(plan, permissions),
    ]
    permission_problem = find_missing_permission(plan, permissions)
    if permission_problem is not None:
        line = f"not allowed: {permission_problem}; it needs --allow-faults-on {plan.shape.address}"
        parts.append(Text(line, style="red"))
    if plan.shape.address is None:
        shape = plan.shape
        line = f"on a local cluster of {shape.nodes} nodes that chaos starts and ends"
        parts.append(Text(line, style="dim"))
    elif plan.has_shared_queue:
        launcher = plan.job.launcher_facts.words.name
        line = f"on {launcher} at {plan.shape.address}: to the run's own job, no node"
        parts.append(Text(line))
    else:
        parts += [
            Text(f"nodes of the cluster at {plan.shape.address}"),
            _build_node_table(nodes, machines),
        ]
    return Group(*parts, Text("nothing was done", style="dim"))


def _build_fault_table(plan: Plan, permissions: Permissions) -> Table | Text:
    if not plan.ops:
        return Text("no fault is planned")
    refusal_reasons = {
        refusal.op.index: refusal.reason for refusal in find_refusals(plan, permissions)
    }
    headings = ("fault", "place", "target", "needs")
    table = build_bare_table(*(Column(heading, overflow="fold") for heading in headings))
    for op in plan.ops:
        if op.index in refusal_reasons:
            target_text, needs = "none: refused", refusal_reasons[op.index]
        else:
            platform = find_platform(plan, op)
            platform_text = "" if platform is None else f"; {platform} takes it"
            target_text, needs = (
                op.fault.target_text.format(rank=op.target_rank) + platform_text,
                _describe_needs(plan, op.fault),
            )
        table.add_row(str(op.fault), str(op.at), target_text, Text(needs))
    return table


def _describe_needs(plan: Plan, fault: Fault) -> str:
    if plan.shape.address is None:
        return "nothing"
    costs_a_node = fault.on_shared_cluster.rule != "safe"
    return "--allow-faults-on" + (" and --allow-node-loss" if costs_a_node else "")


def _build_node_table(nodes: Sequence[NodeFacts], machines: Mapping[str, str]) -> Table:
    table = build_bare_table(
        "node", "address", "CPUs", "", "why", *(["machine"] if machines else [])
    )
    for node in sorted(nodes, key=lambda facts: (facts.standing, facts.address, facts.node_id)):
        standing = Text(node.standing, style=_STYLES[node.standing])
        cells = (
            node.node_id[:8],
            node.address,
            f"{node.cpus:g}",
            standing,
            node.protection_reason or "",
        )
        table.add_row(*cells, *([machines[node.node_id]] if machines else []))
    return table
