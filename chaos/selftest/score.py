"""Scores of the self-test: shares with their intervals, as JSON and in a terminal."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from chaos.report.live import MovingLine
from chaos.report.screen import bare_table, numbers
from chaos.selftest.catalogue import Exhibit
from chaos.selftest.trials import Judged
from chaos.words import wilson_interval


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
    detected: Rate
    named: Rate

    @property
    def revealed(self) -> int:
        """The number of runs that could show it."""
        return self.detected.total


@dataclass(frozen=True)
class Score:
    """The whole self-test; rows are in the order of their numbers."""

    seed: int
    backend: str
    exhibits: tuple[Exhibit, ...]
    rows: tuple[Judged, ...]
    seconds: float

    def of(self, exhibit: Exhibit) -> list[Judged]:
        """Return the runs of one exhibit."""
        return [row for row in self.rows if row.exhibit == exhibit.id]

    @property
    def bugs(self) -> list[Exhibit]:
        """The planted bugs that were tried."""
        return [exhibit for exhibit in self.exhibits if not exhibit.is_control]

    @property
    def controls(self) -> list[Exhibit]:
        """The controls that were tried."""
        return [exhibit for exhibit in self.exhibits if exhibit.is_control]

    @property
    def on_bugs(self) -> BugScore:
        """The runs of all bugs together."""
        return bug_score([row for row in self.rows if not row.is_control])

    @property
    def false_alarms(self) -> Rate:
        """The control runs that were called wrong."""
        return false_alarms([row for row in self.rows if row.is_control])

    @property
    def caught(self) -> Rate:
        """The bugs that were found in every run that could show them, of at least one."""
        scores = [bug_score(self.of(bug)).detected for bug in self.bugs]
        return Rate(sum(s.total > 0 and s.count == s.total for s in scores), len(scores))

    @property
    def misnamed(self) -> list[str]:
        """The bugs that were called something else at least once."""
        return [bug.id for bug in self.bugs if any(row.is_misnamed for row in self.of(bug))]

    @property
    def exit_code(self) -> int:
        """1 for a missed bug or a blamed right job, 2 if something was not shown, else 0."""
        if any(row.is_miss or row.is_false_alarm for row in self.rows):
            return EXIT_BAD
        untried = any(bug_score(self.of(bug)).revealed == 0 for bug in self.bugs)
        undecided = any(row.is_undecided and row.is_control for row in self.rows)
        return EXIT_UNKNOWN if untried or undecided else EXIT_GOOD

    def to_json(self) -> str:
        return json.dumps(
            {
                "seed": self.seed,
                "backend": self.backend,
                "seconds": self.seconds,
                "exit_code": self.exit_code,
                "bugs": {bug.id: _bug_words(bug_score(self.of(bug))) for bug in self.bugs},
                "all_bugs": _bug_words(self.on_bugs),
                "controls": {c.id: false_alarms(self.of(c)).to_json() for c in self.controls},
                "false_alarms": self.false_alarms.to_json(),
                "runs": [row.model_dump(mode="json") for row in self.rows],
            },
            indent=2,
        )


def bug_score(rows: Sequence[Judged]) -> BugScore:
    """Count the runs of a bug by their outcome."""
    revealing = [row for row in rows if row.revealing]
    detected = [row for row in revealing if not row.is_miss]
    named = sum(row.named for row in detected)
    return BugScore(len(rows), Rate(len(detected), len(revealing)), Rate(named, len(detected)))


def false_alarms(rows: Iterable[Judged]) -> Rate:
    """Count the runs called wrong among the decided runs of right jobs."""
    decided = [row for row in rows if row.is_false_alarm or not row.is_undecided]
    return Rate(sum(row.is_false_alarm for row in decided), len(decided))


def _bug_words(score: BugScore) -> dict[str, object]:
    return {
        "runs": score.total,
        "detected": score.detected.to_json(),
        "named": score.named.to_json(),
    }


# -- in a terminal ------------------------------------------------------------------------------

_MARKS = (("✓", "green"), ("✗", "bold red"), ("?", "yellow"))  # by exit code


def show_score(score: Score) -> RenderableType:
    """Return both tables, the wrong verdicts, and the answer in one line."""
    lines: list[RenderableType] = []
    if score.bugs:
        lines += [_bugs(score), Text("")]
    if score.controls:
        lines += [_controls(score), Text("")]
    lines += _worth_a_look(score)
    return Group(*lines, answer(score))


def answer(score: Score) -> Text:
    """Return the figures of the self-test in a few lines, with their intervals."""
    mark, style = _MARKS[score.exit_code]
    caught = f"{score.caught.count} of {score.caught.total} bugs caught wherever they show"
    if score.misnamed:
        caught += f"; misnamed: {', '.join(score.misnamed)}"
    lines = [caught]
    if score.bugs:
        lines.append(f"  detected      {score.on_bugs.detected}")
        lines.append(f"  named right   {score.on_bugs.named}")
    if score.controls:
        lines.append(f"  false alarms  {score.false_alarms}")
    took = f"  seed {score.seed}, {len(score.rows)} runs on {score.backend}, {score.seconds:.0f} s"
    return Text.assemble((mark, style), " ", "\n".join([*lines, took]))


def _bugs(score: Score) -> Table:
    table = bare_table(
        Column("planted bug", no_wrap=True),
        *numbers("detected", "revealed", "runs", "named right"),
    )
    for bug in score.bugs:
        one = bug_score(score.of(bug))
        bad = one.detected.count < one.revealed or one.revealed == 0
        table.add_row(
            f"{bug.id} {bug.title}",
            Text(str(one.detected.count), style="red" if bad else ""),
            str(one.revealed),
            str(one.total),
            _of(one.named, full_is_good=True),
        )
    return table


def _controls(score: Score) -> Table:
    head = Column("control", no_wrap=True)
    table = bare_table(head, *numbers("false alarms", "undecided", "runs"))
    for control in score.controls:
        rows = score.of(control)
        undecided = sum(row.is_undecided and not row.is_false_alarm for row in rows)
        table.add_row(
            f"{control.id} {control.title}",
            _of(false_alarms(rows), full_is_good=False),
            Text(str(undecided), style="yellow" if undecided else ""),
            str(len(rows)),
        )
    return table


def _of(share: Rate, *, full_is_good: bool) -> Text:
    bad = share.count < share.total if full_is_good else share.count > 0
    return Text(f"{share.count} of {share.total}", style="red" if bad else "")


def _worth_a_look(score: Score) -> Iterator[RenderableType]:
    for row in score.rows:
        if row.is_worth_a_look:
            yield Text.assemble((f"{what(row)}: ", "bold"), f"{row.exhibit}, {place(row)}")
            yield Text(f"  {row.headline}")
            if row.folder is not None:
                yield Text(f"  chaos replay {row.folder}", overflow="fold", no_wrap=False)
            yield Text("")


def what(row: Judged) -> str:
    """Return in words the mistake in a run's verdict."""
    if row.is_false_alarm:
        return "false alarm"
    if row.is_miss:
        return "missed"
    if row.is_misnamed:
        return f"misnamed {row.first}"
    return "undecided"


def place(row: Judged) -> str:
    """Return the faults of a run and their places."""
    return ", then ".join(f"{op.fault} at {op.at}" for op in row.ops)


# -- progress -----------------------------------------------------------------------------------


class SelftestDisplay(MovingLine):
    """The progress of a self-test of `total` runs."""

    total = 0

    def show(self, done: int, row: Judged) -> None:
        self.say(line(done, self.total, row), stage="selftest", share=done / max(1, self.total))


def line(done: int, total: int, row: Judged) -> Text:
    """Return the progress and the last run in one line."""
    text = Text.assemble(("selftest", "bold"), f"  {done}/{total}  ")
    mark, style = ("✗", "red") if row.is_worth_a_look else ("✓", "green")
    said = f" ({what(row)})" if row.is_worth_a_look else ""
    text.append(mark, style).append(f" {row.exhibit}: {place(row)}{said}")
    text.no_wrap, text.overflow = True, "ellipsis"
    return text
