"""The answer as one HTML page that loads nothing."""

from collections.abc import Iterator, Mapping, Sequence

import altair as alt

from chaos import __version__
from chaos.preflight.answer import Answer
from chaos.preflight.capacity import Availability
from chaos.preflight.estimate import in_hours, in_s
from chaos.preflight.forecast import Forecast
from chaos.preflight.intervals import Curve
from chaos.preflight.question import JobShape
from chaos.preflight.render import (
    LOOKS,
    READINGS_HEAD,
    as_read,
    border,
    changes_head,
    figure_notes,
    figure_rows,
    finish_unit,
    gain_cells,
    interval,
    own_findings,
    pasted,
    readings_rows,
    simulated_runs,
    trace_in_words,
    when,
)
from chaos.preflight.saving import NoticeCell
from chaos.report import chart as ch
from chaos.report.html import drawings, pages
from chaos.words import plural

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


def _laid(rows: Mapping[str, ch.Rows], *layers: alt.Chart, height: int = HEIGHT) -> ch.Drawing:
    return ch.Drawing(alt.layer(*layers).properties(height=height), rows)


def ledger_chart(seen: Forecast) -> ch.Chart:
    """Draw the time of all runs by cause, as one bar."""
    rows, since = [], 0.0
    for part, (name, _) in _PARTS.items():
        share = seen.ledger[part]
        rows.append({"part": name, "from": since, "to": since + share, "share": share})
        since += share
    axis, whole = alt.Axis(format="%", tickCount=10), alt.Scale(domain=[0, 1])
    bar = ch.named("parts").mark_bar(height=SLIM - 16)
    bar = bar.encode(
        x=alt.X("from:Q", title="share of time", axis=axis, scale=whole),
        x2="to:Q",
        color=ch.colored("part", dict(_PARTS.values())),
        tooltip=[alt.Tooltip("part:N"), alt.Tooltip("share:Q", format=".1%")],
    )
    words = ", ".join(f"{row['part']} {row['share']:.1%}" for row in rows)
    return ch.drawn(
        "ledger",
        _laid({"parts": rows}, bar, height=SLIM),
        title="Where the time goes",
        label=words,
        caption=f"All simulated runs together: {words}.",
        keys=[ch.Key(name, "box", color) for name, color in _PARTS.values()],
    )


def curve_chart(curve: Curve, here_s: float) -> ch.Chart:
    """Draw goodput against the interval: simulated, by Daly's equation, and at the set one."""
    low, high = curve.flat_s
    points = [
        {"s": p.seconds, "simulated": p.simulated, "low": p.low, "high": p.high, "theory": p.theory}
        for p in curve.points
    ]
    rows = {"points": points, "flat": [{"from": low, "to": high}], "here": [{"s": here_s}]}
    best = curve.best
    return ch.drawn(
        "interval",
        _laid(rows, *_curve_layers()),
        title="Goodput against the checkpoint interval",
        label=f"best simulated goodput {best.simulated:.1%} at {in_s(best.seconds)}; "
        f"flat from {in_s(low)} to {in_s(high)}; set: {in_s(here_s)}",
        caption="Retries without limit. Green: within one percentage point of the best. The dashed "
        "line is Daly's equation, which knows no notices, no shocks and no waiting.",
        keys=[
            ch.Key("simulated, with its 95 % interval", "line", ch.RUN),
            ch.Key("Daly's equation", "dash", ch.BASELINE),
            ch.Key("flat region", "box", "var(--good)"),
            ch.Key("as set", "line", ch.FAULT),
        ],
    )


