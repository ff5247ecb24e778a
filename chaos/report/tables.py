"""Tables of commands that run nothing: lists, a machine's diagnosis, a plan's dry run."""

import inspect
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from rich.console import Group
from rich.table import Column, Table
from rich.text import Text

from chaos.check.judge import CHECKS, NO_OTHERS, Check
from chaos.check.others import Others
from chaos.faults.base import Fault
from chaos.model.fault_entry import FAULTS, REGISTERED
from chaos.model.machine import Machine
from chaos.model.plan import Plan
from chaos.model.trigger import MOMENTS, STAGES, AtMoment, AtRecovery, AtStart, AtState, AtTime
from chaos.plan.permitted import (
    NodeFacts,
    Permissions,
    needs_permission,
    platform_for,
    refusals,
)
from chaos.record import Record
from chaos.report.screen import bare_table

Topic: TypeAlias = Literal["faults", "places", "checks"]
Rows: TypeAlias = list[tuple[str, str]]
NAME_MAX = 30
TOPICS: tuple[Topic, ...] = get_args(Topic)

# "`name`: its text." up to the next name
_TOLD = re.compile(r"`(\w+)`: (.*?)(?=`\w+`: |$)")


def catalogue(topic: Topic, others: Others = NO_OTHERS) -> Table:
    """Return names and descriptions, 80 columns wide; `others`: checks of other packages.

    An entry of another package is followed by that package's name.
    """
    rows = {"faults": fault_rows(), "places": place_rows(), "checks": check_rows(others)}
    return table_of(topic.removesuffix("s"), rows[topic])


def table_of(head: str, rows: Sequence[tuple[str, str]]) -> Table:
    """Return a table of names and descriptions; a long name is folded."""
    is_short = all(len(name) <= NAME_MAX for name, _ in rows)
    first = Column(head, no_wrap=is_short, overflow="fold")
    table = bare_table(first, Column("what it is", overflow="fold", ratio=1))
    for name, what in rows:
        table.add_row(Text(name), Text(what))
    return table


def fault_rows() -> Rows:
    """Return every fault with its effect, and its settings with their defaults."""
    packages = REGISTERED.packages
    return [(f, _of(_with_settings(FAULTS[f]), packages.get(f))) for f in FAULTS]


def place_rows() -> Rows:
    """Return every kind of trigger, as it is written in a scenario."""
    steps = "{epoch: 2, step: 5}", "after optimizer step 5 of epoch 2, on a rank"
    moments, stages = _texts_on_names(AtMoment), _texts_on_names(AtRecovery)
    return [
        steps,
        *((f"moment: {moment}", moments[moment]) for moment in MOMENTS),
        ("recovering_from: 0", _paragraph(AtRecovery)),
        *((f"… stage: {stage}", stages[stage]) for stage in STAGES),
        ("starting: 1", _paragraph(AtStart)),
        ("state: RUNNING", _paragraph(AtState)),
        ("seconds: 2.5", _paragraph(AtTime)),
    ]


def _texts_on_names(kind: type[Record]) -> dict[str, str]:
    """Return the text on each name in a record's second paragraph."""
    text = _paragraph(kind, 1)
    return {name: what.strip(" .") for name, what in _TOLD.findall(text)}


def check_rows(others: Others = NO_OTHERS) -> Rows:
    """Return every check with the question that it asks; chaos's own in the order of the report."""
    return [(check.NAME, _of(_paragraph(check), package)) for check, package in _checks(others)]


def names(others: Others = NO_OTHERS) -> list[str]:
    """Return every fault and every check."""
    return [*FAULTS, *(check.NAME for check, _ in _checks(others))]


def explained(name: str, others: Others = NO_OTHERS) -> str | None:
    """Return the long text of a fault or a check, None if there is neither."""
    if name in FAULTS:
        return _fault_explained(name)
    found = next((each for each in _checks(others) if name == each[0].NAME), None)
    if found is None:
        return None
    check, package = found
    asks, promises = inspect.getdoc(check), inspect.getdoc(check.check)
    head = _of(f"check {name}", package)
    return f"{head}\n\n{_unwrapped(asks)}\n\n{_unwrapped(promises)}\n"


