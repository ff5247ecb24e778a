"""Scores of the self-test: shares with their intervals, as JSON and in a terminal."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from chaos.extensions.lab.selftest.catalogue import CatalogueJob
from chaos.extensions.lab.selftest.runs import JudgedTrial
from chaos.report.live import LiveLine
from chaos.report.screen import build_bare_table, build_number_columns
from chaos.wording import wilson_interval


@dataclass(frozen=True)
class Rate:
    """`count` of `total`."""

    count: int
    total: int

    @property
    def bounds(self) -> tuple[float, float]:
        """The 95 % interval of the share; (0, 1) if nothing was counted."""
        return wilson_interval(self.count, self.total)

    def to_json(self) -> dict[str, object]:
        return {"count": self.count, "of": self.total, "interval_95": list(self.bounds)}

    def __str__(self) -> str:
        low, high = self.bounds
        return f"{self.count} of {self.total} (95 %: {100 * low:.1f}-{100 * high:.1f} %)"


EXIT_GOOD, EXIT_BAD, EXIT_UNKNOWN = 0, 1, 2


@dataclass(frozen=True)
class BugScore:
    """The runs of one bug, or of all."""

    total: int
    detection_rate: Rate
    naming_rate: Rate

    @property
    def revealing_count(self) -> int:
        """The number of runs that could show it."""
        return self.detection_rate.total


@dataclass(frozen=True)
class Score:
    """The whole self-test; rows are in the order of their numbers."""

    seed: int
    backend: str
    exhibits: tuple[CatalogueJob, ...]
    rows: tuple[JudgedTrial, ...]
    seconds: float

    def select_rows(self, exhibit: CatalogueJob) -> list[JudgedTrial]:
        """Return the runs of one exhibit."""
        return [row for row in self.rows if row.exhibit == exhibit.id]

    @property
    def bugs(self) -> list[CatalogueJob]:
        """The planted bugs that were tried."""
        return [exhibit for exhibit in self.exhibits if not exhibit.is_control]

    @property
    def controls(self) -> list[CatalogueJob]:
        """The controls that were tried."""
        return [exhibit for exhibit in self.exhibits if exhibit.is_control]

    @property
    def total_bug_score(self) -> BugScore:
        """The runs of all bugs together."""
        return score_bug([row for row in self.rows if not row.is_control])

    @property
    def false_alarm_rate(self) -> Rate:
        """The control runs that were called wrong."""
        return count_false_alarms([row for row in self.rows if row.is_control])

    @property
    def catch_rate(self) -> Rate:
        """The bugs that were found in every run that could show them, of at least one."""
        scores = [score_bug(self.select_rows(bug)).detection_rate for bug in self.bugs]
        return Rate(sum(s.total > 0 and s.count == s.total for s in scores), len(scores))

    @property
    def misnamed_bugs(self) -> list[str]:
        """The bugs that were called something else at least once."""
        return [
            bug.id for bug in self.bugs if any(row.is_misnamed for row in self.select_rows(bug))
        ]

    @property
    def exit_code(self) -> int:
        """1 for a missed bug or a blamed right job, 2 if something was not shown, else 0."""
        if any(row.is_miss or row.is_false_alarm for row in self.rows):
            return EXIT_BAD
        untried = any(score_bug(self.select_rows(bug)).revealing_count == 0 for bug in self.bugs)
        undecided = any(row.is_undecided and row.is_control for row in self.rows)
        return EXIT_UNKNOWN if untried or undecided else EXIT_GOOD

    def to_json(self) -> str:
        return json.dumps(
            {
                "seed": self.seed,
                "backend": self.backend,
                "seconds": self.seconds,
                "exit_code": self.exit_code,
                "bugs": {
                    bug.id: _format_bug_score(score_bug(self.select_rows(bug))) for bug in self.bugs
                },
                "all_bugs": _format_bug_score(self.total_bug_score),
                "controls": {
                    c.id: count_false_alarms(self.select_rows(c)).to_json() for c in self.controls
                },
                "false_alarms": self.false_alarm_rate.to_json(),
                "runs": [row.model_dump(mode="json") for row in self.rows],
            },
            indent=2,
        )


def score_bug(rows: Sequence[JudgedTrial]) -> BugScore:
    """Count the runs of a bug by their outcome."""
    revealing_rows = [row for row in rows if row.revealing]
    detected_rows = [row for row in revealing_rows if not row.is_miss]
    named_count = sum(row.named for row in detected_rows)
    return BugScore(
        len(rows),
        Rate(len(detected_rows), len(revealing_rows)),
        Rate(named_count, len(detected_rows)),
    )


def count_false_alarms(rows: Iterable[JudgedTrial]) -> Rate:
    """Count the runs called wrong among the decided runs of right jobs."""
    decided_rows = [row for row in rows if row.is_false_alarm or not row.is_undecided]
    return Rate(sum(row.is_false_alarm for row in decided_rows), len(decided_rows))


def _format_bug_score(score: BugScore) -> dict[str, object]:
    return {
        "runs": score.total,
        "detected": score.detection_rate.to_json(),
        "named": score.naming_rate.to_json(),
    }


# -- in a terminal ------------------------------------------------------------------------------

_MARKS = (("✓", "green"), ("✗", "bold red"), ("?", "yellow"))  # by exit code


def render_score(score: Score) -> RenderableType:
    """Return both tables, the wrong verdicts, and the answer in one line."""
    lines: list[RenderableType] = []
    if score.bugs:
        lines += [_build_bug_table(score), Text("")]
    if score.controls:
        lines += [_build_control_table(score), Text("")]
    lines += _render_notable_rows(score)
    return Group(*lines, summarize_score(score))


def summarize_score(score: Score) -> Text:
    """Return the figures of the self-test in a few lines, with their intervals."""
    mark, style = _MARKS[score.exit_code]
    caught = f"{score.catch_rate.count} of {score.catch_rate.total} bugs caught wherever they show"
    if score.misnamed_bugs:
        caught += f"; misnamed: {', '.join(score.misnamed_bugs)}"
    lines = [caught]
    if score.bugs:
        lines.append(f"  detected      {score.total_bug_score.detection_rate}")
        lines.append(f"  named right   {score.total_bug_score.naming_rate}")
    if score.controls:
        lines.append(f"  false alarms  {score.false_alarm_rate}")
    took = f"  seed {score.seed}, {len(score.rows)} runs on {score.backend}, {score.seconds:.0f} s"
    return Text.assemble((mark, style), " ", "\n".join([*lines, took]))


def _build_bug_table(score: Score) -> Table:
    table = build_bare_table(
        Column("planted bug", no_wrap=True),
        *build_number_columns("detected", "revealed", "runs", "named right"),
    )
    for bug in score.bugs:
        bug_result = score_bug(score.select_rows(bug))
        is_bad = (
            bug_result.detection_rate.count < bug_result.revealing_count
            or bug_result.revealing_count == 0
        )
        table.add_row(
            f"{bug.id} {bug.title}",
            Text(str(bug_result.detection_rate.count), style="red" if is_bad else ""),
            str(bug_result.revealing_count),
            str(bug_result.total),
            _format_rate(bug_result.naming_rate, full_is_good=True),
        )
    return table


def _build_control_table(score: Score) -> Table:
    head = Column("control", no_wrap=True)
    table = build_bare_table(head, *build_number_columns("false alarms", "undecided", "runs"))
    for control in score.controls:
        rows = score.select_rows(control)
        undecided = sum(row.is_undecided and not row.is_false_alarm for row in rows)
        table.add_row(
            f"{control.id} {control.title}",
            _format_rate(count_false_alarms(rows), full_is_good=False),
            Text(str(undecided), style="yellow" if undecided else ""),
            str(len(rows)),
        )
    return table


def _format_rate(rate: Rate, *, full_is_good: bool) -> Text:
    is_bad = rate.count < rate.total if full_is_good else rate.count > 0
    return Text(f"{rate.count} of {rate.total}", style="red" if is_bad else "")


def _render_notable_rows(score: Score) -> Iterator[RenderableType]:
    for row in score.rows:
        if row.is_worth_a_look:
            yield Text.assemble(
                (f"{describe_mistake(row)}: ", "bold"), f"{row.exhibit}, {describe_faults(row)}"
            )
            yield Text(f"  {row.headline}")
            if row.folder is not None:
                yield Text(f"  chaos replay {row.folder}", overflow="fold", no_wrap=False)
            yield Text("")


def describe_mistake(row: JudgedTrial) -> str:
    """Return in words the mistake in a run's verdict."""
    if row.is_false_alarm:
        return "false alarm"
    if row.is_miss:
        return "missed"
    if row.is_misnamed:
        return f"misnamed {row.first}"
    return "undecided"


def describe_faults(row: JudgedTrial) -> str:
    """Return the faults of a run and their places."""
    return ", then ".join(f"{op.fault} at {op.at}" for op in row.ops)


# -- progress -----------------------------------------------------------------------------------


class SelftestDisplay(LiveLine):
    """The progress of a self-test of `total` runs."""

    total = 0

    def show(self, done: int, row: JudgedTrial) -> None:
        self.show_line(
            format_progress(done, self.total, row),
            stage="selftest",
            share=done / max(1, self.total),
        )


def format_progress(done_count: int, total: int, row: JudgedTrial) -> Text:
    """Return the progress and the last run in one line."""
    text = Text.assemble(("selftest", "bold"), f"  {done_count}/{total}  ")
    mark, style = ("✗", "red") if row.is_worth_a_look else ("✓", "green")
    mistake_text = f" ({describe_mistake(row)})" if row.is_worth_a_look else ""
    text.append(mark, style).append(f" {row.exhibit}: {describe_faults(row)}{mistake_text}")
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