def _curve_layers() -> tuple[alt.Chart, ...]:
    scale = alt.Scale(type="log", nice=False)
    x = alt.X("s:Q", title="training between two checkpoints, s", scale=scale)
    of_interest = alt.Scale(zero=False)
    y = alt.Y("simulated:Q", title="goodput", axis=alt.Axis(format="%"), scale=of_interest)
    base = ch.named("points")
    flat = ch.named("flat").mark_rect(color="var(--good)", opacity=0.12)
    band = base.mark_area(color=ch.RUN, opacity=0.18).encode(x=x, y="low:Q", y2="high:Q")
    theory = base.mark_line(color=ch.BASELINE, strokeDash=[5, 4]).encode(x=x, y="theory:Q")
    tooltip = [
        alt.Tooltip("s:Q", format=".3g"),
        alt.Tooltip("simulated:Q", format=".1%"),
        alt.Tooltip("theory:Q", format=".1%"),
    ]
    line = base.mark_line(color=ch.RUN, point=alt.OverlayMarkDef(color=ch.RUN))
    rule = ch.named("here").mark_rule(color=ch.FAULT, strokeWidth=1.5)
    return (
        flat.encode(x=alt.X("from:Q", scale=scale), x2="to:Q"),
        band,
        theory,
        line.encode(x=x, y=y, tooltip=tooltip),
        rule.encode(x=alt.X("s:Q", scale=scale)),
    )


def finish_chart(answer: Answer, seen: Forecast) -> ch.Chart:
    """Draw the distribution of finish times, and the deadline."""
    unit, each = finish_unit(seen)
    rows = [
        {"from": low * each, "to": high * each, "runs": n, "none": 0}
        for low, high, n in answer.finish_bins
    ]
    bars = ch.named("bins").mark_rect(color=ch.BASELINE)
    bars = bars.encode(
        x=alt.X("from:Q", title=f"{unit} to the last step", scale=alt.Scale(zero=False)),
        x2="to:Q",
        y=alt.Y("runs:Q", title="runs"),
        y2="none:Q",
        tooltip=[*(alt.Tooltip(f"{end}:Q", format=".1f") for end in ("from", "to")), "runs:Q"],
    )
    layers: list[alt.Chart] = [bars]
    data: dict[str, ch.Rows] = {"bins": rows}
    keys = [ch.Key("runs that finished", "box", ch.BASELINE)]
    deadline = answer.question.goal.deadline_h
    if deadline is not None:
        layers.append(ch.named("deadline").mark_rule(color=ch.FAULT, strokeWidth=2).encode(x="h:Q"))
        data["deadline"] = [{"h": deadline * each}]
        keys.append(ch.Key("deadline", "line", ch.FAULT))
    text = (
        f"{seen.finishes.share:.1%} of {seen.runs} runs finish; half of all runs are done "
        f"{when(seen, seen.finish_h.middle)}, 95 % {when(seen, seen.finish_h.high)}"
    )
    return ch.drawn(
        "finish",
        _laid(data, *layers),
        title="When it finishes",
        label=text,
        caption=f"{text}. The last bar holds all that take longer.",
        keys=keys,
    )


def availability_chart(seen: Availability, job: JobShape) -> ch.Chart:
    """Draw the number of nodes that are up over time."""
    rows = [
        {"h": h, "low": low, "middle": middle, "high": high}
        for h, low, middle, high in zip(seen.at_h, seen.low, seen.middle, seen.high, strict=True)
    ]
    base = ch.named("up")
    x = alt.X("h:Q", title="hours since the start")
    band = base.mark_area(color=ch.BASELINE, opacity=0.3, interpolate="step-after").encode(
        x=x, y=alt.Y("low:Q", title="nodes up"), y2="high:Q"
    )
    line = base.mark_line(color=ch.RUN, interpolate="step-after").encode(x=x, y="middle:Q")
    rule = ch.named("need").mark_rule(color=ch.FAULT, strokeDash=[4, 3]).encode(y="nodes:Q")
    need = [{"nodes": job.min_nodes or job.nodes}]
    return ch.drawn(
        "availability",
        _laid({"up": rows, "need": need}, band, line, rule),
        title="Nodes that are up",
        label=f"how many of {job.pool} nodes are up over time: "
        f"{seen.low[-1]:.0f} to {seen.high[-1]:.0f} at the end",
        caption="The middle, and 5 to 95 % of runs. Below the dashed line the job stands still.",
        keys=[
            ch.Key("half of the runs", "line", ch.RUN),
            ch.Key("5 to 95 %", "box", ch.BASELINE),
            ch.Key("what the job needs", "dash", ch.FAULT),
        ],
    )


