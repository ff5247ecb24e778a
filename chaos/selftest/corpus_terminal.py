"""The answers to a corpus in a terminal: a table of the bugs, a table of the right jobs."""

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chaos.selftest.corpus import Answer, CorpusJob, CorpusScore

_MARKS = {"pass": ("pass", ""), "fail": ("fail", "red"), "refused": ("refused", "yellow")}


def show_corpus(score: CorpusScore) -> RenderableType:
    """Return both tables, every answer that is not as it should be, and the figures."""
    lines: list[RenderableType] = []
    for title, wrong in (("job with a bug", True), ("right job", False)):
        rows = score.rows(wrong=wrong)
        if rows:
            lines += [_table(title, rows), Text("")]
    for wrong in (True, False):
        for job, answer in score.rows(wrong=wrong):
            if not is_as_due(job, answer):
                lines += [Text(f"{job.name}: {answer.verdict}", style="bold")]
                lines += [Text(f"  {answer.sentence}")]
                lines += [Text(f"  truth: {job.bug or job.odd}"), Text("")]
    return Group(*lines, Text("\n".join(figures(score))))


def figures(score: CorpusScore) -> list[str]:
    """Return the counts, each with its 95 % interval, a line each."""
    lines = []
    if score.found.total:
        lines += [f"bugs found           {score.found}", f"named right          {score.named}"]
    if score.blamed.total:
        lines += [
            f"right jobs blamed    {score.blamed}",
            f"right, inconclusive  {score.undecided}",
            f"false alarms in runs {score.false_alarms}",
        ]
    if score.green_without_resume:
        lines.append(f"pass without a resume: {', '.join(score.green_without_resume)}")
    lines += [f"not run: {name}, {why}" for name, why in score.skipped.items()]
    return [*lines, f"{len(score.answers)} audits, {score.seconds:.0f} s"]


def is_as_due(job: CorpusJob, answer: Answer) -> bool:
    """Return whether an answer is the truth, rightly named."""
    if job.bug is not None:
        return answer.verdict == "fail" and answer.named
    return answer.verdict == "pass" or (job.honest is not None and answer.verdict != "fail")


def _table(title: str, rows: list[tuple[CorpusJob, Answer]]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(title, no_wrap=True)
    table.add_column("ranks", justify="right")
    table.add_column("answer")
    table.add_column("named" if rows[0][0].bug else "honest reason")
    table.add_column("runs", justify="right")
    table.add_column("resumed", justify="right")
    for job, answer in rows:
        words, style = _MARKS.get(answer.verdict, (answer.verdict, "yellow"))
        note = ("yes" if answer.named else "no") if job.bug else (job.honest or "")
        table.add_row(
            job.name,
            str(job.workers),
            Text(words, style=style),
            note if answer.verdict != "pass" else "",
            str(answer.runs),
            str(answer.resumed),
        )
    return table
