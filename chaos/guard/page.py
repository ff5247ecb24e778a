"""The restarts of a guarded training as one HTML page that loads nothing."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from statistics import fmean
from typing import Any, TypeAlias

import altair as alt

from chaos import __version__
from chaos.guard.folder import Folder
from chaos.guard.records import Finding, Restart, Save, Start, Step
from chaos.guard.report import exit_code, restarts_of, told, why_none
from chaos.guard.restart import in_a_line
from chaos.guard.startups import ended_startups, is_failing
from chaos.guard.steps import BLOCK, REPLAYED_MAX, means_in
from chaos.report import chart as ch
from chaos.report.html import drawings, pages
from chaos.report.outcome import Tone
from chaos.words import listed, plural, ranks

TONES: Mapping[str, Tone] = {"came back": "good", "mismatch": "bad", "unknown": "open"}
_COLORS = {"came back": "var(--good)", "mismatch": "var(--bad)", "unknown": "var(--open)"}
_OLD, _NEW = "before the restart", "after the restart"
RUNS_SHOWN = 8  # of ranks that follow one another
DAY_MS = 86_400_000
DRAWN_MAX = 16  # restarts whose losses are drawn, the newest ones
Rows: TypeAlias = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Told:
    """One restart of the training, with all of its ranks."""

    start: int
    word: str
    tone: Tone
    began: str
    #: what it came back to, the same of some ranks
    lines: tuple[tuple[str, str], ...]
    #: a finding, and the ranks that have it
    findings: tuple[tuple[Finding, str], ...]
    #: parts; ranks to which they came back, to which they did not, and that have no answer
    parts: Sequence[tuple[tuple[str, ...], str, str, str]]
    #: figures of each rank
    figures: Rows
    #: a save's file, the ranks that went on from it, and its size and time where they are known
    saves: Rows
    losses: ch.Chart | None


def render_guard(folder: Folder) -> str:
    """Return the page of a folder: all restarts in time, then each, the newest first."""
    starts, saves, restarts = folder.starts(), folder.saves(), restarts_of(folder)
    startups = ended_startups(folder, starts)
    by_start = defaultdict[int, list[Restart]](list)
    for one in restarts:
        by_start[one.start].append(one)
    answers = {start: _answer(own) for start, own in by_start.items()}
    drawn = sorted(by_start)[-DRAWN_MAX:]
    every = [
        _told(own, starts, saves, _losses(folder, own[0], saves) if start in drawn else None)
        for start, own in sorted(by_start.items(), reverse=True)
    ]
    in_time = _in_time(starts, saves, by_start)
    charts = [chart for chart in (in_time, *(one.losses for one in every)) if chart]
    return (
        pages("chaos.guard")
        .get_template("guard.html.j2")
        .render(
            place=folder.place,
            head=_head(starts, answers),
            tone=("good", "bad", "open")[
                exit_code(restarts, has_failed=is_failing(startups, starts))
            ],
            word=_word(answers),
            why=None if restarts and not startups else why_none(starts, startups),
            facts=_facts(starts, by_start, answers),
            in_time=in_time,
            restarts=every,
            version=__version__,
            **drawings(charts),
        )
    )


def _answer(own: Sequence[Restart]) -> str:
    """Return the answer of a restart: the gravest one of its ranks."""
    answers = set(map(told, own))
    return next(word for word in ("mismatch", "unknown", "came back") if word in answers)


def _head(starts: Sequence[Start], answers: Mapping[int, str]) -> str:
    counted = plural(len({one.start for one in starts}), "start")
    return f"{counted}, {plural(len(answers), 'restart')}, times in UTC"


def _word(answers: Mapping[int, str]) -> str:
    if not answers:
        return "no restart is recorded"
    came = sum(answer == "came back" for answer in answers.values())
    return f"{came} of {plural(len(answers), 'restart')} came back"


def _facts(
    starts: Sequence[Start], by_start: Mapping[int, Sequence[Restart]], answers: Mapping[int, str]
) -> Iterator[tuple[str, str]]:
    """Yield figures of all restarts; a step that several ranks have lost is lost once."""
    yield "starts", str(len({one.start for one in starts}))
    for word in TONES:
        yield word, str(sum(answer == word for answer in answers.values()))
    lost = [max(steps) for own in by_start.values() if (steps := _known(own, "lost"))]
    yield "steps lost", str(sum(lost)) if lost else "-"
    waited = [s for own in by_start.values() for s in _known(own, "first_step_s")]
    yield "slowest first step", f"{max(waited):.1f} s" if waited else "-"


def _known(own: Sequence[Restart], name: str) -> list[Any]:  # int or float
    return [value for one in own if (value := getattr(one, name)) is not None]


# -- one restart --------------------------------------------------------------------------------


def _told(
    own: Sequence[Restart],
    starts: Sequence[Start],
    saves: Sequence[Save],
    losses: ch.Chart | None,
) -> Told:
    number, word = own[0].start, _answer(own)
    began = [one.began_s for one in starts if one.start == number]
    return Told(
        start=number,
        word=word,
        tone=TONES[word],
        began=_when(min(began, default=own[0].at_s)),
        lines=tuple(_alike((in_a_line(one), one.rank) for one in own)),
        findings=tuple(_alike((found, one.rank) for one in own for found in one.findings)),
        parts=_parts(own),
        figures=[_figures(one) for one in own],
        saves=_saves(own, saves),
        losses=losses,
    )


def _alike(pairs: Any) -> list[tuple[Any, str]]:  # of anything hashable and a rank
    found = defaultdict[Any, list[int]](list)
    for one, rank in pairs:
        found[one].append(rank)
    return [(one, _named(own)) for one, own in found.items()]


def _parts(own: Sequence[Restart]) -> list[tuple[tuple[str, ...], str, str, str]]:
    """Return the parts of which the answer is the same, those that are other first."""
    found = defaultdict[tuple[str, str, str], list[str]](list)
    for name in dict.fromkeys(name for one in own for name in one.compared):
        found[_of_part(name, own)].append(name)
    rows = [(tuple(names), *answer) for answer, names in found.items()]
    return sorted(rows, key=lambda row: not row[2])


def _of_part(name: str, own: Sequence[Restart]) -> tuple[str, str, str]:
    """Return the ranks to which a part came back, to which it did not, and the others."""
    back, other, rest = list[int](), list[int](), list[int]()
    for one in own:
        is_unsaid = not one.differing and not one.has_come_back  # of an older version of the guard
        if name not in one.compared or is_unsaid:
            rest.append(one.rank)
        else:
            (other if name in one.differing else back).append(one.rank)
    return _named(back), _named(other), _named(rest)


def _named(own: Sequence[int]) -> str:
    """Return ranks in words, those that follow one another as one; empty without any."""
    runs = list[list[int]]()
    for rank in sorted(own):
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    if len(runs) > RUNS_SHOWN:
        return f"{len(own)} ranks, the first of them {runs[0][0]}"
    if all(len(run) < RUNS_SHOWN for run in runs):
        return ranks(own) if own else ""
    return "ranks " + listed([str(r[0]) if len(r) == 1 else f"{r[0]} to {r[-1]}" for r in runs])


def _figures(one: Restart) -> tuple[str, ...]:
    return (
        str(one.rank),
        _or_dash(one.step),
        _or_dash(one.lost),
        "-" if one.first_step_s is None else f"{one.first_step_s:.2f} s",
        str(one.replayed),
        str(one.same_inputs),
        str(one.same_losses),
    )


def _saves(own: Sequence[Restart], saves: Sequence[Save]) -> list[tuple[str, ...]]:
    rows = list[tuple[str, ...]]()
    pairs = (((path, one.step), one.rank) for one in own for path in one.files)
    for (path, step), where in _alike(pairs):
        made = [save for save in saves if path in save.files and save.step == step]
        size = f"{made[-1].files[path][0]:,} bytes" if made and made[-1].files[path][0] else "-"
        rows.append((path, where, size, _when(made[-1].at_s) if made else "-"))
    return rows


def _or_dash(value: int | None) -> str:
    return "-" if value is None else str(value)


def _when(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S")


# -- charts -------------------------------------------------------------------------------------


def _in_time(
    starts: Sequence[Start], saves: Sequence[Save], by_start: Mapping[int, Sequence[Restart]]
) -> ch.Chart | None:
    """Draw starts, saves and restarts over time, by the steps of the training."""
    if not by_start:
        return None
    marks, drops = list[dict[str, Any]](), list[dict[str, Any]]()
    for number, own in by_start.items():
        one = max(own, key=lambda r: r.lost or 0)
        here = _point(one.at_s, number, one.step or 0)
        marks.append(here | {"answer": _answer(own), "lost": _or_dash(one.lost)})
        drops += [here | {"to": here["step"] + one.lost}] if one.lost else []
    points = [*_points(starts, saves), *marks]
    times = [point["at"] for point in points]
    words = "; ".join(f"start {m['start']} from step {m['step']}: {m['answer']}" for m in marks)
    return ch.drawn(
        "restarts",
        ch.Drawing(
            alt.layer(*_time_layers(times)).properties(height=220),
            {"points": points, "marks": marks, "drops": drops},
        ),
        title="Restarts in time",
        label=f"Restarts by time and step. {words}.",
        caption="A line is a start, from the time its process began over the saves that are "
        "recorded of it. A circle is the first step of a restart, at the step it went on from; at "
        "0 where no save is known for it. The bar above it: steps lost.",
        keys=[
            ch.Key("start, with its saves", "line", ch.BASELINE),
            *(ch.Key(w, "box", c) for w, c in _COLORS.items() if w in {m["answer"] for m in marks}),
            *([ch.Key("steps lost", "wide", ch.LOST)] if drops else []),
        ],
    )


def _points(starts: Sequence[Start], saves: Sequence[Save]) -> Iterator[dict[str, Any]]:
    """Yield when a start began, at the step that it went on from, and each of its saves."""
    for number in sorted({one.start for one in starts}):
        own = [one for one in starts if one.start == number]
        yield _point(min(one.began_s for one in own), number, max(one.step for one in own))
        steps = {save.step: save.at_s for save in saves if save.start == number}
        for step, at_s in steps.items():
            yield _point(at_s, number, step) | {"is_save": 1}


def _point(at_s: float, start: int, step: int) -> dict[str, Any]:
    return {"at": round(at_s * 1000), "start": start, "step": step, "is_save": 0}


def _time_layers(times: Sequence[int]) -> tuple[alt.Chart, ...]:
    form = "%H:%M:%S" if max(times) - min(times) < DAY_MS else "%m-%d %H:%M"
    axis = alt.Axis(labelOverlap=True, labelBound=True, format=form)
    x = alt.X("at:T", title="time, UTC", scale=alt.Scale(type="utc"), axis=axis)
    y = alt.Y("step:Q", title="step", axis=alt.Axis(format="d", tickMinStep=1))
    when = alt.Tooltip("at:T", format="%H:%M:%S")
    base = ch.named("points").encode(x=x, y=y, detail="start:N")
    saved = base.transform_filter("datum.is_save == 1").mark_point(
        filled=True, size=26, opacity=1, color=ch.BASELINE
    )
    mark = ch.named("marks").mark_point(filled=True, size=90, opacity=1, stroke="var(--bg)")
    lost = ch.named("drops").mark_rule(color=ch.LOST, strokeWidth=5, opacity=0.85)
    return (
        base.mark_line(color=ch.BASELINE, strokeWidth=2),
        saved.encode(tooltip=["start:N", "step:Q", when]),
        mark.encode(
            x=x,
            y=y,
            color=ch.colored("answer", _COLORS),
            tooltip=["start:N", "step:Q", "answer:N", "lost:N", when],
        ),
        lost.encode(x=x, y=y, y2="to:Q"),
    )


def _losses(folder: Folder, one: Restart, saves: Sequence[Save]) -> ch.Chart | None:
    """Draw the losses of a rank about a restart: those before it, and those since."""
    if one.step is None or one.of_start is None:
        return None
    made = (s for s in saves if (s.rank, s.start, s.step) == (one.rank, one.of_start, one.step))
    window = next((save.losses for save in made), ())
    before = _near(folder.steps(one.rank, one.of_start), one.step)
    after = _near(folder.steps(one.rank, one.start), one.step)
    rows = [
        {"step": step.number, "loss": step.loss, "when": when}
        for when, steps in ((_OLD, before), (_NEW, after))
        for step in steps
    ]
    if not before or not after:
        return None
    layers = _loss_layers()
    return ch.drawn(
        f"losses-{one.start}",
        ch.Drawing(
            alt.layer(*layers).properties(height=180), {"losses": rows, "save": [{"at": one.step}]}
        ),
        title=f"Losses about start {one.start}",
        label=f"Losses of rank {one.rank} about the save of step {one.step}.",
        caption=f"Rank {one.rank}. Vertical: the save of step {one.step}. "
        f"{_means(window, [step.loss for step in after if step.number > one.step])}".rstrip(),
        keys=[ch.Key(_OLD, "line", ch.BASELINE), ch.Key(_NEW, "line", ch.RUN)],
    )


def _near(steps: Sequence[Step], save: int) -> list[Step]:
    return [s for s in steps if s.loss is not None and abs(s.number - save) <= REPLAYED_MAX]


def _means(window: Sequence[float], after: Sequence[float | None]) -> str:
    """Return the mean of the first losses since a restart, and the range before the save."""
    head = [loss for loss in after if loss is not None][:BLOCK]
    if len(window) < BLOCK or len(head) < BLOCK:
        return ""
    means = means_in(window)
    return (
        f"Mean of the first {BLOCK} losses since the restart: {fmean(head):.6g}; of any {BLOCK} "
        f"among the {len(window)} before the save: {min(means):.6g} to {max(means):.6g}."
    )


def _loss_layers() -> tuple[alt.Chart, ...]:
    axis = alt.Axis(format="d", tickMinStep=1)
    x = alt.X("step:Q", title="step", scale=alt.Scale(zero=False, nice=False), axis=axis)
    y = alt.Y("loss:Q", title="loss", scale=alt.Scale(zero=False))
    colors = {_OLD: ch.BASELINE, _NEW: ch.RUN}
    color = ch.colored("when", colors)
    line = ch.named("losses").mark_line(point=alt.OverlayMarkDef(size=18), strokeJoin="round")
    widths = alt.StrokeWidth(
        "when:N", legend=None, scale=alt.Scale(domain=list(colors), range=[4, 1.5])
    )
    return (
        ch.named("save").mark_rule(color=ch.COMMIT, strokeDash=[4, 3]).encode(x="at:Q"),
        line.encode(
            x=x, y=y, color=color, strokeWidth=widths, tooltip=["step:Q", "loss:Q", "when:N"]
        ),
    )
