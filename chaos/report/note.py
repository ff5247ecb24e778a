"""What is written onto the loss curve: faults, lost work, and where the lines part."""

import altair as alt

from chaos.check.comparison import Divergence
from chaos.check.result import plural
from chaos.check.trial import Trial
from chaos.report import chart as ch
from chaos.report.track import Track


def lost_bands(trial: Trial, line: Track) -> alt.LayerChart | None:
    """Shade the steps that each restart threw away."""
    rows = []
    for restart in trial.restarts:
        lost = max(restart.lost_steps.values(), default=0)
        if lost and restart.epoch is not None:
            since = line.at(restart.epoch, 0)
            what = f"{plural(lost, 'step')} lost"
            rows.append({"from": since, "to": since + lost, "what": what})
    if not rows:
        return None
    base = alt.Chart(alt.Data(values=rows))
    band = base.mark_rect(color=ch.LOST, opacity=0.16).encode(x="from:Q", x2="to:Q")
    text = base.mark_text(align="left", baseline="bottom", dx=4, dy=-6, color=ch.LOST_TEXT)
    name = text.encode(x="to:Q", y=alt.value("height"), text="what:N")
    return alt.layer(band, name)


def faults(trial: Trial, line: Track) -> alt.LayerChart | None:
    """Mark the place of every fault that began."""
    begun = [strike for strike in trial.strikes if strike.invoked]
    layers = []
    for nth, strike in enumerate(begun):
        place = line.at_trigger(strike.op.at)
        row = {
            "place": place,
            "name": f"✕ op {strike.op.index}, rank {strike.rank}",
            "fault": str(strike.op),
            "status": strike.ended[-1][1].status if strike.ended else "not ended",
        }
        rule = alt.Chart(alt.Data(values=[row])).mark_rule(color=ch.FAULT, strokeWidth=1.5)
        tooltip = [alt.Tooltip("fault:N"), alt.Tooltip("status:N")]
        layers.append(rule.encode(x="place:Q", tooltip=tooltip))
        # Faults at one place would be written over each other on one line.
        is_left = place > 0.7 * line.steps
        layers.append(_label(row, is_left=is_left, dy=2 + 16 * (nth % 3), color=ch.FAULT))
    return alt.layer(*layers) if layers else None


def divergence_rule(
    line: Track, apart: Divergence | None, *, below_faults: bool
) -> alt.LayerChart | None:
    """Mark the first divergent step; `below_faults`: the chart names faults in its first rows."""
    if apart is None or apart.step is None:
        return None
    place = line.at(apart.epoch, apart.step)
    row = {"place": place, "name": "first divergent step"}
    base = alt.Chart(alt.Data(values=[row]))
    rule = base.mark_rule(color=ch.DIVERGED, strokeWidth=1.5, strokeDash=[2, 3])
    is_left = place > line.steps // 4
    # It stands close to the fault more often than not, and would be written over its name.
    text = _label(row, is_left=is_left, dy=50 if below_faults else 2, color=ch.DIVERGED)
    return alt.layer(rule.encode(x="place:Q"), text)


def _label(row: dict[str, object], *, is_left: bool, dy: int, color: str) -> alt.Chart:
    """Write beside a rule."""
    text = alt.Chart(alt.Data(values=[row])).mark_text(
        align="right" if is_left else "left",
        baseline="top",
        dx=-6 if is_left else 6,
        dy=dy,
        color=color,
        fontWeight=600,
    )
    return text.encode(x="place:Q", y=alt.value(0), text="name:N")
