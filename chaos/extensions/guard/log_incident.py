"""The place at which training ended, by the log of a run without a guard, and what ended it."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from chaos.errors import UsageError
from chaos.extensions.run_logs import (
    EXAMPLE,
    LogMark,
    counts_by_epoch,
    find_outages,
    parse_marks,
    select_training_marks,
)
from chaos.model.places import TrainingPlace

_READ = (
    "Read are lines such as `step 120/1000`, `epoch 3 step 20/90`, Megatron's, the bars of tqdm, "
    "`Epoch: [1][ 10/782]  Time 1.6 ( 1.8)` and `Epoch: [1]  [ 20/1251]  eta: …  time: 0.28`."
)
_FROM = re.compile(r"(?i)\bfrom\W+(?:step|iter)")  # `training from step 0`: none was made by then
_SIZE = re.compile(r"Started training worker group of size (\d{1,6})")
_RETRIED = re.compile(r"will restart worker|failed \(exitcode|\] RETRY|RUNNING -> RESTARTING")
_JOINED = re.compile(r"Detected \d+ new nodes")  # as torchrun says it
_GIVEN_UP = "ChildFailedError"  # of torchrun, as its agent ends
_ALL, _TERM = {"ranks": "all"}, {"signal": "TERM"}
# Signs of what ended an attempt, the surest first, with the faults that stand for it.
_SIGNS: tuple[tuple[str, dict[str, str], str], ...] = (
    ("kill_worker", _ALL, r"DUE TO (?:PREEMPTION|NODE FAIL|TIME LIMIT|JOB REQUEUE)"),
    ("kill_worker", {}, r"exitcode: -9\) local_rank: (?P<local>\d+)"),
    ("kill_worker", _TERM, r"exitcode: -15\) local_rank: (?P<local>\d+)"),
    (
        "kill_worker",
        {},
        r"\[Rank (?P<rank>\d+)[\d,]* Error Snippet\](?=(?s:.{,3000})ActorDiedError)",
    ),
    ("raise_in_worker", {}, r"\[Rank (?P<rank>\d+)[\d,]* Error Snippet\]"),
    # Where one rank raises, another may be what torchrun sees first, with any exit code.
    ("raise_in_worker", {}, r"\[rank(?P<rank>\d+)\]: Traceback"),
    ("raise_in_worker", {}, r"exitcode: \d+\) local_rank: (?P<local>\d+)"),
    ("kill_worker", {}, r"exitcode: -\d+\) local_rank: (?P<local>\d+)"),
    ("kill_worker", _TERM, r": line \d+: +\d+ Terminated"),
    ("kill_worker", {}, r": line \d+: +\d+ (?:Killed|Aborted)\b"),
)
_ROOT = re.compile(r"Root Cause.*?\n\s+rank\s+: (\d+)", re.DOTALL)  # in torchrun's table


class ObservedLoss(NamedTuple):
    """The end of an attempt, as a fault."""

    fault: str
    settings: dict[str, Any]
    #: None where the log does not say it
    rank: int | None


class LogIncident(NamedTuple):
    """An end of training that a log shows, for a scenario."""

    training_place: TrainingPlace
    #: the steps of an epoch by which `training_place` counts; None where reports end epochs
    epoch_steps: int | None
    loss: ObservedLoss
    #: the launcher began again by itself
    is_retried: bool
    #: as Ray says it
    workers: int | None
    #: the facts with their lines, and what is taken for granted
    notes: tuple[str, ...]


class _AttemptEnd(NamedTuple):
    """The marks around the end of an attempt."""

    #: all before it, with this attempt's from `start_index` on
    marks: Sequence[LogMark]
    start_index: int
    end_mark: LogMark
    #: the first step after it
    next_step: LogMark | None


def find_log_incident(
    text: str, which: int | None, *, nodes: int = 1, has_reports: bool = False
) -> LogIncident:
    """Return the last restart in a log, or the one of a number, from 1 on.

    `has_reports`: these end an epoch, and no number of steps can stand for it. Raises `UsageError`
    where the log does not show a restart, or its place.
    """
    lines = text.split("\n")
    training_marks = select_training_marks([*parse_marks(text)])
    finished_marks = [m for m in training_marks if _is_finished(m, lines[m.line - 1])]
    marks, count_note = _renumber_steps(finished_marks, _find_epoch_steps(text))
    ends = [*_list_ends(marks)]
    number = _choose_end(ends, which)
    end = ends[number]
    last_mark, step, place_notes = _find_last_step(end)
    # A bar has no end of line, so that what ended it may follow on its own; a notice comes before.
    noticed = [mark.line for mark in end.marks[end.start_index :] if mark.kind == "notice"]
    start_line = min([last_mark.line, *noticed])
    loss_text = "\n".join(lines[start_line - 1 : _find_next_start(training_marks, end.end_mark)])
    loss, end_note = _find_loss(loss_text, start_line, nodes)
    training_place, step_count, assumption = (
        _place_by_reports(end, last_mark) if has_reports else _place_by_steps(last_mark, step)
    )
    next_note = "No step of it is read after that."
    if end.next_step is not None:
        next_note = f"Line {end.next_step.line}: the first step after it is {end.next_step.step}."
        if end.end_mark.kind == "resume" and end.next_step.step == 1:
            next_note += " If another training begins there, it is no restart."
    other_lines = ", ".join(
        str(attempt_end.end_mark.line) for attempt_end in ends if attempt_end is not end
    )
    title = f"End of training {number + 1} of {len(ends)} in the log"
    first = (
        f"{title}; --restart N writes another one (lines: {other_lines})."
        if other_lines
        else f"{title}."
    )
    sizes = _SIZE.findall("\n".join(lines[: end.end_mark.line]))
    return LogIncident(
        training_place,
        step_count,
        loss,
        _RETRIED.search(loss_text) is not None and _GIVEN_UP not in loss_text,
        int(sizes[-1]) if sizes else None,
        (first, *place_notes, end_note, next_note, count_note, assumption),
    )


def _find_epoch_steps(text: str) -> int:
    """Return the steps of an epoch, as lines of PyTorch's examples or their kin say it; 0 if none.

    Raises `UsageError` where epochs have different lengths.
    """
    lengths = sorted({int(match[3]) for match in EXAMPLE.finditer(text)})
    if len(lengths) > 1:
        raise UsageError(
            f"its epochs have {lengths[0]} to {lengths[-1]} steps, and none can be counted through",
            "Write the scenario by hand: `chaos init`.",
        )
    return lengths[0] if lengths else 0


def _is_finished(mark: LogMark, line: str) -> bool:
    """Return whether a mark is no step that is yet to be made, as of a bar that begins."""
    if mark.bar is not None:
        return mark.step != 0
    return mark.kind != "step" or _FROM.search(line) is None


def _find_next_start(marks: Sequence[LogMark], end_mark: LogMark) -> int | None:
    """Return the lines before the next attempt: no sign of what ended one is behind them."""
    if end_mark.kind == "resume":
        return end_mark.line - 1
    starts = (m for m in marks if m.line > end_mark.line and m.kind in ("group", "resume", "step"))
    return next((mark.line - 1 for mark in starts), None)


def _renumber_steps(marks: Sequence[LogMark], length: int) -> tuple[list[LogMark], str]:
    """Return the marks, with steps as how many were done by then, and how they are counted.

    `length`: the steps of an epoch, if the numbers of steps contain those of its epochs.
    """
    steps = [mark for mark in marks if mark.kind == "step"]
    if not steps:
        raise UsageError("the log has no step of training", _READ)
    # DeepSpeed says `step=0` as it begins, beside lines of its job with all steps.
    first_step = next((mark for mark in steps if mark.total), steps[0])
    offset = int(first_step.step == 0 and first_step.bar is None)
    words = "Steps are taken to count from 1"
    if offset:
        words = "Steps are taken to count from 0 in the log, and from 1 above and in the scenario"
    in_epochs = counts_by_epoch(marks)
    if in_epochs and any(mark.epoch is None or not mark.total for mark in steps):
        raise UsageError(
            "steps fall in the log where no restart is, and no line tells their epochs apart",
            _READ,
        )
    low = min(1, *(mark.epoch or 0 for mark in steps))
    first_epoch = low if in_epochs else int(length > 0 and _begins_at_1(marks, steps[0]))
    words += f", epochs from {first_epoch}" if in_epochs or length else ""

    def renumber(mark: LogMark) -> LogMark:
        is_step, epoch = mark.kind == "step", (mark.epoch or 0) - first_epoch
        if mark.step is None or (in_epochs and not is_step):
            return mark._replace(step=None)
        earlier_steps = epoch * (mark.total or 0) if in_epochs else -first_epoch * length * is_step
        return mark._replace(step=earlier_steps + mark.step + offset)

    return [renumber(mark) for mark in marks], f"{words}; each is taken for an optimizer step."


def _begins_at_1(marks: Sequence[LogMark], first: LogMark) -> bool:
    """Return whether the first step is of an epoch 1, and no resume is before it."""
    return first.epoch == 1 and not any(
        mark.kind == "resume" for mark in marks if mark.line < first.line
    )


def _list_ends(marks: Sequence[LogMark]) -> Iterator[_AttemptEnd]:
    """Yield where attempts end: the restarts, and a failure after the last step."""
    start_index = 0
    for end_index, next_index in find_outages(marks):
        yield _AttemptEnd(marks[:end_index], start_index, marks[end_index], marks[next_index])
        start_index = next_index
    last_step = max(number for number, mark in enumerate(marks) if mark.kind == "step")
    for end_index in range(last_step + 1, len(marks)):
        if marks[end_index].kind in ("restart", "notice"):
            yield _AttemptEnd(marks[:end_index], start_index, marks[end_index], None)
            return


def _choose_end(ends: Sequence[_AttemptEnd], which: int | None) -> int:
    if not ends:
        raise UsageError(
            "the log has no restart",
            "Looked for are lines of torchrun (`failed (exitcode: -9)`), of Ray Train "
            "(`[FailurePolicy] RETRY`), of Slurm (`DUE TO PREEMPTION`) and of a shell (`line 3: "
            "4711 Killed`), and a job that resumes at a step that it had made before.",
        )
    if which is not None and which > len(ends):
        raise UsageError(f"the log has no restart {which}: the last is {len(ends)}")
    continued_ends = [number for number, end in enumerate(ends, 1) if end.next_step is not None]
    return (which or (continued_ends or [len(ends)])[-1]) - 1


def _find_last_step(end: _AttemptEnd) -> tuple[LogMark, int, list[str]]:
    """Return the last step that is logged, the one to end after, and how these are known."""
    attempt = end.marks[end.start_index :]
    # Other ranks may log it again, later.
    last_mark = max((m for m in attempt if m.kind == "step"), key=lambda mark: mark.step or 0)
    step = last_mark.step or 0
    logged_steps = sorted({mark.step or 0 for mark in end.marks if mark.kind == "step"})
    log_interval = round(median([b - a for a, b in pairwise(logged_steps)] or [1]))
    uncertainty = (
        f"; up to {step + log_interval - 1} may have been made, as one in {log_interval} is logged"
    )
    description = f"Line {last_mark.line}: step {step} is the last before training ends at line "
    notes = [f"{description}{end.end_mark.line}{uncertainty if log_interval > 1 else ''}."]
    later_save = next((m for m in attempt if m.kind == "save" and m.line > last_mark.line), None)
    if later_save is not None:
        notes.append(
            f"Line {later_save.line}: a save is logged after it, and the place is behind that. If "
            "it "
            "ended training within the save: `moment: saving`."
        )
    next_number = end.next_step.step or 0 if end.next_step is not None else 0
    if next_number > step and later_save is None:
        notes.append("It is not logged again, which is taken for a save that came after it.")
    if later_save is not None and later_save.step is not None:
        return last_mark, max(step, later_save.step + 1), notes
    return (
        last_mark,
        step + log_interval if later_save is not None or next_number > step else step,
        notes,
    )


def _place_by_steps(last_mark: LogMark, step: int) -> tuple[TrainingPlace, int, str]:
    """Return the place by steps alone."""
    length = last_mark.total or 10 * max(1, step)
    epoch, epoch_step = divmod(max(1, step) - 1, length)
    words = "With epoch_steps the place is a step, whatever is saved when."
    return TrainingPlace(epoch, epoch_step + 1), length, words


def _place_by_reports(end: _AttemptEnd, last_mark: LogMark) -> tuple[TrainingPlace, None, str]:
    """Return the place by reports, of which each save that is logged is taken for one."""
    report_steps, finished_steps = set[int](), 0
    for mark in end.marks:
        if mark.kind == "step":
            finished_steps = mark.step or 0
        elif mark.kind == "save":
            report_steps.add(finished_steps if mark.step is None else mark.step)
    if not report_steps:
        raise UsageError(
            "the log has no save before the restart, and a place of a job of Ray Train's is a "
            "report and a step after it",
            "Write it by hand: `chaos init`.",
        )
    words = f"Saves are taken for reports: {len(report_steps)} are logged before it."
    return (
        TrainingPlace(len(report_steps), max(1, (last_mark.step or 0) - max(report_steps))),
        None,
        words,
    )


def _find_loss(text: str, first_line: int, nodes: int) -> tuple[ObservedLoss, str]:
    """Return what ended an attempt, by the lines from one of a number on, and its words."""
    for fault, settings, pattern in _SIGNS:
        if (match := re.search(pattern, text)) is None:
            continue
        ranks, line = match.groupdict(), first_line + text.count("\n", 0, match.start())
        if (root := _ROOT.search(text)) is not None and "local" in ranks:
            ranks = {"rank": root[1]}
        rank = ranks.get("rank") or (ranks.get("local") if nodes == 1 else None)
        loss = ObservedLoss(fault, settings, None if rank is None else int(rank))
        return loss, f"Line {line}: `{match[0].strip(': ')}`, for which {fault} stands."
    if _JOINED.search(text):
        raise UsageError(
            "the group began again for new nodes, for which no fault stands",
            "`--restart N` is for another end of training.",
        )
    note = "No line that is read says what ended it: a kill is taken."
    return ObservedLoss("kill_worker", {}, None), note
