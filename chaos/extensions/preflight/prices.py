"""The prices of a node in a table that the user has: SkyPilot's catalog."""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import UsageError
from chaos.scenario_file.messages import find_nearest
from chaos.scenario_file.yaml_lines import load_text

TABLE_BYTES = 64 << 20
_COLUMNS = ("InstanceType", "Price", "SpotPrice", "Region")


@dataclass(frozen=True)
class Prices:
    """The price of a node for an hour, on demand and on the spot market, and its source."""

    on_demand: float
    spot: float
    note: str


def load_prices(words: str) -> Prices:
    """Return the prices of `FILE:REGION:TYPE` in a catalog of SkyPilot's, such as `aws/vms.csv`.

    A region may be a zone. Of several zones the dearest spot price is taken. Raises `UsageError`
    with the line for a table that cannot be read, and for a region or type that it lacks.
    """
    path, _, type_ = words.rpartition(":")
    file, _, region = path.rpartition(":")
    if not file or not region or not type_:
        raise UsageError(f"--prices is FILE:REGION:TYPE, got {words}", _SUCH_AS)
    zone_prices = _find_zone_prices(file, region, type_)
    on_demand, spots = zone_prices[0][0], [spot for _, spot in zone_prices]
    low, high = min(spots), max(spots)
    price_range = f" ({low:g} to {high:g} in its zones)" if low < high else ""
    note = f"{file}: {type_} in {region} costs {on_demand:g} an hour on demand, {high:g} as a spot"
    return Prices(on_demand, high, f"{note} node{price_range}")


def _find_zone_prices(file: str, region: str, type_: str) -> list[tuple[float, float]]:
    table = csv.DictReader(load_text(Path(file), "table", max_bytes=TABLE_BYTES).splitlines())
    missing_columns = [name for name in _COLUMNS if name not in (table.fieldnames or ())]
    if missing_columns:
        text = f"the table has no column {missing_columns[0]}"
        raise UsageError(
            text, f"It is to be a catalog of SkyPilot's. {_SUCH_AS}", location=f"{file}:1"
        )
    types, places, zone_prices = set[str](), set[str](), list[tuple[float, float]]()
    for row in _list_complete_rows(file, table):
        types.add(row["InstanceType"])
        if row["InstanceType"] == type_:
            row_places = {row["Region"], row.get("AvailabilityZone") or row["Region"]}
            places |= row_places
            if region in row_places and row["Price"] and row["SpotPrice"]:
                zone_prices.append(
                    _parse_prices(file, table.line_num, row["Price"], row["SpotPrice"])
                )
    if type_ not in types:
        raise UsageError(f"the table has no {type_}", _suggest_name(type_, types), location=file)
    if not zone_prices:
        raise UsageError(
            f"{type_} has no two prices in {region}", _suggest_name(region, places), location=file
        )
    return zone_prices


_SUCH_AS = "Such as --prices aws/vms.csv:us-east-1:p3.2xlarge."


def _list_complete_rows(file: str, table: "csv.DictReader[str]") -> Iterator[dict[str, str]]:
    """Yield the rows that have every column; raises `UsageError` for a table that is none."""
    try:
        yield from (row for row in table if all(row.get(name) is not None for name in _COLUMNS))
    except csv.Error as error:
        raise UsageError(f"not a table: {error}", location=f"{file}:{table.line_num}") from None


def _parse_prices(file: str, line: int, on_demand: str, spot: str) -> tuple[float, float]:
    try:
        prices = float(on_demand), float(spot)
    except ValueError:
        prices = (0.0, 0.0)
    if not 0 < prices[1] < float("inf") or not 0 < prices[0] < float("inf"):
        text = f"no price above 0: {on_demand}, {spot}"
        raise UsageError(text, "Mend or delete the row.", location=f"{file}:{line}")
    return prices


def _suggest_name(name: str, names: set[str]) -> str:
    suggestion = find_nearest(name, sorted(names))
    return (
        f"Did you mean {suggestion}?" if suggestion else "Give region and type as they stand in it."
    )
