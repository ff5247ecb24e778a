"""The card as a page: one file, everything inside, nothing loaded from anywhere."""

from dataclasses import dataclass
from urllib.parse import quote

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from chaos.audit.card import Card
from chaos.audit.heatmap import heatmap
from chaos.audit.table import GroupRow, check_rows, group_rows, lost_steps, part_rows
from chaos.check.result import plural
from chaos.report import chart as ch
from chaos.report.page import Fact, Tone

PLACES_SHOWN = 12

_env = Environment(
    # The frame, the style and the words are those of the report of a run.
    loader=ChoiceLoader([PackageLoader("chaos.audit"), PackageLoader("chaos.report")]),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)


@dataclass(frozen=True)
class Omission:
    """Places that were not struck, and why."""

    group: str
    why: str


def render_card(card: Card) -> str:
    """Give the page of an audit: the verdict first, then what it rests on."""
    drawn = heatmap(card)
    return _env.get_template("card.html.j2").render(
        card=card,
        tone=tone(card),
        word=card.sentence,
        facts=facts(card),
        heatmap=drawn,
        svg=Markup(drawn.svg) if drawn else None,  # noqa: S704 (Vega escapes it)
        bundle=Markup(ch.bundle()) if drawn else None,  # noqa: S704 (a library)
        groups=[row for row in group_rows(card) if row.struck],
        parts=part_rows(card),
        checks=check_rows(card),
        omissions=omissions(card),
        shown=PLACES_SHOWN,
        link=quote,
        plural=plural,
    )


def tone(card: Card) -> Tone:
    """Say how the verdict is to look; what cannot be told never looks like success."""
    if card.broken:
        return "bad"
    return "open" if card.exit_code or card.ended == "interrupted" else "good"


def facts(card: Card) -> tuple[Fact, ...]:
    """Give the figures people ask for first."""
    landed, planned = card.landed
    lost = max(lost_steps(card.runs), default=None)
    return (
        Fact("survived", f"{card.survived} of {len(card.runs)}"),
        Fact("not survived", str(card.broken)),
        Fact("cannot be told", str(len(card.unknown))),
        Fact("faults landed", f"{landed} of {planned}"),
        Fact("steps lost, worst", "-" if lost is None else str(lost)),
        Fact("took", f"{card.seconds:.0f} s"),
        Fact("seed", str(card.seed)),
    )


def omissions(card: Card) -> tuple[Omission, ...]:
    """Give what was not struck, by group, in numbers."""
    return tuple(Omission(row.group, why) for row in group_rows(card) if (why := _why(row, card)))


def omitted_in_all(card: Card) -> str | None:
    """Say in one line how many places were not struck, and why; None where all were."""
    rows = group_rows(card)
    total = sum(row.places for row in rows)
    counts = {
        "not chosen": sum(row.places for row in rows if row.chosen == 0),
        "left out by the sample": sum(row.places - row.chosen for row in rows if row.chosen),
        "not reached": sum(row.chosen - row.struck for row in rows),
    }
    reasons = ", ".join(f"{count} {why}" for why, count in counts.items() if count)
    return f"{sum(counts.values())} of {plural(total, 'place')}: {reasons}" if reasons else None


def _why(row: GroupRow, card: Card) -> str | None:
    if row.places == 0:
        return f"not in this job: {row.why_none}"
    if row.struck == row.places:
        return None
    left = f"{row.places - row.struck} of {plural(row.places, 'place')}"
    if row.chosen == 0:
        return f"{left}: not chosen with --places"
    by_sample, cut = row.places - row.chosen, row.chosen - row.struck
    reasons = [f"{by_sample} left out by the sample"] if by_sample else []
    if cut:
        end = "the budget was spent" if card.ended == "budget" else "the audit was interrupted"
        reasons.append(f"{cut} not reached: {end}")
    return f"{left}: {', '.join(reasons)}"
