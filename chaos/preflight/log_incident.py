"""The place at which training ended, by the log of a run without a guard, and what ended it."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import median
from typing import Any, NamedTuple

from chaos.errors import UsageError
from chaos.model.places import Place
from chaos.preflight.run_logs import EXAMPLE, Mark, begins_anew, marks_of, of_training, outages

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


class Loss(NamedTuple):
    """The end of an attempt, as a fault."""

    fault: str
    settings: dict[str, Any]
    #: None where the log does not say it
    rank: int | None


class LogIncident(NamedTuple):
    """An end of training that a log shows, for a scenario."""

    place: Place
    #: the steps of an epoch by which `place` counts; None where reports end epochs
    epoch_steps: int | None
    loss: Loss
    #: the launcher began again by itself
    is_retried: bool
    #: as Ray says it
    workers: int | None
    #: the facts with their lines, and what is taken for granted
    notes: tuple[str, ...]


class _End(NamedTuple):
    """The marks around the end of an attempt."""

    #: all before it, with this attempt's from `since` on
    marks: Sequence[Mark]
    since: int
    begun: Mark
    #: the first step after it
    after: Mark | None


def log_incident(
    text: str, which: int | None, *, nodes: int = 1, has_reports: bool = False
) -> LogIncident:
    """Return the last restart in a log, or the one of a number, from 1 on.

    `has_reports`: these end an epoch, and no number of steps can stand for it. Raises `UsageError`
    where the log does not show a restart, or its place.
    """
    lines = text.split("\n")
    read = of_training([*marks_of(text)])
    made = [m for m in read if _is_made(m, lines[m.line - 1])]
    marks, counted = _from_the_begin(made, _epoch_steps(text))
    ends = [*_ends(marks)]
    number = _chosen(ends, which)
    end = ends[number]
    last, step, placed = _last_step(end)
    # A bar has no end of line, so that what ended it may follow on its own; a notice comes before.
    noticed = [mark.line for mark in end.marks[end.since :] if mark.kind == "notice"]
    since = min([last.line, *noticed])
    between = "\n".join(lines[since - 1 : _next_start(read, end.begun)])
    loss, ended = _loss(between, since, nodes)
    place, every, taken = _by_reports(end, last) if has_reports else _by_steps(last, step)
    then = "No step of it is read after that."
    if end.after is not None:
        then = f"Line {end.after.line}: the first step after it is {end.after.step}."
        if end.begun.kind == "resume" and end.after.step == 1:
            then += " If another training begins there, it is no restart."
    others = ", ".join(str(one.begun.line) for one in ends if one is not end)
    of = f"End of training {number + 1} of {len(ends)} in the log"
    first = f"{of}; --restart N writes another one (lines: {others})." if others else f"{of}."
    sizes = _SIZE.findall("\n".join(lines[: end.begun.line]))
    return LogIncident(
        place,
        every,
        loss,
        _RETRIED.search(between) is not None and _GIVEN_UP not in between,
        int(sizes[-1]) if sizes else None,
        (first, *placed, ended, then, counted, taken),
    )


def _epoch_steps(text: str) -> int:
    """Return the steps of an epoch, as lines of PyTorch's examples or their kin say it; 0 if none.

    Raises `UsageError` where epochs have different lengths.
    """
    lengths = sorted({int(found[3]) for found in EXAMPLE.finditer(text)})
    if len(lengths) > 1:
        raise UsageError(
            f"its epochs have {lengths[0]} to {lengths[-1]} steps, and none can be counted through",
            "Write the scenario by hand: `chaos init`.",
        )
    return lengths[0] if lengths else 0


def _is_made(mark: Mark, line: str) -> bool:
    """Return whether a mark is no step that is yet to be made, as of a bar that begins."""
    if mark.bar is not None:
        return mark.step != 0
    return mark.kind != "step" or _FROM.search(line) is None


def _next_start(marks: Sequence[Mark], begun: Mark) -> int | None:
    """Return the lines before the next attempt: no sign of what ended one is behind them."""
    if begun.kind == "resume":
        return begun.line - 1
    starts = (m for m in marks if m.line > begun.line and m.kind in ("group", "resume", "step"))
    return next((mark.line - 1 for mark in starts), None)


def _from_the_begin(marks: Sequence[Mark], length: int) -> tuple[list[Mark], str]:
    """Return the marks, with steps as how many were done by then, and how they are counted.

    `length`: the steps of an epoch, if the numbers of steps contain those of its epochs.
    """
    steps = [mark for mark in marks if mark.kind == "step"]
    if not steps:
        raise UsageError("the log has no step of training", _READ)
    # DeepSpeed says `step=0` as it begins, beside lines of its job with all steps.
    begun = next((mark for mark in steps if mark.total), steps[0])
    more = int(begun.step == 0 and begun.bar is None)
    words = "Steps are taken to count from 1"
    if more:
        words = "Steps are taken to count from 0 in the log, and from 1 above and in the scenario"
    in_epochs = begins_anew(marks)
    if in_epochs and any(mark.epoch is None or not mark.total for mark in steps):
        raise UsageError(
            "steps fall in the log where no restart is, and no line tells their epochs apart",
            _READ,
        )
    low = min(1, *(mark.epoch or 0 for mark in steps))
    first = low if in_epochs else int(length > 0 and _begins_at_1(marks, steps[0]))
    words += f", epochs from {first}" if in_epochs or length else ""

    def done(mark: Mark) -> Mark:
        is_step, epoch = mark.kind == "step", (mark.epoch or 0) - first
        if mark.step is None or (in_epochs and not is_step):
            return mark._replace(step=None)
        before = epoch * (mark.total or 0) if in_epochs else -first * length * is_step
        return mark._replace(step=before + mark.step + more)

    return [done(mark) for mark in marks], f"{words}; each is taken for an optimizer step."


def _begins_at_1(marks: Sequence[Mark], first: Mark) -> bool:
    """Return whether the first step is of an epoch 1, and no resume is before it."""
    return first.epoch == 1 and not any(
        mark.kind == "resume" for mark in marks if mark.line < first.line
    )


def _ends(marks: Sequence[Mark]) -> Iterator[_End]:
    """Yield where attempts end: the restarts, and a failure after the last step."""
    since = 0
    for begun, until in outages(marks):
        yield _End(marks[:begun], since, marks[begun], marks[until])
        since = until
    last = max(number for number, mark in enumerate(marks) if mark.kind == "step")
    for begun in range(last + 1, len(marks)):
        if marks[begun].kind in ("restart", "notice"):
            yield _End(marks[:begun], since, marks[begun], None)
            return


def _chosen(ends: Sequence[_End], which: int | None) -> int:
    if not ends:
        raise UsageError(
            "the log has no restart",
            "Looked for are lines of torchrun (`failed (exitcode: -9)`), of Ray Train "
            "(`[FailurePolicy] RETRY`), of Slurm (`DUE TO PREEMPTION`) and of a shell (`line 3: "
            "4711 Killed`), and a job that resumes at a step that it had made before.",
        )
    if which is not None and which > len(ends):
        raise UsageError(f"the log has no restart {which}: the last is {len(ends)}")
    goes_on = [number for number, end in enumerate(ends, 1) if end.after is not None]
    return (which or (goes_on or [len(ends)])[-1]) - 1


def _last_step(end: _End) -> tuple[Mark, int, list[str]]:
    """Return the last step that is logged, the one to end after, and how these are known."""
    attempt = end.marks[end.since :]
    # Other ranks may log it again, later.
    last = max((m for m in attempt if m.kind == "step"), key=lambda mark: mark.step or 0)
    step = last.step or 0
    logged = sorted({mark.step or 0 for mark in end.marks if mark.kind == "step"})
    every = round(median([b - a for a, b in pairwise(logged)] or [1]))
    upto = f"; up to {step + every - 1} may have been made, as one in {every} is logged"
    known = f"Line {last.line}: step {step} is the last before training ends at line "
    notes = [f"{known}{end.begun.line}{upto if every > 1 else ''}."]
    saved = next((m for m in attempt if m.kind == "save" and m.line > last.line), None)
    if saved is not None:
        notes.append(
            f"Line {saved.line}: a save is logged after it, and the place is behind that. If it "
            "ended training within the save: `moment: saving`."
        )
    goes_on = end.after.step or 0 if end.after is not None else 0
    if goes_on > step and saved is None:
        notes.append("It is not logged again, which is taken for a save that came after it.")
    if saved is not None and saved.step is not None:
        return last, max(step, saved.step + 1), notes
    return last, step + every if saved is not None or goes_on > step else step, notes


def _by_steps(last: Mark, step: int) -> tuple[Place, int, str]:
    """Return the place by steps alone."""
    length = last.total or 10 * max(1, step)
    epoch, before = divmod(max(1, step) - 1, length)
    words = "With epoch_steps the place is a step, whatever is saved when."
    return Place(epoch, before + 1), length, words


def _by_reports(end: _End, last: Mark) -> tuple[Place, None, str]:
    """Return the place by reports, of which each save that is logged is taken for one."""
    at, made = set[int](), 0
    for mark in end.marks:
        if mark.kind == "step":
            made = mark.step or 0
        elif mark.kind == "save":
            at.add(made if mark.step is None else mark.step)
    if not at:
        raise UsageError(
            "the log has no save before the restart, and a place of a job of Ray Train's is a "
            "report and a step after it",
            "Write it by hand: `chaos init`.",
        )
    words = f"Saves are taken for reports: {len(at)} are logged before it."
    return Place(len(at), max(1, (last.step or 0) - max(at))), None, words


def _loss(text: str, first: int, nodes: int) -> tuple[Loss, str]:
    """Return what ended an attempt, by the lines from one of a number on, and its words."""
    for fault, settings, form in _SIGNS:
        if (found := re.search(form, text)) is None:
            continue
        ranks, line = found.groupdict(), first + text.count("\n", 0, found.start())
        if (root := _ROOT.search(text)) is not None and "local" in ranks:
            ranks = {"rank": root[1]}
        rank = ranks.get("rank") or (ranks.get("local") if nodes == 1 else None)
        loss = Loss(fault, settings, None if rank is None else int(rank))
        return loss, f"Line {line}: `{found[0].strip(': ')}`, for which {fault} stands."
    if _JOINED.search(text):
        raise UsageError(
            "the group began again for new nodes, for which no fault stands",
            "`--restart N` is for another end of training.",
        )
    ended = "No line that is read says what ended it: a kill is taken."
    return Loss("kill_worker", {}, None), ended