def _checks(others: Others) -> list[tuple[Check, str | None]]:
    foreign = [(other.what, other.package) for other in others.installed]
    return [*((check, None) for check in CHECKS), *foreign]


def _of(text: str, package: str | None) -> str:
    """Return a text with the name of its package, if that is not chaos."""
    return text if package is None else f"{text} ({package})"


def _fault_explained(name: str) -> str:
    record = FAULTS[name]
    head = _of(f"fault {name}", REGISTERED.packages.get(name))
    lines = [head, "", _unwrapped(inspect.getdoc(record))]
    if record.model_fields:
        lines += ["", "settings:"]
    for setting, field in record.model_fields.items():
        value = "needed" if field.is_required() else f"{_default(field.default)} unless given"
        lines.append(f"  {setting}: {value}{f'; {field.description}' if field.description else ''}")
    needed = [s for s, field in record.model_fields.items() if field.is_required()]
    example = ", ".join(f"{setting}: …" for setting in needed)
    where = "{epoch: 2, step: 5, rank: 1}"
    return "\n".join([*lines, "", "faults:", f"  - at: {where}", f"    {name}: {{{example}}}", ""])


def _with_settings(record: type[Record]) -> str:
    settings = ", ".join(
        f"{name}: {'…' if field.is_required() else _default(field.default)}"
        for name, field in record.model_fields.items()
        if field.is_required() or field.default is not None
    )
    what = _paragraph(record)
    return f"{what} {{{settings}}}" if settings else what


def _default(value: Any) -> str:  # noqa: ANN401 - any field's default
    if isinstance(value, bool):
        return str(value).lower()
    return "[]" if value == () else f"{value:g}" if isinstance(value, float) else str(value)


def _unwrapped(text: str | None) -> str:
    """Return paragraphs without the line breaks of the code."""
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in (text or "").split("\n\n"))


def _paragraph(documented: object, number: int = 0) -> str:
    """Return one paragraph of a docstring."""
    paragraphs = (inspect.getdoc(documented) or "").split("\n\n")
    return " ".join(paragraphs[number].split()) if number < len(paragraphs) else ""


PYTHONS = ((3, 11), (3, 12))
CPUS_MIN, MEMORY_MIN_GIB, SHM_MIN_GIB, DISK_MIN_GIB = 2, 3.0, 1.0, 2.0
DISK_USED_MAX = 0.95  # beyond it Ray 2.60 refuses to write objects to disk
# The use of each extra.
_FOR = {
    "search": "`chaos search`, `chaos.plans`",
    "metrics": "a run's figures in the cluster's Prometheus",
    "prestart": "`--prestart-workers`",
    "reclaim-aws": "`--reclaim-by aws`",
    "reclaim-azure": "`--reclaim-by azure`",
    "reclaim-google": "`--reclaim-by google`",
    "reclaim-kubernetes": "`--reclaim-by kubernetes`",
    "examples": "nearly all of `scenarios/`",
    "lightgbm": "`scenarios/frameworks/lightgbm_*`",
    "lightning": "`scenarios/frameworks/lightning_*`",
    "tensorflow": "`scenarios/frameworks/tensorflow_*`",
    "transformers": "`scenarios/frameworks/transformers_*`",
    "xgboost": "`scenarios/frameworks/xgboost_*`",
}
Standing: TypeAlias = Literal["good", "poor", "bad", "absent"]
_MARKS: dict[Standing, tuple[str, str]] = {
    "good": ("✓", "green"),
    "poor": ("?", "yellow"),
    "bad": ("✗", "bold red"),
    "absent": ("-", "dim"),
}


