"""The answer as one HTML page that loads nothing."""

from collections.abc import Iterator, Mapping, Sequence

import altair as alt

from chaos import __version__
from chaos.extensions.preflight.answer import Answer
from chaos.extensions.preflight.capacity import Availability
from chaos.extensions.preflight.estimate import format_seconds
from chaos.extensions.preflight.forecast import Forecast
from chaos.extensions.preflight.intervals import IntervalCurve
from chaos.extensions.preflight.question import JobShape
from chaos.extensions.preflight.render import describe_finish_time, finish_unit, list_parts
from chaos.extensions.preflight.saving import NoticeCell
from chaos.report import chart as ch
from chaos.report.html import render_page
from chaos.report.parts import ChartPart, ReportPart, ResultTable, Section

HEIGHT = 240
SLIM = 46
_PARTS: Mapping[str, tuple[str, str]] = {
    "useful": ("training that counts", "var(--run)"),
    "save": ("saving checkpoints", "var(--baseline)"),
    "lost": ("done again", "var(--lost)"),
    "restart": ("restarting", "var(--schedule)"),
    "wait": ("waiting for nodes", "var(--fault)"),
    "shrunk": ("fewer nodes", "var(--start)"),
}


def charts(answer: Answer) -> Iterator[ch.Chart]:
    """Yield every drawing for which the answer has figures."""
    if answer.forecast is not None:
        yield ledger_chart(answer.forecast)
    if answer.curve is not None:
        yield curve_chart(answer.curve, answer.question.interval_s)
    if answer.forecast is not None and answer.finish_bins:
        yield finish_chart(answer, answer.forecast)
    if answer.availability is not None:
        yield availability_chart(answer.availability, answer.question.job)
        yield losses_chart(answer.availability)
    if answer.grace:
        yield grace_chart(answer.grace)


def _layer_drawing(
    rows: Mapping[str, ch.Rows], *layers: alt.Chart, height: int = HEIGHT
) -> ch.ChartMarks:
    return ch.ChartMarks(alt.layer(*layers).properties(height=height), rows)


def ledger_chart(forecast: Forecast) -> ch.Chart:
    """Draw the time of all runs by cause, as one bar."""
    rows, start = [], 0.0
    for part, (name, _) in _PARTS.items():
        share = forecast.ledger[part]
        rows.append({"part": name, "from": start, "to": start + share, "share": share})
        start += share
    axis, whole = alt.Axis(format="%", tickCount=10), alt.Scale(domain=[0, 1])
    bar = ch.build_named_chart("parts").mark_bar(height=SLIM - 16)
    bar = bar.encode(
        x=alt.X("from:Q", title="share of time", axis=axis, scale=whole),
        x2="to:Q",
        color=ch.encode_color("part", dict(_PARTS.values())),
        tooltip=[alt.Tooltip("part:N"), alt.Tooltip("share:Q", format=".1%")],
    )
    words = ", ".join(f"{row['part']} {row['share']:.1%}" for row in rows)
    return ch.draw_chart(
        "ledger",
        _layer_drawing({"parts": rows}, bar, height=SLIM),
        title="Where the time goes",
        label=words,
        caption=f"All simulated runs together: {words}.",
        keys=[ch.LegendEntry(name, "box", color) for name, color in _PARTS.values()],
    )


def curve_chart(curve: IntervalCurve, current_s: float) -> ch.Chart:
    """Draw goodput against the interval: simulated, by Daly's equation, and at the set one."""
    low, high = curve.flat_s
    points = [
        {"s": p.seconds, "simulated": p.simulated, "low": p.low, "high": p.high, "theory": p.theory}
        for p in curve.points
    ]
    rows = {"points": points, "flat": [{"from": low, "to": high}], "here": [{"s": current_s}]}
    best = curve.best
    return ch.draw_chart(
        "interval",
        _layer_drawing(rows, *_curve_layers()),
        title="Goodput against the checkpoint interval",
        label=f"best simulated goodput {best.simulated:.1%} at {format_seconds(best.seconds)}; "
        f"flat from {format_seconds(low)} to {format_seconds(high)}; set: "
        f"{format_seconds(current_s)}",
        caption="Retries without limit. Green: within one percentage point of the best. The dashed "
        "line is Daly's equation, which knows no notices, no shocks and no waiting.",
        keys=[
            ch.LegendEntry("simulated, with its 95 % interval", "line", ch.RUN),
            ch.LegendEntry("Daly's equation", "dash", ch.BASELINE),
            ch.LegendEntry("flat region", "box", "var(--good)"),
            ch.LegendEntry("as set", "line", ch.FAULT),
        ],
    )


