"""The prices of a node in SkyPilot's catalog."""

from pathlib import Path

import pytest

from chaos.errors import UsageError
from chaos.extensions.preflight.prices import load_prices

HEAD = "InstanceType,vCPUs,Price,SpotPrice,Region,AvailabilityZone\n"
ROWS = (
    "p3.2xlarge,8,3.06,0.918,us-east-1,us-east-1a\n"
    "p3.2xlarge,8,3.06,1.1,us-east-1,us-east-1b\n"
    "p3.2xlarge,8,3.3,,eu-west-1,eu-west-1a\n"
    "p4d.24xlarge,96,32.7,x,us-east-1,us-east-1a\n"
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "vms.csv"
    file.write_text(HEAD + ROWS)
    return file


@pytest.mark.parametrize(("region", "spot"), [("us-east-1", 1.1), ("us-east-1a", 0.918)])
def test_of_several_zones_the_dearest_is_taken(table: Path, region: str, spot: float) -> None:
    found = load_prices(f"{table}:{region}:p3.2xlarge")

    assert (found.on_demand, found.spot) == (3.06, spot)
    assert ("0.918 to 1.1 in its zones" in found.note) is (region == "us-east-1")


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("us-east-1:p3.2xlarg", "the table has no p3.2xlarg. Did you mean p3.2xlarge?"),
        ("us-east1:p3.2xlarge", "has no two prices in us-east1. Did you mean us-east-1?"),
        ("eu-west-1:p3.2xlarge", "p3.2xlarge has no two prices in eu-west-1"),
        ("us-east-1:p4d.24xlarge", ":5: no price above 0: 32.7, x"),
    ],
)
def test_what_the_table_lacks_is_named(table: Path, row: str, problem: str) -> None:
    with pytest.raises(UsageError) as refused:
        load_prices(f"{table}:{row}")

    assert problem in str(refused.value)


def test_rows_that_are_short_are_passed_over_and_no_table_ends_in_a_traceback(table: Path) -> None:
    table.write_text(f"{HEAD}p3\n{ROWS}")
    assert load_prices(f"{table}:us-east-1a:p3.2xlarge").spot == 0.918
    table.write_text(f"{HEAD}{'x' * 140_000},8,1,1,r,z\n")
    with pytest.raises(UsageError, match="not a table: field larger"):
        load_prices(f"{table}:us-east-1a:p3.2xlarge")


def test_another_table_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("time,nodes\n0,5\n")

    with pytest.raises(UsageError, match="no column InstanceType"):
        load_prices(f"{tmp_path / 'a.csv'}:r:t")
    with pytest.raises(UsageError, match="--prices is FILE:REGION:TYPE"):
        load_prices("a.csv")
