"""JUnit XML, read back by a strict parser."""

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.report import ci
from chaos.report.outcome import FinishedRun, SuiteRow, build_suite_row, build_unrun_row


def case_of(row: SuiteRow) -> ET.Element:
    case = ET.fromstring(ci.render([row])).find(".//testcase")
    assert case is not None
    return case


def outcome_of(row: SuiteRow) -> str:
    found = [c.tag for c in case_of(row) if c.tag in {"failure", "error"}]
    return found[0] if found else "pass"


def test_a_run_as_expected_passes(
    valid_run: FinishedRun, expected_invalid_run: FinishedRun
) -> None:
    assert outcome_of(build_suite_row(valid_run)) == "pass"
    assert outcome_of(build_suite_row(expected_invalid_run)) == "pass"


def test_an_unexpected_defect_is_a_failure_that_names_it(guilty_run: FinishedRun) -> None:
    failure = case_of(build_suite_row(guilty_run)).find("failure")

    assert failure is not None
    assert "epoch 2, step 1" in failure.attrib["message"]
    assert guilty_run.directory in (failure.text or "")


def test_valid_where_a_defect_was_expected_is_a_failure(valid_run: FinishedRun) -> None:
    judged = valid_run.verdict.model_copy(update={"as_expected": False})

    assert outcome_of(build_suite_row(replace(valid_run, verdict=judged))) == "failure"


def test_unknown_is_an_error(unknown_run: FinishedRun) -> None:
    assert outcome_of(build_suite_row(unknown_run)) == "error"


def test_what_its_caller_must_put_right_is_an_error() -> None:
    row = build_unrun_row(scenario="s", file="s.chaos.yaml", error="s.chaos.yaml:3: no such fault")
    error = case_of(row).find("error")

    assert error is not None
    assert error.attrib["message"] == "s.chaos.yaml:3: no such fault"


def test_the_suite_counts_its_cases(
    valid_run: FinishedRun, guilty_run: FinishedRun, unknown_run: FinishedRun
) -> None:
    rows = [*map(build_suite_row, (valid_run, guilty_run, unknown_run))]
    rows.append(build_unrun_row(scenario="s", file="f", error="e"))
    suite = ET.fromstring(ci.render(rows)).find("testsuite")

    assert suite is not None
    counts = [suite.attrib[key] for key in ("tests", "failures", "errors", "skipped")]
    assert counts == ["4", "1", "2", "0"]


def test_properties_carry_seed_measures_and_versions(valid_run: FinishedRun) -> None:
    found = {p.attrib["name"]: p.attrib["value"] for p in case_of(build_suite_row(valid_run))[0]}

    assert found["seed"] == "7"
    assert found["attempts"] == "2"
    assert found["lost_steps"] == "5"
    assert found["recovery_s"] == "3.466"
    assert found["backend"] == "ray"
    assert found["version.ray"] == "2.60.0"


@pytest.mark.parametrize("strange", ["\x00", "\x1b[31m", "\ufffe", "\ud800", "]]>", "<&\"'"])
def test_characters_that_xml_cannot_carry_do_not_spoil_the_file(strange: str) -> None:
    row = build_unrun_row(scenario=f"a{strange}b", file=strange, error=f"bad {strange}")

    assert case_of(row).attrib["name"].startswith("a")
    ci.render([row]).encode("utf-8")


@given(text=st.text())
def test_any_text_gives_xml_that_parses(text: str) -> None:
    row = build_unrun_row(scenario=text, file=text, error=text)

    assert outcome_of(row) == "error"


def test_paths_are_those_of_the_repository_and_times_of_iso_8601(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    file = tmp_path / "scenarios" / "x.chaos.yaml"
    row = build_unrun_row(scenario="s", file=str(file), error="e")
    text = ci.render([row], start_time="2026-11-21T01:45:00Z")
    (suite,) = ET.fromstring(text).iter("testsuite")

    assert suite.get("timestamp") == "2026-11-21T01:45:00Z"
    for name in ("classname", "file"):
        assert case_of(row).get(name) == "scenarios/x.chaos.yaml"


def test_outside_of_a_repository_paths_are_those_of_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    inside, outside = tmp_path / "x.chaos.yaml", tmp_path.parent / "x.chaos.yaml"

    assert (
        ci.build_summary(build_unrun_row(scenario="s", file=str(inside), error="e")).file
        == "x.chaos.yaml"
    )
    assert ci.build_summary(
        build_unrun_row(scenario="s", file=str(outside), error="e")
    ).file == str(outside)
