"""The score in a terminal, 80 columns wide."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chaos.selftest.interval import Share
from chaos.selftest.score import EXIT_GOOD, EXIT_UNKNOWN, Score, bug_score, false_alarms
from chaos.selftest.trial import Judged

_MARKS = {EXIT_GOOD: ("✓", "green"), EXIT_UNKNOWN: ("?", "yellow")}
_BAD = ("✗", "bold red")


def show_score(score: Score) -> RenderableType:
    """Give both tables, what is not as it should be, and the answer in one line."""
    lines: list[RenderableType] = []
    if score.bugs:
        lines += [_bugs(score), Text("")]
    if score.controls:
        lines += [_controls(score), Text("")]
    lines += _worth_a_look(score)
    return Group(*lines, answer(score))


def answer(score: Score) -> Text:
    """Say in a few lines how good the oracle is, and how sure that is."""
    mark, style = _MARKS.get(score.exit_code, _BAD)
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
    table = _table("planted bug", "detected", "revealed", "runs", "named right")
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
    table = _table("control", "false alarms", "undecided", "runs")
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


def _table(first: str, *others: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(first, no_wrap=True)
    for name in others:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _of(share: Share, *, full_is_good: bool) -> Text:
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
    """Say what is wrong with a run."""
    if row.is_false_alarm:
        return "false alarm"
    if row.is_miss:
        return "missed"
    if row.is_misnamed:
        return f"misnamed {row.first}"
    return "undecided"


def place(row: Judged) -> str:
    """Say what was done in a run."""
    return ", then ".join(f"{op.fault} at {op.at}" for op in row.ops)
