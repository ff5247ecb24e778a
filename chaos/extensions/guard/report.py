"""The restarts of a guarded training: the parts of a report, JSON and metrics."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.judge import merge_findings
from chaos.extensions.guard.passes import find_pass_defects, group_samples
from chaos.extensions.guard.records import GuardedStart, GuardFinding, RestartAnswer, Startup
from chaos.extensions.guard.restart import find_unproven
from chaos.extensions.guard.startups import (
    count_startups,
    describe_startups,
    find_ended_startups,
    is_failing,
)
from chaos.report.outcome import Tone
from chaos.report.parts import Cell, Headline, LabelledLines, ReportLine, ReportPart, ResultTable
from chaos.wording import describe_ranks, plural

ANSWER_TONES: Mapping[str, Tone] = {"came back": "good", "mismatch": "bad", "unknown": "open"}
FINDING_TONES: Mapping[str, Tone] = {"mismatch": "bad", "notice": "open", "accepted": "calm"}
COUNTS = ("from step", "lost", "parts", "replayed", "same inputs", "same loss")


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


@dataclass(frozen=True)
class GuardReport:
    """All that a folder tells: its starts, its judged restarts, and what ended before a step."""

    folder: GuardFolder
    starts: Sequence[GuardedStart]
    restarts: Sequence[RestartAnswer]
    startups: Sequence[Startup]

    @classmethod
    def load(cls, folder: GuardFolder) -> "GuardReport":
        starts = folder.load_starts()
        return cls(
            folder, starts, load_judged_restarts(folder), find_ended_startups(folder, starts)
        )

    @property
    def exit_code(self) -> int:
        """1 if any restart is a mismatch, 0 if each came back, 2 else."""
        return exit_code(self.restarts, has_failed=is_failing(self.startups, self.starts))

    @property
    def start_count(self) -> int:
        return len({start.start for start in self.starts})

    @property
    def restarts_by_start(self) -> dict[int, list[RestartAnswer]]:
        """The restarts by their start, each with an answer of every rank."""
        restarts: dict[int, list[RestartAnswer]] = {}
        for restart in self.restarts:
            restarts.setdefault(restart.start, []).append(restart)
        return restarts

    @property
    def answers(self) -> dict[int, str]:
        """The answer of each restart: the gravest one of its ranks."""
        words = {
            start: {*map(find_answer, ranks)} for start, ranks in self.restarts_by_start.items()
        }
        return {
            start: next(word for word in ("mismatch", "unknown", "came back") if word in answers)
            for start, answers in words.items()
        }


def list_parts(report: GuardReport) -> tuple[ReportPart, ...]:
    """Return the answer, the restarts with a row for each rank, and what is wrong with them."""
    rank_table = ResultTable(
        ("start", "rank", *COUNTS, "answer"),
        [_build_rank_row(restart) for restart in report.restarts],
        numbers=range(8),
        breakable=(),
    )
    ranks_by_finding: dict[tuple[int, GuardFinding], list[int]] = {}
    for restart in report.restarts:
        for finding in restart.findings:
            ranks_by_finding.setdefault((restart.start, finding), []).append(restart.rank)
    lines = [
        ReportLine(
            FINDING_TONES[finding.level],
            f"start {start}, {describe_ranks(ranks)}",
            f"{finding.level}: {finding.text}",
        )
        for (start, finding), ranks in ranks_by_finding.items()
    ]
    return (
        build_headline(report),
        *([rank_table] if report.restarts else []),
        *([LabelledLines(lines)] if lines else []),
    )


def build_headline(report: GuardReport) -> Headline:
    """Return how many restarts came back, and why none is known, or what ended before a step."""
    answers = report.answers
    right_count = sum(answer == "came back" for answer in answers.values())
    text = f"{right_count} of {plural(len(answers), 'restart')} came back"
    counts = f"{plural(report.start_count, 'start')}, {plural(len(answers), 'restart')}"
    return Headline(
        ANSWER_TONES[("came back", "mismatch", "unknown")[report.exit_code]],
        text if answers else "no restart is recorded",
        subject=report.folder.location,
        notes=[counts, *_explain_failures(report)],
    )


def _explain_failures(report: GuardReport) -> Sequence[str]:
    if report.startups or report.restarts:
        return describe_startups(report.startups)
    if report.start_count > 1:
        reason = "before it, no save of what is trained was seen (docs/guard.md, limits)"
        return [f"no start could be compared: {reason}"]
    return ["no start has followed another one yet"]


def _build_rank_row(restart: RestartAnswer) -> tuple[str | Cell, ...]:
    figures = (
        restart.start,
        restart.rank,
        restart.step,
        restart.lost,
        len(restart.compared),
        restart.replayed,
        restart.same_inputs,
        restart.same_losses,
    )
    answer = find_answer(restart)
    return (*map(format_count, figures), Cell(answer, ANSWER_TONES[answer]))


def format_count(value: int | None) -> str:
    """Return a count, or the sign for one that is not known."""
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
