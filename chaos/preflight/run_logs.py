"""The costs of a job in the log of a run: its steps, its saves, and what a restart took.

A log says when its lines were written, and what a step, a save or a restart is has to be known by
its words. Read are those of torchelastic (torch 2.13), of Ray Train (2.60), and the lines that
training loops write: `step 120/1000`, `iteration 10/ 1000 | elapsed time per iteration (ms): 2152`
(Megatron), `Epoch: [1][ 10/782]  Time 1.6 ( 1.8)` (PyTorch's examples), `Epoch: [1]  [ 20/1251]
eta: 0:02:17` (torchvision's references), tqdm's bars. A number that falls is a restart only beside
a line that says so: many loops count anew in each epoch.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple, TypeAlias

from chaos.model.launcher import Launcher

DAY_S = 86_400.0
BAR_S = 5  # a rate of fewer seconds says little
SHORT_S = 1.0  # the times of many logs are whole seconds
Kind: TypeAlias = Literal["step", "save", "restart", "notice", "group", "resume", "cancelled"]


class Mark(NamedTuple):
    """A line of a log that says something of the training."""

    line: int
    #: seconds on some clock; None without a time of its own
    at_s: float | None
    kind: Kind
    step: int | None = None
    total: int | None = None
    #: seconds per step, where the line says so
    rate_s: float | None = None
    #: of a bar: what it is called with its total, and its seconds so far
    bar: tuple[str, int] | None = None
    passed_s: float = 0.0
    #: of a step, where the line says so
    epoch: int | None = None


class Span(NamedTuple):
    """Seconds between two ends, which are one where it is known, and the line that shows it."""

    low: float
    high: float
    line: int


@dataclass(frozen=True)
class LoggedCosts:
    """The costs that a log shows; None for what is not in it."""

    step_s: Span | None = None
    save_s: Span | None = None
    restart_s: Span | None = None
    steps: int | None = None
    every: int | None = None
    restarts: int = 0
    #: by whose words a restart, or a group, is in it
    launcher: Launcher | None = None


# -- lines -------------------------------------------------------------------------------------

_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_YEAR_FIRST = re.compile(r"(\d{4})[-/](\d\d)[-/](\d\d)[ T_]+(\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?")
_MONTH_FIRST = re.compile(r"\b(\d\d)/(\d\d)/(\d{4}) (\d\d):(\d\d):(\d\d)()")
_GLOG = re.compile(r"\b[IWEF](\d\d)(\d\d) (\d\d):(\d\d):(\d\d)\.(\d+)")
_CLOCK = re.compile(r"^\W{0,2}(\d\d):(\d\d):(\d\d)(?:[.,](\d+))?\b")
_HEAD = 120  # characters of a line in which its time stands


def _written_s(text: str) -> float | None:
    """Return the time of a line in seconds, on a clock of its own form; None without one."""
    head = text[:_HEAD]
    if (found := _YEAR_FIRST.search(head)) is not None:
        return _moment_s(*found.groups())
    if (found := _MONTH_FIRST.search(head)) is not None:
        month, day, year, *clock = found.groups()
        return _moment_s(year, month, day, *clock)
    if (found := _GLOG.search(head)) is not None:
        return _moment_s("2000", *found.groups())
    if (found := _CLOCK.search(head)) is not None:
        return _moment_s("2000", "01", "01", *found.groups())
    return None


def _moment_s(*parts: str | None) -> float | None:
    year, month, day, hour, minute, second, part = (*parts, None)[:7]
    written = f"{year}-{month}-{day}T{hour}:{minute}:{second}"
    try:
        whole = datetime.fromisoformat(written) - datetime.fromisoformat("2000-01-01")
    except ValueError:
        return None
    return whole / timedelta(seconds=1) + float(f"0.{part or 0}")


_STEP = re.compile(
    r"(?i)(?<![a-z_-])(?:(?:global|train)[_ ])?(?:step|iter(?:ation)?|update|num_updates)s?\b"
    r"[\s:=\[\"'#-]{1,14}(\d[\d,]{0,14})(?:\s*(?:/|of)\s*(\d[\d,]{0,14}))?(?![\d.%])"
)
_NO_STEP = re.compile(
    r"(?i)\b(?:eval\w*|valid\w*|val|test|checkpoint|ckpt|accumulation)\W+(?:step|iter)"
    r"|\b(?:max|total|num|warmup|every|save|log)[\w ]{0,20}(?:step|iter)"
)
# Of PyTorch's examples, which count what is done; and of torchvision's references, DeiT, DINO and
# their kin, which write the index of the batch that is done, and the mean time of a batch.
EXAMPLE = re.compile(
    r"Epoch:? *\[(\d{1,9})(?:/\d{1,9})?\] *\[ *(\d{1,12})/(\d{1,12})\]\s+(?:"
    r"Time\s+[\d.]+ *\( *(\d+(?:\.\d+)?)\)|eta: .{1,400}?\btime: (\d+(?:\.\d+)?))"
)
# Names of bars of other loops than training.
_OTHER = re.compile(
    r"(?i)map|token|load|download|fetch|filter|eval|valid|test|predict|sav|generat|resolv|extract|"
    r"process|shard|read|import|sanity"
)
_BAR = re.compile(r"(\d{1,12})/(\d{1,12}) \[(?:(\d{1,5}):)?(\d{1,5}):(\d\d)<")
_ELAPSED = re.compile(r"elapsed time per iteration \(ms\): (\d+(?:\.\d+)?)")
# Neither an option (`--save`), nor a setting (`save .... /checkpoints`), nor a part of a path.
_STATE = r"(?<![/\w.-])(?:checkpoint|ckpt|snapshot)(?!\w*handler)"
_SAVE = re.compile(
    rf"(?i)(?<![\w-])sav(?:ed?|ing)\b(?! *[./]).*{_STATE}|{_STATE}\b.*(?<!to )\bsaved\b"
    r"|Checkpoint successfully created at"
)
_RESUME = re.compile(
    r"(?i)(?<![\w-])(?:resum(?:ed?|ing)|restor(?:ed|ing)|load(?:ed|ing))\b.*"
    rf"(?:{_STATE}|from (?:global )?(?:step|epoch|iteration))|\b(?:resum|continu)ing training\b"
)
_EPOCH = re.compile(r"(?i)\bepoch\W{0,4}(\d{1,9})\b")
_CANCELLED = re.compile(r"CANCELLED AT \S+ \*|CANCELLED AT \S+$|\bKeyboardInterrupt\b")
_TORCHRUN = re.compile(
    r"will restart worker group|failed \(exitcode: |Rendezvous complete for workers"
)
_RAY = re.compile(r"\[FailurePolicy\]|Started training worker group of size|RUNNING -> RESTARTING")
# torch 2.13 says that it restarts at a level that is not shown, and of each failure what it was.
_RESTART = re.compile(
    r"will restart worker group|failed \(exitcode: |RUNNING -> RESTARTING|\[FailurePolicy\] RETRY|"
    r"restarting worker group|"
    r": line \d+: +\d+ (?:Killed|Terminated|Aborted)\b.*(?:python|torchrun)",  # as bash says it
)
# Of Slurm; steps may still come.
_NOTICE = re.compile(r"CANCELLED AT \S+ DUE TO (?:PREEMPTION|NODE FAIL|TIME LIMIT|JOB REQUEUE)")
_GROUP = re.compile(
    r"Rendezvous complete for workers|Started training worker group of size \d|group_world_size=\d"
)
_SAID: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("group", _GROUP),
    ("restart", _RESTART),
    ("notice", _NOTICE),
    ("cancelled", _CANCELLED),
    ("save", _SAVE),
    ("resume", _RESUME),
)


def marks_of(text: str) -> Iterator[Mark]:
    """Yield what the lines of a log say, in order; a bar writes over its own line."""
    last_s, days = 0.0, 0
    for number, line in enumerate(text.split("\n"), 1):
        for part in _ESCAPES.sub("", line).split("\r"):
            at_s = _written_s(part)
            if at_s is not None:
                # A clock without a date begins anew at midnight.
                days += at_s < DAY_S and last_s - (at_s + days * DAY_S) > DAY_S / 2
                at_s += days * DAY_S if at_s < DAY_S else 0
                last_s = at_s
            bar = _BAR.search(part)
            if bar is not None:
                found = _of_bar(number, at_s, bar), _said(number, at_s, part[bar.end() :])
            else:
                said = _said(number, at_s, part)
                found = said, None if said else _step(number, at_s, part)
            yield from (mark for mark in found if mark is not None)


def _said(line: int, at_s: float | None, text: str) -> Mark | None:
    for kind, form in _SAID:
        if form.search(text):
            named = _STEP.search(text) if kind == "save" else None
            return Mark(line, at_s, kind, _whole(named[1]) if named else None)
    return None


def _epoch(text: str) -> int | None:
    found = _EPOCH.search(text)
    return int(found[1]) if found is not None else None


def _whole(number: str) -> int:
    return int(number.replace(",", ""))


def _step(line: int, at_s: float | None, text: str) -> Mark | None:
    if (found := EXAMPLE.search(text)) is not None:
        epoch, step, steps = (int(found[n]) for n in (1, 2, 3))
        done = epoch * steps + step + (found[5] is not None)
        return Mark(line, at_s, "step", done, None, float(found[4] or found[5]), epoch=epoch)
    if (found := _STEP.search(text)) is None or _NO_STEP.search(text[: found.end()]):
        return None
    at, of = _whole(found[1]), _whole(found[2]) if found[2] else None
    if of is not None and at > of:
        return None
    rate = _ELAPSED.search(text)
    rate_s = float(rate[1]) / 1e3 if rate else None
    return Mark(line, at_s, "step", at, of, rate_s, epoch=_epoch(text))


def _of_bar(line: int, at_s: float | None, found: re.Match[str]) -> Mark | None:
    """Return the step of a bar, unless it is of another loop than training."""
    name = re.sub(r"\d+%.*", "", found.string[: found.start()]).strip(" :|")
    if _OTHER.search(name):
        return None
    step, total = int(found[1]), int(found[2])
    hours, minutes, seconds = (int(found[n] or 0) for n in (3, 4, 5))
    passed_s = float(3600 * hours + 60 * minutes + seconds)
    epoch = _epoch(found.string)
    return Mark(line, at_s, "step", step, total, None, (name, total), passed_s, epoch)


# -- figures -----------------------------------------------------------------------------------


def logged_costs(text: str) -> LoggedCosts:
    """Return the costs that a log shows."""
    marks = of_training([*marks_of(text)])
    steps = [mark for mark in marks if mark.kind == "step"]
    totals = {mark.total for mark in steps if mark.total}
    step_s = _step_s(marks)
    restarts, in_epochs = [*_restarts(marks)], begins_anew(marks)
    return LoggedCosts(
        step_s=step_s,
        save_s=_save_s(marks, step_s),
        restart_s=_joined(restarts),
        steps=totals.pop() if len(totals) == 1 and not in_epochs else None,
        every=None if in_epochs else _every(marks),
        restarts=len(restarts),
        launcher="torchrun" if _TORCHRUN.search(text) else "ray" if _RAY.search(text) else None,
    )


def begins_anew(marks: Sequence[Mark]) -> bool:
    """Return whether steps are counted in each epoch: they begin anew without a restart."""
    last: Mark | None = None
    for mark in marks:
        if mark.kind in ("restart", "notice", "group", "resume", "cancelled"):
            last = None
        elif mark.kind == "step":
            is_named = mark.bar is not None and "epoch" in mark.bar[0].lower()
            if is_named or (last is not None and (mark.step or 0) < (last.step or 0)):
                return True
            last = mark
    return False


def _joined(spans: Sequence[Span]) -> Span | None:
    if not spans:
        return None
    low, high = min(one.low for one in spans), max(one.high for one in spans)
    return Span(low, high, spans[0].line)


def _pairs(marks: Sequence[Mark]) -> Iterator[tuple[Mark, Mark, bool]]:
    """Yield neighbouring steps that go on from each other, and whether a save is between them."""
    last, is_saved = None, False
    for mark in marks:
        if mark.kind in ("restart", "notice", "group", "resume"):
            last, is_saved = None, False
        elif mark.kind == "save":
            is_saved = True
        elif mark.at_s is not None and mark.step is not None:
            if last is not None and mark.step == last.step:
                continue  # of another rank
            if last is not None and mark.step > (last.step or 0):
                yield last, mark, is_saved
            last, is_saved = mark, False


def of_training(marks: Sequence[Mark]) -> list[Mark]:
    """Return the marks without the steps of shorter loops beside the training's."""
    most = max((mark.total for mark in marks if mark.kind == "step" and mark.total), default=None)
    return [mark for mark in marks if mark.kind != "step" or mark.total in (None, most)]


