"""The suites of a folder of reports, as the trend reads them."""

import json
import re
from pathlib import Path

from chaos.model.summary import SUITE
from chaos.run.suites import find_newest_suites, find_previous_suite, load_suite
from tests.report.past import past_run, past_suite
from tests.shelf.conftest import Shelf


def keep(reports: Path, name: str, *scenarios: str) -> Path:
    folder = reports / "suites" / name
    folder.mkdir(parents=True)
    runs = [past_run(one, directory=f"{one}/0-1", recovery_s=1.5) for one in scenarios]
    (folder / SUITE).write_text(past_suite(*runs, started=name).model_dump_json())
    return folder / SUITE


def test_the_newest_suites_are_given_from_the_oldest(tmp_path: Path) -> None:
    for hour in (3, 1, 2):
        keep(tmp_path, f"20261121T0{hour}0000", "killed", "lost")

    found = find_newest_suites(tmp_path, 2)

    assert [name for name, _ in found] == ["20261121T020000", "20261121T030000"]


def test_a_suite_names_the_folder_that_its_paths_are_relative_to(stocked: Shelf) -> None:
    suite = json.loads((stocked.suite / SUITE).read_text())
    directories = [run["directory"] for run in suite["runs"]]

    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", suite["started"])
    assert suite["reports"] == str(stocked.reports)
    assert directories == [
        "killed/7-20261121T014500",
        "killed_badly/7-20261121T014500",
        None,
    ]


def test_the_suite_before_is_the_last_of_the_same_folder(tmp_path: Path) -> None:
    for hour, scenario in enumerate(("killed", "killed", "lost", "killed")):
        keep(tmp_path, f"20261121T0{hour}0000", scenario)
    newest = tmp_path / "suites" / "20261121T030000"

    found = find_previous_suite(newest, load_suite(newest))

    assert found is not None
    assert (found[0], found[1].started) == ("20261121T010000", "20261121T010000")


def test_a_run_is_found_from_the_folder_of_reports(tmp_path: Path) -> None:
    keep(tmp_path, "20261121T010000", "killed")

    [(_, suite)] = find_newest_suites(tmp_path, 9)

    assert suite.runs[0].directory == "killed/0-1"
    assert suite.runs[0].recovery_s == 1.5


def test_a_suite_that_is_cut_off_is_left_out(tmp_path: Path) -> None:
    keep(tmp_path, "20261121T010000", "killed")
    cut = keep(tmp_path, "20261121T020000", "killed")
    cut.write_text(cut.read_text()[:40])

    assert [name for name, _ in find_newest_suites(tmp_path, 9)] == ["20261121T010000"]