def _curve_layers() -> tuple[alt.Chart, ...]:
    scale = alt.Scale(type="log", nice=False)
    x = alt.X("s:Q", title="training between two checkpoints, s", scale=scale)
    of_interest = alt.Scale(zero=False)
    y = alt.Y("simulated:Q", title="goodput", axis=alt.Axis(format="%"), scale=of_interest)
    base = ch.build_named_chart("points")
    flat = ch.build_named_chart("flat").mark_rect(color="var(--good)", opacity=0.12)
    band = base.mark_area(color=ch.RUN, opacity=0.18).encode(x=x, y="low:Q", y2="high:Q")
    theory = base.mark_line(color=ch.BASELINE, strokeDash=[5, 4]).encode(x=x, y="theory:Q")
    tooltip = [
        alt.Tooltip("s:Q", format=".3g"),
        alt.Tooltip("simulated:Q", format=".1%"),
        alt.Tooltip("theory:Q", format=".1%"),
    ]
    line = base.mark_line(color=ch.RUN, point=alt.OverlayMarkDef(color=ch.RUN))
    rule = ch.build_named_chart("here").mark_rule(color=ch.FAULT, strokeWidth=1.5)
    return (
        flat.encode(x=alt.X("from:Q", scale=scale), x2="to:Q"),
        band,
        theory,
        line.encode(x=x, y=y, tooltip=tooltip),
        rule.encode(x=alt.X("s:Q", scale=scale)),
    )


def finish_chart(answer: Answer, forecast: Forecast) -> ch.Chart:
    """Draw the distribution of finish times, and the deadline."""
    unit, units_per_hour = finish_unit(forecast)
    rows = [
        {"from": low * units_per_hour, "to": high * units_per_hour, "runs": n, "none": 0}
        for low, high, n in answer.finish_bins
    ]
    bars = ch.build_named_chart("bins").mark_rect(color=ch.BASELINE)
    bars = bars.encode(
        x=alt.X("from:Q", title=f"{unit} to the last step", scale=alt.Scale(zero=False)),
        x2="to:Q",
        y=alt.Y("runs:Q", title="runs"),
        y2="none:Q",
        tooltip=[*(alt.Tooltip(f"{end}:Q", format=".1f") for end in ("from", "to")), "runs:Q"],
    )
    layers: list[alt.Chart] = [bars]
    data: dict[str, ch.Rows] = {"bins": rows}
    keys = [ch.LegendEntry("runs that finished", "box", ch.BASELINE)]
    deadline = answer.question.goal.deadline_h
    if deadline is not None:
        layers.append(
            ch.build_named_chart("deadline")
            .mark_rule(color=ch.FAULT, strokeWidth=2)
            .encode(x="h:Q")
        )
        data["deadline"] = [{"h": deadline * units_per_hour}]
        keys.append(ch.LegendEntry("deadline", "line", ch.FAULT))
    text = (
        f"{forecast.finishes.share:.1%} of {forecast.runs} runs finish; half of all runs are done "
        f"{describe_finish_time(forecast, forecast.finish_h.middle)}, 95 % "
        f"{describe_finish_time(forecast, forecast.finish_h.high)}"
    )
    return ch.draw_chart(
        "finish",
        _layer_drawing(data, *layers),
        title="When it finishes",
        label=text,
        caption=f"{text}. The last bar holds all that take longer.",
        keys=keys,
    )


def availability_chart(availability: Availability, job: JobShape) -> ch.Chart:
    """Draw the number of nodes that are up over time."""
    rows = [
        {"h": h, "low": low, "middle": middle, "high": high}
        for h, low, middle, high in zip(
            availability.at_h, availability.low, availability.middle, availability.high, strict=True
        )
    ]
    base = ch.build_named_chart("up")
    x = alt.X("h:Q", title="hours since the start")
    band = base.mark_area(color=ch.BASELINE, opacity=0.3, interpolate="step-after").encode(
        x=x, y=alt.Y("low:Q", title="nodes up"), y2="high:Q"
    )
    line = base.mark_line(color=ch.RUN, interpolate="step-after").encode(x=x, y="middle:Q")
    rule = (
        ch.build_named_chart("need")
        .mark_rule(color=ch.FAULT, strokeDash=[4, 3])
        .encode(y="nodes:Q")
    )
    need = [{"nodes": job.min_nodes or job.nodes}]
    return ch.draw_chart(
        "availability",
        _layer_drawing({"up": rows, "need": need}, band, line, rule),
        title="Nodes that are up",
        label=f"how many of {job.pool} nodes are up over time: "
        f"{availability.low[-1]:.0f} to {availability.high[-1]:.0f} at the end",
        caption="The middle, and 5 to 95 % of runs. Below the dashed line the job stands still.",
        keys=[
            ch.LegendEntry("half of the runs", "line", ch.RUN),
            ch.LegendEntry("5 to 95 %", "box", ch.BASELINE),
            ch.LegendEntry("what the job needs", "dash", ch.FAULT),
        ],
    )