def _step_s(marks: Sequence[Mark]) -> Span | None:
    """Return the seconds of a step: as lines say it, or by their times; of each attempt."""
    found = [one for attempt in _attempts(marks) if (one := _rate(attempt)) is not None]
    if not found:
        return None
    return Span(min(found)[0], max(found)[0], max(found)[1])


def _rate(attempt: Sequence[Mark]) -> tuple[float, int] | None:
    """Return the seconds of a step in an attempt, and the last line that shows it."""
    told = [mark for mark in attempt if mark.kind == "step" and mark.rate_s]
    if told:  # the later half: a first step is slow, and in some means
        rates = [mark.rate_s for mark in told[len(told) // 2 :] if mark.rate_s]
        return median(rates), told[-1].line
    bars = [mark for mark in attempt if mark.bar is not None]
    apart = [_bar_apart(*pair) for pair in pairwise(bars) if pair[0].bar == pair[1].bar]
    rates = [passed_s / count for passed_s, count in apart if count > 0 and passed_s >= BAR_S]
    if rates:
        return median(rates), bars[-1].line
    pairs = [*_pairs(attempt)]
    timed = [_apart(*pair[:2]) for pair in pairs if not pair[2]] or [_apart(*p[:2]) for p in pairs]
    rates = [seconds / count for seconds, count, _ in timed if count and seconds > 0]
    return (median(rates), timed[-1][2]) if rates else None


def _bar_apart(one: Mark, other: Mark) -> tuple[float, int]:
    return other.passed_s - one.passed_s, (other.step or 0) - (one.step or 0)


def _attempts(marks: Sequence[Mark]) -> Iterator[Sequence[Mark]]:
    since = 0
    for number, mark in enumerate(marks):
        if mark.kind in ("restart", "notice", "group", "cancelled"):
            yield marks[since:number]
            since = number
    yield marks[since:]


def _apart(one: Mark, other: Mark) -> tuple[float, int, int]:
    return (other.at_s or 0) - (one.at_s or 0), (other.step or 0) - (one.step or 0), other.line


def _save_s(marks: Sequence[Mark], step_s: Span | None) -> Span | None:
    """Return the seconds by which the time between two steps is longer with a save in it."""
    if step_s is None:
        return None
    pairs = [*_pairs(marks)]
    found = [_apart(*pair[:2]) for pair in pairs if pair[2]]
    if not found or len(found) == len(pairs):  # without a pair between saves, none is longer
        return None
    longer = [max(0.0, seconds - count * step_s.low) for seconds, count, _ in found]
    if median(longer) < SHORT_S:  # less than lines tell
        return Span(0.0, max(SHORT_S, *longer), found[0][2])
    return Span(median(longer), max(longer), found[0][2])


def _every(marks: Sequence[Mark]) -> int | None:
    """Return the steps between two saves, by the last step before each."""
    at, step = list[int](), None
    for mark in marks:
        if mark.kind == "step":
            step = mark.step
        elif mark.kind == "save" and step is not None and (not at or step > at[-1]):
            at.append(step)
    apart = [b - a for a, b in pairwise(at)]
    return round(median(apart)) if apart else None


def _restarts(marks: Sequence[Mark]) -> Iterator[Span]:
    """Yield what each restart took: from the last step before it to the first one after it.

    The loss came up to one line's distance after the last step, and the first line after it is as
    far behind the first step. Without times of steps it is what passed until the group was there,
    at least.
    """
    for begun, until in outages(marks):
        before = _last(marks[:begun], "step")
        after = next((mark for mark in marks[until:] if mark.kind == "step" and mark.at_s), None)
        if before is not None and after is not None and before.at_s and after.at_s:
            passed_s, spare_s = after.at_s - before.at_s, 2 * _line_s(marks)
            yield Span(max(0.0, passed_s - spare_s), passed_s, marks[begun].line)
            continue
        group = next((one for one in marks[begun:] if one.kind == "group" and one.at_s), None)
        since_s = marks[begun].at_s
        if group is not None and group.at_s is not None and since_s is not None:
            least_s = group.at_s - since_s
            yield Span(least_s, least_s + START_S, marks[begun].line)


START_S = 300.0  # assumed at most, from a group that is there to its first step


def _last(marks: Sequence[Mark], kind: Kind) -> Mark | None:
    found = (mark for mark in reversed(marks) if mark.kind == kind and mark.at_s)
    return next(found, None)


def _line_s(marks: Sequence[Mark]) -> float:
    apart = [seconds for seconds, _, _ in (_apart(*pair[:2]) for pair in _pairs(marks))]
    return median(apart) if apart else 0.0


def outages(marks: Sequence[Mark]) -> Iterator[tuple[int, int]]:
    """Yield where each restart begins and the mark after it, by places in `marks`.

    It is one where a launcher says so, or where the job resumes at a step that is not above the
    last one, and steps are not counted in each epoch. What was cancelled by hand was no loss, and
    a first step after the last of all is of another training.
    """
    in_epochs = begins_anew(marks)
    lowest = min((mark.step or 0 for mark in marks if mark.kind == "step"), default=0)
    number, highest, is_done = 0, 0, False
    while number < len(marks):
        mark = marks[number]
        if mark.kind == "step":
            highest = mark.step or 0
            is_done = mark.total is not None and highest >= mark.total
        elif mark.kind in ("restart", "notice", "resume", "cancelled") and highest:
            until = _next_step(marks, number)
            if until is None:
                return
            kinds = {one.kind for one in marks[number:until]}
            at = marks[until].step or 0
            # No line of a new start is between: the attempt goes on, in its grace.
            goes_on = kinds <= {"notice", "save"} and at >= highest
            falls = at <= highest and not in_epochs and not (is_done and at == lowest)
            is_said = not kinds.isdisjoint(("restart", "notice"))
            if "cancelled" not in kinds and not goes_on and (is_said or falls):
                yield number, until
            number = until
            continue
        number += 1


def _next_step(marks: Sequence[Mark], number: int) -> int | None:
    return next((n for n in range(number, len(marks)) if marks[n].kind == "step"), None)