@dataclass(frozen=True)
class Sign:
    """One examined property."""

    name: str
    #: `poor`: runs are slower, or some cannot be made; `bad`: none can; `absent`: an extra
    standing: Standing
    seen: str
    #: the effect of its problem, empty if it is good
    cost: str = ""


def signs(machine: Machine) -> list[Sign]:
    """Judge a machine, the properties that every run needs first."""
    return [*_software(machine), *_permissions(machine), *_room(machine), *_extras(machine)]


def doctor_table(found: Sequence[Sign]) -> Table:
    """Return a line per property, with the effect of its problem below."""
    table = bare_table(Column(no_wrap=True), Column(no_wrap=True), Column(overflow="fold", ratio=1))
    table.show_header = False
    for sign in found:
        mark, style = _MARKS[sign.standing]
        table.add_row(Text(mark, style=style), Text(sign.name), Text(sign.seen))
        if sign.cost:
            table.add_row("", "", Text(sign.cost, style="dim"))
    return table


def _software(machine: Machine) -> Iterator[Sign]:
    yield Sign("chaos", "good", machine.chaos)
    yield _either(
        "system", machine.system == "Linux", machine.system, "chaos runs on Linux: signals, /proc."
    )
    version = ".".join(map(str, machine.python))
    yield _either("Python", machine.python in PYTHONS, version, "Python 3.11 or 3.12 is needed.")
    ray = machine.ray or ""
    lack = "chaos was tested with 2.60; private names may have moved."
    if not ray:
        lack = "Jobs of Ray Train's cannot be tested, torchrun's can: the extra is [ray]."
    yield _either("Ray", ray.startswith("2.60."), ray or "not installed", lack, otherwise="poor")
    torch = machine.torch or "not installed"
    yield _either("torch", machine.torch is not None, torch, "pip install torch")


def _permissions(machine: Machine) -> Iterator[Sign]:
    steady = machine.clock_back_ns == 0
    pace = "steady" if steady else f"goes back by {machine.clock_back_ns} ns"
    peers = "Workers cannot reach each other on 127.0.0.1: neither Ray nor gloo starts."
    yield _can("signals", "stop and kill a process", machine.can_signal, "No fault can.")
    yield _can("ports", "listen on 127.0.0.1, and reach it", machine.can_listen, peers)
    elsewhere = "Choose another folder: --reports."
    yield _can("reports", "write into the folder", machine.can_write, elsewhere)
    yield _either(
        "views",
        machine.why_no_views is None,
        machine.why_no_views or "a lane can see its own files under absolute paths",
        "Jobs that save by absolute paths, or to their working directory, are audited one run "
        "at a time.",
        otherwise="poor",
    )
    order = "The order of events of different processes is unknown."
    yield _either("clock", steady, pace, order)


def _room(machine: Machine) -> Iterator[Sign]:
    yield _either(
        "processors",
        machine.cpus >= CPUS_MIN,
        str(machine.cpus),
        "Ranks take turns: runs are slow, and time-outs of the job's own may pass.",
        otherwise="poor",
    )
    yield _either(
        "memory",
        machine.memory_free >= MEMORY_MIN_GIB,
        f"{machine.memory_free:.1f} GiB free",
        f"A local Ray cluster with two workers takes some {MEMORY_MIN_GIB:g} GiB; "
        "--backend fork takes less.",
        otherwise="poor",
    )
    shm = machine.shm_free
    yield _either(
        "shared memory",
        shm is not None and shm >= SHM_MIN_GIB,
        "missing" if shm is None else f"{shm:.1f} GiB free",
        "Without /dev/shm Ray keeps objects on disk: slower (in Docker: --shm-size=2g).",
        otherwise="poor",
    )
    is_full = machine.disk_used > DISK_USED_MAX or machine.disk_free < DISK_MIN_GIB
    yield _either(
        "disk",
        not is_full,
        f"{machine.disk_free:.1f} GiB free, {machine.disk_used:.0%} used",
        f"Checkpoints and logs need room, and Ray stops storing beyond {DISK_USED_MAX:.0%}.",
        otherwise="poor",
    )


