"""What a person reads in a terminal of 80 columns."""

import re
from dataclasses import replace

from rich.console import Console, RenderableType

from chaos.model.verdict import Anomaly
from chaos.report.outcome import FinishedRun, not_run, row_of
from chaos.report.terminal import closing_line, explain, findings, verdict_table

LONG = "a worker is killed while the checkpoint of the third epoch is being uploaded to storage"


def written(what: RenderableType, *, color: bool = False) -> str:
    console = Console(
        width=80, record=True, force_terminal=color, color_system="truecolor" if color else None
    )
    with console.capture() as captured:
        console.print(what)
    return captured.get()


def explained(run: FinishedRun) -> RenderableType:
    return explain(run.verdict, run.plan.scenario, directory=run.directory)


def test_the_table_fits_80_columns_and_keeps_every_word(
    valid_run: FinishedRun, unknown_run: FinishedRun
) -> None:
    plan = valid_run.plan.model_copy(update={"scenario": LONG})
    surprise = valid_run.verdict.model_copy(update={"as_expected": False})
    rows = [
        row_of(replace(valid_run, plan=plan)),
        row_of(replace(valid_run, plan=plan, verdict=surprise, duration_s=1234.5)),
        row_of(unknown_run),
        not_run(scenario=LONG, file="f", error="e"),
    ]
    text = written(verdict_table(rows))
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
    rows = [*map(row_of, runs), not_run(scenario="s", file="f", error="e")]
    text = written(verdict_table(rows))

    for words in ("✓ pass", "✗ fail", "? inconclusive", "✓ fail, expected", "! could not run"):
        assert words in text


def test_unknown_is_never_green_nor_ticked(unknown_run: FinishedRun) -> None:
    expected = unknown_run.verdict.model_copy(update={"as_expected": True})
    for run in (unknown_run, replace(unknown_run, verdict=expected)):
        text = written(verdict_table([row_of(run)]), color=True) + written(
            explained(run), color=True
        )

        assert "✓" not in text
        assert "\x1b[32m" not in text


def test_a_failed_run_is_explained_by_its_events_and_its_report(guilty_run: FinishedRun) -> None:
    text = written(explained(guilty_run))
    flat = " ".join(re.sub("[│╭╮╰╯─]", " ", text).split())

    assert "events 143" in flat
    assert "expected pass; got fail, first named by trajectory" in flat
    assert f"{guilty_run.directory}/report.html" in flat
    assert f"chaos replay {guilty_run.directory}" in flat
    assert max(len(line) for line in text.splitlines()) <= 80


def test_a_suite_says_why_of_each_run_that_is_not_as_expected_and_of_no_other(
    valid_run: FinishedRun,
    guilty_run: FinishedRun,
    unknown_run: FinishedRun,
    expected_invalid_run: FinishedRun,
) -> None:
    runs = (valid_run, guilty_run, expected_invalid_run, unknown_run)
    rows = [*map(row_of, runs), not_run(scenario="s", file="f", error="e")]
    told = [written(each) for each in findings(rows)]

    assert told == [written(explained(guilty_run)), written(explained(unknown_run))]


def test_names_are_not_taken_for_markup(valid_run: FinishedRun) -> None:
    plan = valid_run.plan.model_copy(update={"scenario": "[red]rank[/red] [0]"})
    run = replace(valid_run, plan=plan)

    assert "[red]rank[/red] [0]" in " ".join(written(verdict_table([row_of(run)])).split())
    assert "[red]rank[/red]" in written(explained(run))


def test_the_closing_line_counts_each_standing(
    valid_run: FinishedRun, unknown_run: FinishedRun
) -> None:
    rows = [row_of(valid_run), row_of(valid_run), row_of(unknown_run)]

    assert written(closing_line(rows)).split("  ")[0] == "✓ 2 as expected"
    assert "? 1 inconclusive" in written(closing_line(rows))
    assert "not as expected" not in written(closing_line(rows))


def test_many_anomalies_are_cut_short_and_counted(guilty_run: FinishedRun) -> None:
    broken = guilty_run.verdict.broken[0]
    many = tuple(Anomaly(message=f"no. {n}", events=tuple(range(20))) for n in range(9))
    results = (broken.model_copy(update={"anomalies": many}),)
    judged = guilty_run.verdict.model_copy(update={"results": results})
    text = written(explained(replace(guilty_run, verdict=judged)))

    assert "no. 4" in text
    assert "no. 5" not in text
    assert "and 4 more, in the report" in text
    assert "7, …]" in text


def test_what_is_open_for_one_reason_is_told_once(unknown_run: FinishedRun) -> None:
    undecided = unknown_run.verdict.undecided
    for_one = {result.check: result.summary for result in undecided}
    text = " ".join(written(explained(unknown_run)).replace("│", " ").split())

    assert len(set(for_one.values())) < len(for_one)  # this run has such checks
    assert all(check in text for check in for_one)
    assert text.count("inconclusive: ") == len(set(for_one.values()))
