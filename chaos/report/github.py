"""What GitHub shows beside a line of a file: one annotation per scenario that does not stand."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from chaos.report.harmless import harmless
from chaos.report.outcome import SuiteRow

SHOWN = 10  # GitHub shows no more errors of one step, nor more notices
Level: TypeAlias = Literal["error", "notice"]


@dataclass(frozen=True)
class Place:
    """Where a scenario is written: its file from the repository's root, and the line."""

    file: str
    line: int


def annotations(rows: Sequence[SuiteRow], places: Sequence[Place]) -> Iterator[str]:
    """Give GitHub's workflow commands: errors, and a notice for what was skipped.

    Where there are too many of a kind, the last one counts the rest.
    """
    placed = list(zip(rows, places, strict=True))
    amiss = [each for each in placed if each[0].standing not in ("expected", "skipped")]
    yield from _commands("error", amiss, counted="are not as expected")
    skipped = [each for each in placed if each[0].standing == "skipped"]
    yield from _commands("notice", skipped, counted="were skipped")


def _commands(
    level: Level, placed: Sequence[tuple[SuiteRow, Place]], *, counted: str
) -> Iterator[str]:
    shown = placed if len(placed) <= SHOWN else placed[: SHOWN - 1]
    for row, place in shown:
        kind = row.verdict.validity if row.verdict else row.word
        again = f"\nchaos replay {row.directory}" if row.directory else ""
        yield _command(level, place, f"{kind}: {row.scenario}", row.why + again)
    if len(shown) < len(placed):
        _, place = placed[SHOWN - 1]
        more = f"{len(placed) - len(shown)} more scenarios {counted}"
        yield _command(level, place, more, "They are in the report and in the step's summary.")


def _command(level: Level, place: Place, title: str, message: str) -> str:
    where = f"file={_property(place.file)},line={place.line},title={_property(title)}"
    return f"::{level} {where}::{_message(message)}"


def _message(text: str) -> str:
    return harmless(text.replace("\r", "\n")).replace("%", "%25").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
