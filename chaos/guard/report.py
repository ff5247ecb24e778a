"""The restarts of a guarded training, in a terminal, as JSON and as metrics."""

import json
from collections.abc import Mapping, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Column
from rich.text import Text

from chaos.guard.folder import Folder
from chaos.guard.judge import combined
from chaos.guard.passes import by_step, pass_findings
from chaos.guard.records import Finding, Restart, Start, Startup
from chaos.guard.restart import unseen_findings
from chaos.guard.startups import count_startups, describe_startups
from chaos.report.screen import bare_table, numbers
from chaos.words import plural, ranks

_STYLES = {
    "mismatch": "bold red",
    "notice": "yellow",
    "accepted": "dim",
    "came back": "green",
    "unknown": "yellow",
}


def restarts_of(folder: Folder) -> list[Restart]:
    """Return the restarts of a folder, with what passes over the data show of them by now."""
    starts = {(start.start, start.rank): start for start in folder.starts()}
    every = [_with_its_pass(folder, starts, one) for one in folder.restarts()]
    return [
        msgspec.structs.replace(one, findings=combined([*one.findings, *unseen_findings(one)]))
        for one in every
    ]


def _with_its_pass(
    folder: Folder, starts: Mapping[tuple[int, int], Start], one: Restart
) -> Restart:
    """Return a restart with what its pass over the data shows: rank 0 tells it, for all ranks."""
    before, own = starts.get((one.of_start or 0, 0)), starts.get((one.start, 0))
    if one.rank or one.step is None or one.of_start is None or before is None or own is None:
        return one
    is_same_job = (before.job, before.ranks) == (own.job, own.ranks)
    has_data = any(found.kind == "data" for found in one.findings)
    if has_data or not is_same_job or before.salt != own.salt:
        return one
    old, new = (
        by_step([folder.steps(rank, start.start) for rank in range(start.ranks)])
        for start in (before, own)
    )
    found = pass_findings(old, new, one.step)
    return msgspec.structs.replace(one, findings=combined([*one.findings, *found], own.accepts))


def exit_code(restarts: Sequence[Restart], *, has_failed: bool = False) -> int:
    """Return 1 if any restart is a mismatch, 0 if each came back, 2 else: nothing shows it.

    `has_failed`: the last starts ended before a step, and none has followed them.
    """
    answers = set(map(told, restarts))
    if "mismatch" in answers:
        return 1
    return 0 if answers == {"came back"} and not has_failed else 2


def told(restart: Restart) -> str:
    """Return the answer of one rank's restart in a word or two."""
    if restart.is_wrong:
        return "mismatch"
    return "came back" if restart.has_come_back and restart.has_continued else "unknown"


def in_terminal(
    place: str,
    starts: Sequence[Start],
    restarts: Sequence[Restart],
    startups: Sequence[Startup] = (),
) -> RenderableType:
    """Return a table of the restarts, a row for each rank, and what is wrong with them."""
    count = len({restart.start for restart in restarts})
    head = f"{place}: {plural(len({s.start for s in starts}), 'start')}, {plural(count, 'restart')}"
    table = bare_table(
        *numbers("start", "rank"),
        *numbers("from step", "lost", "parts", "replayed", "same inputs", "same loss"),
        Column("answer", no_wrap=True),
    )
    for one in restarts:
        answer = told(one)
        table.add_row(
            str(one.start),
            str(one.rank),
            _number(one.step),
            _number(one.lost),
            str(len(one.compared)),
            str(one.replayed),
            str(one.same_inputs),
            str(one.same_losses),
            Text(answer, style=_STYLES[answer]),
        )
    lines: list[RenderableType] = [Text(head), Text("")]
    lines += [table] if restarts else [Text(why_none(starts, startups))]
    if restarts and startups:
        lines += [Text(""), *(Text(f"{line}.") for line in describe_startups(startups))]
    lines += [Text("")] if any(one.findings for one in restarts) else []
    found: dict[tuple[int, Finding], list[int]] = {}
    for one in restarts:
        for finding in one.findings:
            found.setdefault((one.start, finding), []).append(one.rank)
    for (start, finding), own in found.items():
        where = f"start {start}, {ranks(own)}: "
        lines.append(
            Text.assemble(where, (finding.level, _STYLES[finding.level]), f": {finding.text}")
        )
    return Group(*lines)


def why_none(starts: Sequence[Start], startups: Sequence[Startup] = ()) -> str:
    """Return why no restart is recorded."""
    if startups:
        return "\n".join(f"{line}." for line in describe_startups(startups))
    if len({start.start for start in starts}) > 1:
        return (
            "No start could be compared: before it, no save of what is trained was seen "
            "(docs/guard.md, limits)."
        )
    return "No start has followed another one yet."


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def in_json(restarts: Sequence[Restart]) -> str:
    """Return the restarts, one JSON object in each line."""
    lines = (
        msgspec.to_builtins(one) | {"is_wrong": one.is_wrong, "answer": told(one)}
        for one in restarts
    )
    return "".join(json.dumps(line) + "\n" for line in lines)


def in_metrics(restarts: Sequence[Restart], startups: Sequence[Startup] = ()) -> str:
    """Return Prometheus's text of the restarts, for node_exporter's textfile collector."""
    latest = [restart for restart in restarts if restart.rank == 0]
    wrong = {r.start for r in restarts if r.is_wrong}
    lines = [
        "# TYPE chaos_guard_restarts_total counter",
        f"chaos_guard_restarts_total {len(latest)}",
        "# TYPE chaos_guard_mismatches_total counter",
        f"chaos_guard_mismatches_total {len(wrong)}",
        "# TYPE chaos_guard_failed_starts_total counter",
        f"chaos_guard_failed_starts_total {count_startups(startups)}",
    ]
    if latest:
        last = latest[-1]
        lines += ["# TYPE chaos_guard_last_mismatch gauge"]
        lines += [f"chaos_guard_last_mismatch {int(last.start in wrong)}"]
        for name, value in (("lost_steps", last.lost), ("first_step_seconds", last.first_step_s)):
            if value is not None:
                lines += [f"# TYPE chaos_guard_last_{name} gauge"]
                lines += [f"chaos_guard_last_{name} {json.dumps(value)}"]
    return "\n".join(lines) + "\n"