def losses_chart(availability: Availability) -> ch.Chart:
    """Draw the number of nodes lost per hour over time."""
    rows = [
        {"h": h, "losses": n}
        for h, n in zip(availability.at_h[1:], availability.losses_per_h[1:], strict=True)
    ]
    line = ch.build_named_chart("losses").mark_line(color=ch.FAULT, interpolate="step")
    line = line.encode(
        x=alt.X("h:Q", title="hours since the start"),
        y=alt.Y("losses:Q", title="nodes lost per hour"),
        tooltip=[alt.Tooltip("h:Q", format=".1f"), alt.Tooltip("losses:Q", format=".2f")],
    )
    mean = sum(availability.losses_per_h[1:]) / max(1, len(availability.losses_per_h) - 1)
    peak = max(rows, key=lambda row: row["losses"])
    return ch.draw_chart(
        "losses",
        _layer_drawing({"losses": rows}, line, height=HEIGHT // 2),
        title="Losses over time",
        label=f"{mean:.2f} nodes lost per hour on average, at most "
        f"{peak['losses']:.2f} after {peak['h']:.0f} hours",
        caption=f"Mean over runs; {mean:.2f} nodes per hour on average.",
        keys=[ch.LegendEntry("nodes lost per hour", "line", ch.FAULT)],
    )


def grace_chart(cells: Sequence[NoticeCell]) -> ch.Chart:
    """Draw the notices and uploads with which a save on notice is committed."""
    rows = [
        {
            "notice": f"{cell.notice_s:g}",
            "upload": f"{cell.upload_s:.3g}",
            "commits": cell.commits,
            "saved": cell.steps_saved,
            "text": f"{cell.commits:.0%}",
        }
        for cell in cells
    ]
    notices = list(dict.fromkeys(row["notice"] for row in rows))
    uploads = list(dict.fromkeys(row["upload"] for row in rows))
    x = alt.X("notice:O", title="notice, s", sort=notices, axis=alt.Axis(labelAngle=0))
    y = alt.Y("upload:O", title="upload, s", sort=uploads)
    base, shades = ch.build_named_chart("cells"), alt.Scale(domain=[0, 1], range=[0.04, 0.55])
    box = base.mark_rect(color="var(--good)").encode(
        x=x,
        y=y,
        opacity=alt.Opacity("commits:Q", legend=None, scale=shades),
        tooltip=[
            alt.Tooltip("notice:O"),
            alt.Tooltip("upload:O"),
            alt.Tooltip("commits:Q", format=".0%"),
            alt.Tooltip("saved:Q", format=".0f", title="steps saved per loss"),
        ],
    )
    text = base.mark_text().encode(x=x, y=y, text="text:N")
    return ch.draw_chart(
        "grace",
        _layer_drawing({"cells": rows}, box, text, height=34 * len(uploads)),
        title="Which notice is long enough",
        label="probability that a save on notice commits, by notice and upload time",
        caption="Probability that a save on notice commits; the market's own reliability of "
        "notices is in it. Uploads from a quarter to four times of what was measured.",
        keys=[ch.LegendEntry("commits", "box", "var(--good)")],
    )


# -- the page -----------------------------------------------------------------------------------


def render_answer(answer: Answer) -> str:
    """Return the page of an answer: the verdict first, then its evidence."""
    return render_page(
        [*list_parts(answer, drawings=[*_list_drawings(answer)])],
        kind="preflight of a training job",
        heading=answer.question.preflight,
        title=f"{answer.word}: {answer.question.preflight}",
        footer=f"Made by chaos {__version__}.",
    )


def _list_drawings(answer: Answer) -> Iterator[Section]:
    for chart in charts(answer):
        parts: list[ReportPart] = [ChartPart(chart)]
        if chart.name == "interval" and answer.curve is not None:
            rows = [
                (form.name, f"{form.seconds:.0f} s", form.source, form.out_of_range or "no")
                for form in answer.curve.theory
            ]
            columns = ("closed form", "interval", "source", "out of its range")
            parts.append(ResultTable(columns, rows, numbers=[1]))
        name = f"chart-{chart.name}"
        yield Section(parts, heading=chart.title, name=name, media=["page"])
