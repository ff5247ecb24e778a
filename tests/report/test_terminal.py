"""What a person reads in a terminal of 80 columns."""

from dataclasses import replace

from rich.console import Console, RenderableType

from chaos.report.outcome import FinishedRun, build_suite_row, build_unrun_row
from chaos.report.terminal import (
    build_closing_line,
    build_verdict_table,
    explain_findings,
    explain_verdict,
)

LONG = "a worker is killed while the checkpoint of the third epoch is being uploaded to storage"


def written(what: RenderableType, *, color: bool = False) -> str:
    console = Console(
        width=80, record=True, force_terminal=color, color_system="truecolor" if color else None
    )
    with console.capture() as captured:
        console.print(what)
    return captured.get()


def explained(run: FinishedRun) -> RenderableType:
    return explain_verdict(run.verdict, run.plan.scenario, directory=run.directory)


def test_the_table_fits_80_columns_and_keeps_every_word(
    valid_run: FinishedRun, unknown_run: FinishedRun
) -> None:
    plan = valid_run.plan.model_copy(update={"scenario": LONG})
    surprise = valid_run.verdict.model_copy(update={"as_expected": False})
    rows = [
        build_suite_row(replace(valid_run, plan=plan)),
        build_suite_row(replace(valid_run, plan=plan, verdict=surprise, duration_s=1234.5)),
        build_suite_row(unknown_run),
        build_unrun_row(scenario=LONG, file="f", error="e"),
    ]
    text = written(build_verdict_table(rows))
    column = " ".join(line[:22].strip() for line in text.splitlines())

    assert max(len(line.rstrip()) for line in text.splitlines()) <= 80
    assert "…" not in text
    assert "pass, unexpected" in text
    assert "storage" in column


def test_every_standing_has_a_mark_and_a_word_of_its_own(
    valid_run: FinishedRun,
    guilty_run: FinishedRun,
    unknown_run: FinishedRun,
    expected_invalid_run: FinishedRun,
) -> None:
    runs = (valid_run, guilty_run, unknown_run, expected_invalid_run)
    rows = [*map(build_suite_row, runs), build_unrun_row(scenario="s", file="f", error="e")]
    text = written(build_verdict_table(rows))

    for words in ("✓ pass", "✗ fail", "? inconclusive", "✓ fail, expected", "! could not run"):
        assert words in text


def test_unknown_is_never_green_nor_ticked(unknown_run: FinishedRun) -> None:
    expected = unknown_run.verdict.model_copy(update={"as_expected": True})
    for run in (unknown_run, replace(unknown_run, verdict=expected)):
        text = written(build_verdict_table([build_suite_row(run)]), color=True) + written(
            explained(run), color=True
        )

        assert "✓" not in text
        assert "\x1b[32m" not in text


def test_a_failed_run_is_explained_in_80_columns(guilty_run: FinishedRun) -> None:
    text = written(explained(guilty_run))

    assert max(len(line) for line in text.splitlines()) <= 80


def test_a_suite_says_why_of_each_run_that_is_not_as_expected_and_of_no_other(
    valid_run: FinishedRun,
    guilty_run: FinishedRun,
    unknown_run: FinishedRun,
    expected_invalid_run: FinishedRun,
) -> None:
    runs = (valid_run, guilty_run, expected_invalid_run, unknown_run)
    rows = [*map(build_suite_row, runs), build_unrun_row(scenario="s", file="f", error="e")]
    told = [written(each) for each in explain_findings(rows)]

    assert told == [written(explained(guilty_run)), written(explained(unknown_run))]


def test_names_are_not_taken_for_markup(valid_run: FinishedRun) -> None:
    plan = valid_run.plan.model_copy(update={"scenario": "[red]rank[/red] [0]"})
    run = replace(valid_run, plan=plan)

    assert "[red]rank[/red] [0]" in " ".join(
        written(build_verdict_table([build_suite_row(run)])).split()
    )
    assert "[red]rank[/red]" in written(explained(run))


def test_the_closing_line_counts_each_standing(
    valid_run: FinishedRun, unknown_run: FinishedRun
) -> None:
    rows = [build_suite_row(valid_run), build_suite_row(valid_run), build_suite_row(unknown_run)]

    assert written(build_closing_line(rows)).split("  ")[0] == "✓ 2 as expected"
    assert "? 1 inconclusive" in written(build_closing_line(rows))
    assert "not as expected" not in written(build_closing_line(rows))