def _extras(machine: Machine) -> Iterator[Sign]:
    lacks = ", ".join(f"no {name}" for name in machine.lacking_of_slurm)
    yield Sign("Slurm", "absent" if lacks else "good", lacks or "for scripts for sbatch")
    for extra, version in machine.extras.items():
        seen = f"not installed; for {_FOR[extra]}" if version is None else version
        yield Sign(f"[{extra}]", "absent" if version is None else "good", seen)


def _either(
    name: str,
    is_good: bool,  # noqa: FBT001 - it is what the sign is about
    seen: str,
    cost: str,
    *,
    otherwise: Literal["poor", "bad"] = "bad",
) -> Sign:
    return Sign(name, "good", seen) if is_good else Sign(name, otherwise, seen, cost)


def _can(name: str, act: str, is_good: bool, cost: str) -> Sign:  # noqa: FBT001 - likewise
    return _either(name, is_good, f"chaos can{'' if is_good else 'not'} {act}", cost)


_STYLES = {"may have faults": "yellow", "spared": "green", "holds no worker": "dim"}


def dry_run(
    plan: Plan,
    nodes: Sequence[NodeFacts],
    permissions: Permissions,
    machines: Mapping[str, str],
) -> Group:
    """Return the faults of a plan with their needs, and the cluster's nodes.

    The node of a rank is unknown until the job runs: it may be any permitted node. `machines` are
    the platform's names of the nodes, where it takes them in place of chaos.
    """
    parts: list[Text | Table] = [Text(plan.scenario, style="bold"), _faults(plan, permissions)]
    missing = needs_permission(plan, permissions)
    if missing is not None:
        line = f"not allowed: {missing}; it needs --allow-faults-on {plan.shape.address}"
        parts.append(Text(line, style="red"))
    if plan.shape.address is None:
        shape = plan.shape
        line = f"on a local cluster of {shape.nodes} nodes that chaos starts and ends"
        parts.append(Text(line, style="dim"))
    elif plan.waits_among_others:
        line = (
            f"on {plan.job.facts.words.name} at {plan.shape.address}: to the run's own job, no node"
        )
        parts.append(Text(line))
    else:
        parts += [Text(f"nodes of the cluster at {plan.shape.address}"), _nodes(nodes, machines)]
    return Group(*parts, Text("nothing was done", style="dim"))


def _faults(plan: Plan, permissions: Permissions) -> Table | Text:
    if not plan.ops:
        return Text("no fault is planned")
    refused = {refusal.op.index: refusal.why for refusal in refusals(plan, permissions)}
    heads = ("fault", "place", "target", "needs")
    table = bare_table(*(Column(head, overflow="fold") for head in heads))
    for op in plan.ops:
        if op.index in refused:
            whom, needs = "none: refused", refused[op.index]
        else:
            platform = platform_for(plan, op)
            by = "" if platform is None else f"; {platform} takes it"
            whom, needs = op.fault.whom.format(rank=op.target_rank) + by, _needs(plan, op.fault)
        table.add_row(str(op.fault), str(op.at), whom, Text(needs))
    return table


def _needs(plan: Plan, fault: Fault) -> str:
    if plan.shape.address is None:
        return "nothing"
    costs_a_node = fault.on_shared_cluster.rule != "safe"
    return "--allow-faults-on" + (" and --allow-node-loss" if costs_a_node else "")


def _nodes(nodes: Sequence[NodeFacts], machines: Mapping[str, str]) -> Table:
    table = bare_table("node", "address", "CPUs", "", "why", *(["machine"] if machines else []))
    for node in sorted(nodes, key=lambda n: (n.standing, n.address, n.node_id)):
        standing = Text(node.standing, style=_STYLES[node.standing])
        named = (node.node_id[:8], node.address, f"{node.cpus:g}", standing, node.protection or "")
        table.add_row(*named, *([machines[node.node_id]] if machines else []))
    return table
