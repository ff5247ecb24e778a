"""What GitHub shows beside a line of a file: one annotation per failed scenario."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from chaos.report.outcome import SuiteRow

SHOWN = 10  # GitHub shows no more errors of one step


@dataclass(frozen=True)
class Place:
    """Where a scenario is written: its file from the repository's root, and the line."""

    file: str
    line: int


def annotations(rows: Sequence[SuiteRow], places: Sequence[Place]) -> Iterator[str]:
    """Give GitHub's workflow commands; where there are too many the last one counts the rest."""
    amiss = [
        (row, place) for row, place in zip(rows, places, strict=True) if row.standing != "expected"
    ]
    shown = amiss if len(amiss) <= SHOWN else amiss[: SHOWN - 1]
    for row, place in shown:
        kind = row.verdict.validity if row.verdict else "could not run"
        why = row.verdict.headline if row.verdict else (row.error or "no verdict")
        again = f"\nchaos replay {row.directory}" if row.directory else ""
        yield _command(place, f"{kind}: {row.scenario}", why + again)
    if len(shown) < len(amiss):
        _, place = amiss[SHOWN - 1]
        more = f"{len(amiss) - len(shown)} more scenarios are not as expected"
        yield _command(place, more, "They are in the report and in the step's summary.")


def _command(place: Place, title: str, message: str) -> str:
    where = f"file={_property(place.file)},line={place.line},title={_property(title)}"
    return f"::error {where}::{_message(message)}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
