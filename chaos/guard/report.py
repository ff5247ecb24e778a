"""The restarts of a guarded training, in a terminal, as JSON and as metrics."""

import json
from collections.abc import Mapping, Sequence

import msgspec
from rich.console import Group, RenderableType
from rich.table import Column
from rich.text import Text

from chaos.guard.folder import GuardFolder
from chaos.guard.judge import merge_findings
from chaos.guard.passes import find_pass_defects, group_samples
from chaos.guard.records import GuardedStart, GuardFinding, RestartAnswer, Startup
from chaos.guard.restart import find_unproven
from chaos.guard.startups import count_startups, describe_startups
from chaos.report.screen import build_bare_table, build_number_columns
from chaos.wording import describe_ranks, plural

_STYLES = {
    "mismatch": "bold red",
    "notice": "yellow",
    "accepted": "dim",
    "came back": "green",
    "unknown": "yellow",
}


def load_judged_restarts(folder: GuardFolder) -> list[RestartAnswer]:
    """Return the restarts of a folder, with what passes over the data show of them by now."""
    starts = {(start.start, start.rank): start for start in folder.load_starts()}
    restarts = [_add_pass_findings(folder, starts, restart) for restart in folder.load_restarts()]
    return [
        msgspec.structs.replace(
            restart, findings=merge_findings([*restart.findings, *find_unproven(restart)])
        )
        for restart in restarts
    ]


def _add_pass_findings(
    folder: GuardFolder, starts: Mapping[tuple[int, int], GuardedStart], restart: RestartAnswer
) -> RestartAnswer:
    """Return a restart with what its pass over the data shows: rank 0 tells it, for all ranks."""
    origin_start, restart_start = (
        starts.get((restart.of_start or 0, 0)),
        starts.get((restart.start, 0)),
    )
    if (
        restart.rank
        or restart.step is None
        or restart.of_start is None
        or origin_start is None
        or restart_start is None
    ):
        return restart
    is_same_job = (origin_start.job, origin_start.ranks) == (restart_start.job, restart_start.ranks)
    has_data = any(findings.kind == "data" for findings in restart.findings)
    if has_data or not is_same_job or origin_start.salt != restart_start.salt:
        return restart
    old_samples, new_samples = (
        group_samples([folder.load_steps(rank, start.start) for rank in range(start.ranks)])
        for start in (origin_start, restart_start)
    )
    findings = find_pass_defects(old_samples, new_samples, restart.step)
    return msgspec.structs.replace(
        restart, findings=merge_findings([*restart.findings, *findings], restart_start.accepts)
    )


def exit_code(restarts: Sequence[RestartAnswer], *, has_failed: bool = False) -> int:
    """Return 1 if any restart is a mismatch, 0 if each came back, 2 else: nothing shows it.

    `has_failed`: the last starts ended before a step, and none has followed them.
    """
    answers = set(map(find_answer, restarts))
    if "mismatch" in answers:
        return 1
    return 0 if answers == {"came back"} and not has_failed else 2


def find_answer(restart: RestartAnswer) -> str:
    """Return the answer of one rank's restart in a word or two."""
    if restart.is_wrong:
        return "mismatch"
    return "came back" if restart.has_come_back and restart.has_continued else "unknown"


def render_table(
    folder_name: str,
    starts: Sequence[GuardedStart],
    restarts: Sequence[RestartAnswer],
    startups: Sequence[Startup] = (),
) -> RenderableType:
    """Return a table of the restarts, a row for each rank, and what is wrong with them."""
    count = len({restart.start for restart in restarts})
    head = (
        f"{folder_name}: {plural(len({s.start for s in starts}), 'start')}, "
        f"{plural(count, 'restart')}"
    )
    table = build_bare_table(
        *build_number_columns("start", "rank"),
        *build_number_columns("from step", "lost", "parts", "replayed", "same inputs", "same loss"),
        Column("answer", no_wrap=True),
    )
    for rank_restart in restarts:
        answer = find_answer(rank_restart)
        table.add_row(
            str(rank_restart.start),
            str(rank_restart.rank),
            _format_number(rank_restart.step),
            _format_number(rank_restart.lost),
            str(len(rank_restart.compared)),
            str(rank_restart.replayed),
            str(rank_restart.same_inputs),
            str(rank_restart.same_losses),
            Text(answer, style=_STYLES[answer]),
        )
    lines: list[RenderableType] = [Text(head), Text("")]
    lines += [table] if restarts else [Text(explain_no_restart(starts, startups))]
    if restarts and startups:
        lines += [Text(""), *(Text(f"{line}.") for line in describe_startups(startups))]
    lines += [Text("")] if any(rank_restart.findings for rank_restart in restarts) else []
    ranks_by_finding: dict[tuple[int, GuardFinding], list[int]] = {}
    for rank_restart in restarts:
        for finding in rank_restart.findings:
            ranks_by_finding.setdefault((rank_restart.start, finding), []).append(rank_restart.rank)
    for (start, finding), finding_ranks in ranks_by_finding.items():
        location = f"start {start}, {describe_ranks(finding_ranks)}: "
        lines.append(
            Text.assemble(location, (finding.level, _STYLES[finding.level]), f": {finding.text}")
        )
    return Group(*lines)


def explain_no_restart(starts: Sequence[GuardedStart], startups: Sequence[Startup] = ()) -> str:
    """Return why no restart is recorded."""
    if startups:
        return "\n".join(f"{line}." for line in describe_startups(startups))
    if len({start.start for start in starts}) > 1:
        return (
            "No start could be compared: before it, no save of what is trained was seen "
            "(docs/guard.md, limits)."
        )
    return "No start has followed another one yet."


def _format_number(value: int | None) -> str:
    return "-" if value is None else str(value)


def render_json(restarts: Sequence[RestartAnswer]) -> str:
    """Return the restarts, one JSON object in each line."""
    lines = (
        msgspec.to_builtins(restart)
        | {"is_wrong": restart.is_wrong, "answer": find_answer(restart)}
        for restart in restarts
    )
    return "".join(json.dumps(line) + "\n" for line in lines)


def render_metrics(restarts: Sequence[RestartAnswer], startups: Sequence[Startup] = ()) -> str:
    """Return Prometheus's text of the restarts, for node_exporter's textfile collector."""
    first_rank_restarts = [restart for restart in restarts if restart.rank == 0]
    wrong_starts = {r.start for r in restarts if r.is_wrong}
    lines = [
        "# TYPE chaos_guard_restarts_total counter",
        f"chaos_guard_restarts_total {len(first_rank_restarts)}",
        "# TYPE chaos_guard_mismatches_total counter",
        f"chaos_guard_mismatches_total {len(wrong_starts)}",
        "# TYPE chaos_guard_failed_starts_total counter",
        f"chaos_guard_failed_starts_total {count_startups(startups)}",
    ]
    if first_rank_restarts:
        latest_restart = first_rank_restarts[-1]
        lines += ["# TYPE chaos_guard_last_mismatch gauge"]
        lines += [f"chaos_guard_last_mismatch {int(latest_restart.start in wrong_starts)}"]
        for name, value in (
            ("lost_steps", latest_restart.lost),
            ("first_step_seconds", latest_restart.first_step_s),
        ):
            if value is not None:
                lines += [f"# TYPE chaos_guard_last_{name} gauge"]
                lines += [f"chaos_guard_last_{name} {json.dumps(value)}"]
    return "\n".join(lines) + "\n"
