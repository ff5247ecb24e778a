"""The prices of a node in a table that the user has: SkyPilot's catalog."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import UsageError
from chaos.scenario_file.messages import nearest
from chaos.scenario_file.yaml_lines import read_text

TABLE_BYTES = 64 << 20
_COLUMNS = ("InstanceType", "Price", "SpotPrice", "Region")


@dataclass(frozen=True)
class Prices:
    """The price of a node for an hour, on demand and on the spot market, and its source."""

    on_demand: float
    spot: float
    note: str


def read_prices(words: str) -> Prices:
    """Return the prices of `FILE:REGION:TYPE` in a catalog of SkyPilot's, such as `aws/vms.csv`.

    A region may be a zone. Of several zones the dearest spot price is taken. Raises `UsageError`
    with the line for a table that cannot be read, and for a region or type that it lacks.
    """
    path, _, type_ = words.rpartition(":")
    file, _, region = path.rpartition(":")
    if not file or not region or not type_:
        raise UsageError(f"--prices is FILE:REGION:TYPE, got {words}", _SUCH_AS)
    found = _of_type(file, region, type_)
    on_demand, spots = found[0][0], [spot for _, spot in found]
    low, high = min(spots), max(spots)
    several = f" ({low:g} to {high:g} in its zones)" if low < high else ""
    note = f"{file}: {type_} in {region} costs {on_demand:g} an hour on demand, {high:g} as a spot"
    return Prices(on_demand, high, f"{note} node{several}")


def _of_type(file: str, region: str, type_: str) -> list[tuple[float, float]]:
    table = csv.DictReader(read_text(Path(file), "table", most=TABLE_BYTES).splitlines())
    lacks = [name for name in _COLUMNS if name not in (table.fieldnames or ())]
    if lacks:
        text = f"the table has no column {lacks[0]}"
        raise UsageError(
            text, f"It is to be a catalog of SkyPilot's. {_SUCH_AS}", place=f"{file}:1"
        )
    types, places, found = set[str](), set[str](), list[tuple[float, float]]()
    for row in _whole_rows(file, table):
        types.add(row["InstanceType"])
        if row["InstanceType"] == type_:
            of = {row["Region"], row.get("AvailabilityZone") or row["Region"]}
            places |= of
            if region in of and row["Price"] and row["SpotPrice"]:
                found.append(_prices(file, table.line_num, row["Price"], row["SpotPrice"]))
    if type_ not in types:
        raise UsageError(f"the table has no {type_}", _near(type_, types), place=file)
    if not found:
        raise UsageError(
            f"{type_} has no two prices in {region}", _near(region, places), place=file
        )
    return found


_SUCH_AS = "Such as --prices aws/vms.csv:us-east-1:p3.2xlarge."


def _whole_rows(file: str, table: "csv.DictReader[str]") -> Iterator[dict[str, str]]:
    """Yield the rows that have every column; raises `UsageError` for a table that is none."""
    try:
        yield from (row for row in table if all(row.get(name) is not None for name in _COLUMNS))
    except csv.Error as error:
        raise UsageError(f"not a table: {error}", place=f"{file}:{table.line_num}") from None


def _prices(file: str, line: int, on_demand: str, spot: str) -> tuple[float, float]:
    try:
        prices = float(on_demand), float(spot)
    except ValueError:
        prices = (0.0, 0.0)
    if not 0 < prices[1] < float("inf") or not 0 < prices[0] < float("inf"):
        text = f"no price above 0: {on_demand}, {spot}"
        raise UsageError(text, "Mend or delete the row.", place=f"{file}:{line}")
    return prices


def _near(name: str, known: set[str]) -> str:
    near = nearest(name, sorted(known))
    return f"Did you mean {near}?" if near else "Give region and type as they stand in it."
