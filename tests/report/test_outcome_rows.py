"""The row of a run or of a suite."""

from chaos.report.outcome import FinishedRun, build_suite_row, build_unrun_row, find_versions
from chaos.report.sections import describe_verdict


def test_a_row_carries_the_measures_of_its_run(valid_run: FinishedRun) -> None:
    row = build_suite_row(valid_run)

    assert (row.attempts, row.lost_steps, row.recovery_s) == (2, 5, 3.466)
    assert (row.seed, row.backend, row.versions["ray"]) == (7, "ray", "2.60.0")
    assert row.standing == "expected"


def test_a_scenario_that_did_not_run_has_no_measures() -> None:
    row = build_unrun_row(scenario="s", file="f", error="e")

    assert (row.standing, row.attempts, row.recovery_s) == ("not_run", None, None)


def test_versions_are_found_with_and_without_a_table_of_their_own() -> None:
    assert find_versions({"versions": {"ray": "2.60.0"}}) == {"ray": "2.60.0"}
    assert find_versions({"ray": "2.60.0", "gpus": []}) == {"ray": "2.60.0"}
    assert find_versions({"versions": None}) == {}


def test_words_tell_expectation_from_surprise(
    valid_run: FinishedRun, guilty_run: FinishedRun, expected_invalid_run: FinishedRun
) -> None:
    assert describe_verdict(valid_run.verdict) == "pass"
    assert describe_verdict(guilty_run.verdict) == "fail"
    assert describe_verdict(expected_invalid_run.verdict) == "fail, as the scenario expects"