def losses_chart(seen: Availability) -> ch.Chart:
    """Draw the number of nodes lost per hour over time."""
    rows = [
        {"h": h, "losses": n} for h, n in zip(seen.at_h[1:], seen.losses_per_h[1:], strict=True)
    ]
    line = ch.named("losses").mark_line(color=ch.FAULT, interpolate="step")
    line = line.encode(
        x=alt.X("h:Q", title="hours since the start"),
        y=alt.Y("losses:Q", title="nodes lost per hour"),
        tooltip=[alt.Tooltip("h:Q", format=".1f"), alt.Tooltip("losses:Q", format=".2f")],
    )
    mean = sum(seen.losses_per_h[1:]) / max(1, len(seen.losses_per_h) - 1)
    most = max(rows, key=lambda row: row["losses"])
    return ch.drawn(
        "losses",
        _laid({"losses": rows}, line, height=HEIGHT // 2),
        title="Losses over time",
        label=f"{mean:.2f} nodes lost per hour on average, at most "
        f"{most['losses']:.2f} after {most['h']:.0f} hours",
        caption=f"Mean over runs; {mean:.2f} nodes per hour on average.",
        keys=[ch.Key("nodes lost per hour", "line", ch.FAULT)],
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
    base, shades = ch.named("cells"), alt.Scale(domain=[0, 1], range=[0.04, 0.55])
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
    return ch.drawn(
        "grace",
        _laid({"cells": rows}, box, text, height=34 * len(uploads)),
        title="Which notice is long enough",
        label="probability that a save on notice commits, by notice and upload time",
        caption="Probability that a save on notice commits; the market's own reliability of "
        "notices is in it. Uploads from a quarter to four times of what was measured.",
        keys=[ch.Key("commits", "box", "var(--good)")],
    )


# -- the page -----------------------------------------------------------------------------------

_env = pages("chaos.preflight")


def render_answer(answer: Answer) -> str:
    """Return the page of an answer: the verdict first, then its evidence."""
    drawn, look = [*charts(answer)], LOOKS[answer.word]
    return _env.get_template("preflight.html.j2").render(
        answer=answer,
        question=answer.question,
        costs=answer.question.costs.model_dump() if answer.question.costs else {},
        look=look,
        facts=facts(answer),
        notes=figure_notes(answer),
        border=border(answer),
        rows=figure_rows(answer),
        charts=drawn,
        **drawings(drawn),
        figure_rows=figure_rows,
        gain_cells=gain_cells,
        as_read=as_read,
        own_findings=own_findings,
        readings_head=READINGS_HEAD,
        readings=readings_rows(answer),
        trace=trace_in_words(answer),
        runs=simulated_runs(answer),
        struck="" if answer.loss_every_s is None else in_hours(answer.loss_every_s / 3600),
        interval=interval,
        command=pasted(answer.changes),
        changes_head=changes_head(answer),
        plural=plural,
        version=__version__,
        weights={"stops": "bad", "costs": "open", "advice": "calm"},
    )


def facts(answer: Answer) -> tuple[tuple[str, str, str], ...]:
    """Return the figures at the top, each a name, the figure, and its range."""
    seen = answer.forecast
    if seen is None:
        return ()
    unit, rows = finish_unit(seen)[0], {name: cells for name, *cells in figure_rows(answer)}
    low, _, high, _ = rows[f"finishes after, {unit}"]
    costs = [name for name in rows if name.startswith("cost")]
    ranged = [
        (name, middle, low if low == high else f"{low} to {high}")
        for name in ("goodput", *costs, "restarts")
        for low, middle, high, _ in [rows[name]]
    ]
    shares = [
        (name, f"{of.share:.1%}", f"{of.low:.1%} to {of.high:.1%}")
        for name, of in (("runs that finish", seen.finishes), ("retries run out", seen.spent))
    ]
    middle = when(seen, seen.finish_h.middle).removeprefix("after ")
    finish = ("finishes after", middle, _range(low, high, unit))
    return (ranged[0], finish, *ranged[1:], *shares)


def _range(low: str, high: str, unit: str) -> str:
    if "never" in (low, high):
        return low if low == high else f"{low} {unit} to {high}"
    return f"{low} {unit}" if low == high else f"{low} to {high} {unit}"
