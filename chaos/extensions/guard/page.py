"""The restarts of a guarded training as one HTML page that loads nothing."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from statistics import fmean
from typing import Any, TypeAlias

import altair as alt

from chaos import __version__
from chaos.extensions.guard.folder import GuardFolder
from chaos.extensions.guard.records import GuardedStart, RankSave, RankStep, RestartAnswer
from chaos.extensions.guard.report import (
    ANSWER_TONES,
    FINDING_TONES,
    GuardReport,
    build_headline,
    format_count,
)
from chaos.extensions.guard.restart import describe_restart
from chaos.extensions.guard.steps import BLOCK, REPLAYED_MAX, compute_means
from chaos.report import chart as ch
from chaos.report.html import render_page
from chaos.report.parts import (
    Cell,
    CellContent,
    ChartPart,
    Figures,
    LabelledLines,
    ReportLine,
    ReportPart,
    ResultTable,
    Section,
)
from chaos.wording import describe_ranks, join_names

_COLORS = {"came back": "var(--good)", "mismatch": "var(--bad)", "unknown": "var(--open)"}
_OLD, _NEW = "before the restart", "after the restart"
RUNS_SHOWN = 8  # of ranks that follow one another
ROWS_SHOWN = 8  # of a table; one with more is folded
DAY_MS = 86_400_000
DRAWN_MAX = 16  # restarts whose losses are drawn, the newest ones
Rows: TypeAlias = Sequence[Sequence[CellContent]]


def render_guard(report: GuardReport) -> str:
    """Return the page of a folder: all restarts in time, then each, the newest first."""
    saves, by_start, headline = (
        report.folder.load_saves(),
        report.restarts_by_start,
        build_headline(report),
    )
    parts: list[ReportPart] = [headline]
    if by_start:
        parts.append(Figures([*_list_figures(report)]))
        chart = _draw_timeline(report, saves)
        parts.append(Section([ChartPart(chart)], heading=chart.title))
    drawn_starts = sorted(by_start)[-DRAWN_MAX:]
    for start, rank_restarts in sorted(by_start.items(), reverse=True):
        is_drawn = start in drawn_starts
        losses = _draw_losses(report.folder, rank_restarts[0], saves) if is_drawn else None
        parts.append(_build_restart_section(report, rank_restarts, saves, losses))
    return render_page(
        parts,
        kind="guard of a real training, times in UTC",
        heading=report.folder.location,
        title=f"Guard: {headline.text}",
        footer=f"Made by chaos {__version__} from the records of the guard.",
    )


def _list_figures(report: GuardReport) -> Iterator[tuple[str, str]]:
    """Yield figures of all restarts; a step that several ranks have lost is lost once."""
    yield "starts", str(report.start_count)
    for word in ANSWER_TONES:
        yield word, str(sum(answer == word for answer in report.answers.values()))
    lost_steps = [
        max(steps)
        for rank_restarts in report.restarts_by_start.values()
        if (steps := _select_values(rank_restarts, "lost"))
    ]
    yield "steps lost", str(sum(lost_steps)) if lost_steps else "-"
    first_step_times = _select_values(report.restarts, "first_step_s")
    yield "slowest first step", f"{max(first_step_times):.1f} s" if first_step_times else "-"


def _select_values(rank_restarts: Sequence[RestartAnswer], name: str) -> list[Any]:  # int or float
    return [value for restart in rank_restarts if (value := getattr(restart, name)) is not None]


# -- one restart --------------------------------------------------------------------------------


def _build_restart_section(
    report: GuardReport,
    rank_restarts: Sequence[RestartAnswer],
    saves: Sequence[RankSave],
    losses: ch.Chart | None,
) -> Section:
    """Return one restart of the training, with all of its ranks."""
    start = rank_restarts[0].start
    answer = report.answers[start]
    began = [record.began_s for record in report.starts if record.start == start]
    began_text = _format_time(min(began, default=rank_restarts[0].at_s))
    lines = [ReportLine(ANSWER_TONES[answer], answer, f"began {began_text}")]
    lines += (
        ReportLine("calm", ranks, text)
        for text, ranks in _group_ranks(
            (describe_restart(record), record.rank) for record in rank_restarts
        )
    )
    lines += (
        ReportLine(FINDING_TONES[finding.level], finding.level, finding.text, aside=f"({ranks})")
        for finding, ranks in _group_ranks(
            (finding, record.rank) for record in rank_restarts for finding in record.findings
        )
    )
    return Section(
        [
            LabelledLines(lines),
            *([Section([ChartPart(losses)], title="Losses", name=losses.name)] if losses else []),
            *_list_tables(start, rank_restarts, saves),
        ],
        title=f"Start {start}: {answer}",
        name=f"start-{start}",
    )


def _list_tables(
    start: int, rank_restarts: Sequence[RestartAnswer], saves: Sequence[RankSave]
) -> Iterator[Section]:
    """Yield the tables of parts, ranks and saves that have rows."""
    part_columns = ("parts", "came back", "other than at the save", "not compared")
    if part_rows := _build_part_rows(rank_restarts):
        table = ResultTable(part_columns, part_rows)
        yield Section([table], title="Parts of the state", name=f"parts-{start}")
    rank_columns = ("rank", "from step", "steps lost", "first step after", "made again")
    rank_rows = [_build_rank_row(record) for record in rank_restarts]
    rank_table = ResultTable((*rank_columns, "same inputs", "same loss"), rank_rows, range(1, 7))
    yield Section([_fold_long(rank_table, "ranks")], title="Ranks", name=f"ranks-{start}")
    if save_rows := _build_save_rows(rank_restarts, saves):
        save_table = ResultTable(("file or folder", "ranks", "size", "saved"), save_rows)
        yield Section([_fold_long(save_table, "files")], title="Save", name=f"save-{start}")


def _fold_long(table: ResultTable, noun: str) -> ReportPart:
    is_long = len(table.rows) > ROWS_SHOWN
    return Section([table], summary=f"{len(table.rows)} {noun}") if is_long else table


def _group_ranks(pairs: Any) -> list[tuple[Any, str]]:  # of anything hashable and a rank
    ranks_by_item = defaultdict[Any, list[int]](list)
    for item, rank in pairs:
        ranks_by_item[item].append(rank)
    return [(item, _describe_ranks(item_ranks)) for item, item_ranks in ranks_by_item.items()]


def _build_part_rows(rank_restarts: Sequence[RestartAnswer]) -> Rows:
    """Return the parts of which the answer is the same, those that are other first."""
    names_by_ranks = defaultdict[tuple[str, str, str], list[str]](list)
    for name in dict.fromkeys(name for restart in rank_restarts for name in restart.compared):
        names_by_ranks[_sort_ranks(name, rank_restarts)].append(name)
    is_wrong = any(restart.is_wrong for restart in rank_restarts)
    return [
        (
            Cell(", ".join(names), is_code=True),
            equal_ranks,
            Cell(changed_ranks, "bad" if is_wrong else "open"),
            Cell(unknown_ranks, "calm"),
        )
        for (equal_ranks, changed_ranks, unknown_ranks), names in sorted(
            names_by_ranks.items(), key=lambda item: not item[0][1]
        )
    ]


def _sort_ranks(name: str, rank_restarts: Sequence[RestartAnswer]) -> tuple[str, str, str]:
    """Return the ranks to which a part came back, to which it did not, and the others."""
    equal_ranks, changed_ranks, unknown_ranks = list[int](), list[int](), list[int]()
    for restart in rank_restarts:
        is_unknown = (
            not restart.differing and not restart.has_come_back
        )  # of an older version of the guard
        if name not in restart.compared or is_unknown:
            unknown_ranks.append(restart.rank)
        else:
            (changed_ranks if name in restart.differing else equal_ranks).append(restart.rank)
    return (
        _describe_ranks(equal_ranks),
        _describe_ranks(changed_ranks),
        _describe_ranks(unknown_ranks),
    )


def _describe_ranks(rank_numbers: Sequence[int]) -> str:
    """Return ranks in words, those that follow one another as one; empty without any."""
    runs = list[list[int]]()
    for rank in sorted(rank_numbers):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    if len(runs) > RUNS_SHOWN:
        return f"{len(rank_numbers)} ranks, the first of them {runs[0][0]}"
    if all(len(run) < RUNS_SHOWN for run in runs):
        return describe_ranks(rank_numbers) if rank_numbers else ""
    return "ranks " + join_names(
        [
            str(run_ranks[0]) if len(run_ranks) == 1 else f"{run_ranks[0]} to {run_ranks[-1]}"
            for run_ranks in runs
        ]
    )


def _build_rank_row(restart: RestartAnswer) -> tuple[str, ...]:
    return (
        str(restart.rank),
        format_count(restart.step),
        format_count(restart.lost),
        "-" if restart.first_step_s is None else f"{restart.first_step_s:.2f} s",
        str(restart.replayed),
        str(restart.same_inputs),
        str(restart.same_losses),
    )


def _build_save_rows(rank_restarts: Sequence[RestartAnswer], saves: Sequence[RankSave]) -> Rows:
    rows = list[Sequence[CellContent]]()
    pairs = (
        ((path, restart.step), restart.rank) for restart in rank_restarts for path in restart.files
    )
    for (path, step), rank_text in _group_ranks(pairs):
        path_saves = [save for save in saves if path in save.files and save.step == step]
        size = (
            f"{path_saves[-1].files[path][0]:,} bytes"
            if path_saves and path_saves[-1].files[path][0]
            else "-"
        )
        rows.append(
            (
                Cell(path, is_code=True),
                rank_text,
                size,
                _format_time(path_saves[-1].at_s) if path_saves else "-",
            )
        )
    return rows


def _format_time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


# -- charts -------------------------------------------------------------------------------------


def _draw_timeline(report: GuardReport, saves: Sequence[RankSave]) -> ch.Chart:
    """Draw starts, saves and restarts over time, by the steps of the training."""
    answers = report.answers
    marks, drops = list[dict[str, Any]](), list[dict[str, Any]]()
    for number, rank_restarts in report.restarts_by_start.items():
        worst_restart = max(rank_restarts, key=lambda rank_restart: rank_restart.lost or 0)
        mark_point = _build_point(worst_restart.at_s, number, worst_restart.step or 0)
        marks.append(
            mark_point | {"answer": answers[number], "lost": format_count(worst_restart.lost)}
        )
        drops += (
            [mark_point | {"to": mark_point["step"] + worst_restart.lost}]
            if worst_restart.lost
            else []
        )
    points = [*_build_points(report.starts, saves), *marks]
    times = [point["at"] for point in points]
    summary = "; ".join(
        f"start {mark['start']} from step {mark['step']}: {mark['answer']}" for mark in marks
    )
    return ch.draw_chart(
        "restarts",
        ch.ChartMarks(
            alt.layer(*_build_time_layers(times)).properties(height=220),
            {"points": points, "marks": marks, "drops": drops},
        ),
        title="Restarts in time",
        label=f"Restarts by time and step. {summary}.",
        caption="A line is a start, from the time its process began over the saves that are "
        "recorded of it. A circle is the first step of a restart, at the step it went on from; at "
        "0 where no save is known for it. The bar above it: steps lost.",
        keys=[
            ch.LegendEntry("start, with its saves", "line", ch.BASELINE),
            *(
                ch.LegendEntry(answer, "box", color)
                for answer, color in _COLORS.items()
                if answer in {mark["answer"] for mark in marks}
            ),
            *([ch.LegendEntry("steps lost", "wide", ch.LOST)] if drops else []),
        ],
    )


def _build_points(
    starts: Sequence[GuardedStart], saves: Sequence[RankSave]
) -> Iterator[dict[str, Any]]:
    """Yield when a start began, at the step that it went on from, and each of its saves."""
    for number in sorted({start.start for start in starts}):
        rank_starts = [start for start in starts if start.start == number]
        yield _build_point(
            min(start.began_s for start in rank_starts),
            number,
            max(start.step for start in rank_starts),
        )
        steps = {save.step: save.at_s for save in saves if save.start == number}
        for step, at_s in steps.items():
            yield _build_point(at_s, number, step) | {"is_save": 1}


def _build_point(at_s: float, start: int, step: int) -> dict[str, Any]:
    return {"at": round(at_s * 1000), "start": start, "step": step, "is_save": 0}


def _build_time_layers(times: Sequence[int]) -> tuple[alt.Chart, ...]:
    time_format = "%H:%M:%S" if max(times) - min(times) < DAY_MS else "%m-%d %H:%M"
    axis = alt.Axis(labelOverlap=True, labelBound=True, format=time_format)
    x = alt.X("at:T", title="time, UTC", scale=alt.Scale(type="utc"), axis=axis)
    y = alt.Y("step:Q", title="step", axis=alt.Axis(format="d", tickMinStep=1))
    tooltip = alt.Tooltip("at:T", format="%H:%M:%S")
    base = ch.build_named_chart("points").encode(x=x, y=y, detail="start:N")
    save_layer = base.transform_filter("datum.is_save == 1").mark_point(
        filled=True, size=26, opacity=1, color=ch.BASELINE
    )
    mark_layer = ch.build_named_chart("marks").mark_point(
        filled=True, size=90, opacity=1, stroke="var(--bg)"
    )
    lost_layer = ch.build_named_chart("drops").mark_rule(color=ch.LOST, strokeWidth=5, opacity=0.85)
    return (
        base.mark_line(color=ch.BASELINE, strokeWidth=2),
        save_layer.encode(tooltip=["start:N", "step:Q", tooltip]),
        mark_layer.encode(
            x=x,
            y=y,
            color=ch.encode_color("answer", _COLORS),
            tooltip=["start:N", "step:Q", "answer:N", "lost:N", tooltip],
        ),
        lost_layer.encode(x=x, y=y, y2="to:Q"),
    )


def _draw_losses(
    folder: GuardFolder, restart: RestartAnswer, saves: Sequence[RankSave]
) -> ch.Chart | None:
    """Draw the losses of a rank about a restart: those before it, and those since."""
    if restart.step is None or restart.of_start is None:
        return None
    origin_saves = (
        s
        for s in saves
        if (s.rank, s.start, s.step) == (restart.rank, restart.of_start, restart.step)
    )
    window = next((save.losses for save in origin_saves), ())
    old_steps = _select_near_steps(folder.load_steps(restart.rank, restart.of_start), restart.step)
    new_steps = _select_near_steps(folder.load_steps(restart.rank, restart.start), restart.step)
    rows = [
        {"step": step.number, "loss": step.loss, "when": period}
        for period, steps in ((_OLD, old_steps), (_NEW, new_steps))
        for step in steps
    ]
    if not old_steps or not new_steps:
        return None
    layers = _build_loss_layers()
    later_losses = [step.loss for step in new_steps if step.number > restart.step]
    return ch.draw_chart(
        f"losses-{restart.start}",
        ch.ChartMarks(
            alt.layer(*layers).properties(height=180),
            {"losses": rows, "save": [{"at": restart.step}]},
        ),
        title=f"Losses about start {restart.start}",
        label=f"Losses of rank {restart.rank} about the save of step {restart.step}.",
        caption=f"Rank {restart.rank}. Vertical: the save of step {restart.step}. "
        f"{_describe_means(window, later_losses)}".rstrip(),
        keys=[ch.LegendEntry(_OLD, "line", ch.BASELINE), ch.LegendEntry(_NEW, "line", ch.RUN)],
    )


def _select_near_steps(steps: Sequence[RankStep], save_step: int) -> list[RankStep]:
    return [s for s in steps if s.loss is not None and abs(s.number - save_step) <= REPLAYED_MAX]


def _describe_means(window: Sequence[float], later_losses: Sequence[float | None]) -> str:
    """Return the mean of the first losses since a restart, and the range before the save."""
    first_losses = [loss for loss in later_losses if loss is not None][:BLOCK]
    if len(window) < BLOCK or len(first_losses) < BLOCK:
        return ""
    means = compute_means(window)
    return (
        f"Mean of the first {BLOCK} losses since the restart: {fmean(first_losses):.6g}; of any "
        f"{BLOCK} "
        f"among the {len(window)} before the save: {min(means):.6g} to {max(means):.6g}."
    )


def _build_loss_layers() -> tuple[alt.Chart, ...]:
    axis = alt.Axis(format="d", tickMinStep=1)
    x = alt.X("step:Q", title="step", scale=alt.Scale(zero=False, nice=False), axis=axis)
    y = alt.Y("loss:Q", title="loss", scale=alt.Scale(zero=False))
    colors = {_OLD: ch.BASELINE, _NEW: ch.RUN}
    color = ch.encode_color("when", colors)
    line = ch.build_named_chart("losses").mark_line(
        point=alt.OverlayMarkDef(size=18), strokeJoin="round"
    )
    widths = alt.StrokeWidth(
        "when:N", legend=None, scale=alt.Scale(domain=list(colors), range=[4, 1.5])
    )
    return (
        ch.build_named_chart("save").mark_rule(color=ch.COMMIT, strokeDash=[4, 3]).encode(x="at:Q"),
        line.encode(
            x=x, y=y, color=color, strokeWidth=widths, tooltip=["step:Q", "loss:Q", "when:N"]
        ),
    )
