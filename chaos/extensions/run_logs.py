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

LOG_BYTES = 256 << 20  # more of a file is not read
DAY_S = 86_400.0
BAR_S = 5  # a rate of fewer seconds says little
SHORT_S = 1.0  # the times of many logs are whole seconds
Kind: TypeAlias = Literal["step", "save", "restart", "notice", "group", "resume", "cancelled"]


class LogMark(NamedTuple):
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


class LogSpan(NamedTuple):
    """Seconds between two ends, which are one where it is known, and the line that shows it."""

    low: float
    high: float
    line: int


@dataclass(frozen=True)
class LoggedCosts:
    """The costs that a log shows; None for what is not in it."""

    step_s: LogSpan | None = None
    save_s: LogSpan | None = None
    restart_s: LogSpan | None = None
    steps: int | None = None
    save_interval: int | None = None
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


def _parse_time_s(text: str) -> float | None:
    """Return the time of a line in seconds, on a clock of its own form; None without one."""
    head = text[:_HEAD]
    if (match := _YEAR_FIRST.search(head)) is not None:
        return _moment_s(*match.groups())
    if (match := _MONTH_FIRST.search(head)) is not None:
        month, day, year, *clock = match.groups()
        return _moment_s(year, month, day, *clock)
    if (match := _GLOG.search(head)) is not None:
        return _moment_s("2000", *match.groups())
    if (match := _CLOCK.search(head)) is not None:
        return _moment_s("2000", "01", "01", *match.groups())
    return None


def _moment_s(*parts: str | None) -> float | None:
    year, month, day, hour, minute, second, fraction = (*parts, None)[:7]
    written = f"{year}-{month}-{day}T{hour}:{minute}:{second}"
    try:
        elapsed = datetime.fromisoformat(written) - datetime.fromisoformat("2000-01-01")
    except ValueError:
        return None
    return elapsed / timedelta(seconds=1) + float(f"0.{fraction or 0}")


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
_OTHER_LOOPS = re.compile(
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
_EVENT_PATTERNS: tuple[tuple[Kind, re.Pattern[str]], ...] = (
    ("group", _GROUP),
    ("restart", _RESTART),
    ("notice", _NOTICE),
    ("cancelled", _CANCELLED),
    ("save", _SAVE),
    ("resume", _RESUME),
)


def parse_marks(text: str) -> Iterator[LogMark]:
    """Yield what the lines of a log say, in order; a bar writes over its own line."""
    last_s, days = 0.0, 0
    for number, line in enumerate(text.split("\n"), 1):
        for part in _ESCAPES.sub("", line).split("\r"):
            at_s = _parse_time_s(part)
            if at_s is not None:
                # A clock without a date begins anew at midnight.
                days += at_s < DAY_S and last_s - (at_s + days * DAY_S) > DAY_S / 2
                at_s += days * DAY_S if at_s < DAY_S else 0
                last_s = at_s
            bar = _BAR.search(part)
            if bar is not None:
                marks = _parse_bar(number, at_s, bar), _parse_event(number, at_s, part[bar.end() :])
            else:
                event_mark = _parse_event(number, at_s, part)
                marks = event_mark, None if event_mark else _parse_step(number, at_s, part)
            yield from (mark for mark in marks if mark is not None)


def _parse_event(line: int, at_s: float | None, text: str) -> LogMark | None:
    for kind, pattern in _EVENT_PATTERNS:
        if pattern.search(text):
            step_match = _STEP.search(text) if kind == "save" else None
            return LogMark(line, at_s, kind, _parse_number(step_match[1]) if step_match else None)
    return None


def _parse_epoch(text: str) -> int | None:
    match = _EPOCH.search(text)
    return int(match[1]) if match is not None else None


def _parse_number(number: str) -> int:
    return int(number.replace(",", ""))


def _parse_step(line: int, at_s: float | None, text: str) -> LogMark | None:
    if (match := EXAMPLE.search(text)) is not None:
        epoch, step, steps = (int(match[n]) for n in (1, 2, 3))
        done = epoch * steps + step + (match[5] is not None)
        return LogMark(line, at_s, "step", done, None, float(match[4] or match[5]), epoch=epoch)
    if (match := _STEP.search(text)) is None or _NO_STEP.search(text[: match.end()]):
        return None
    step_number, total = _parse_number(match[1]), _parse_number(match[2]) if match[2] else None
    if total is not None and step_number > total:
        return None
    rate = _ELAPSED.search(text)
    rate_s = float(rate[1]) / 1e3 if rate else None
    return LogMark(line, at_s, "step", step_number, total, rate_s, epoch=_parse_epoch(text))


def _parse_bar(line: int, at_s: float | None, match: re.Match[str]) -> LogMark | None:
    """Return the step of a bar, unless it is of another loop than training."""
    name = re.sub(r"\d+%.*", "", match.string[: match.start()]).strip(" :|")
    if _OTHER_LOOPS.search(name):
        return None
    step, total = int(match[1]), int(match[2])
    hours, minutes, seconds = (int(match[n] or 0) for n in (3, 4, 5))
    passed_s = float(3600 * hours + 60 * minutes + seconds)
    epoch = _parse_epoch(match.string)
    return LogMark(line, at_s, "step", step, total, None, (name, total), passed_s, epoch)


# -- figures -----------------------------------------------------------------------------------


def parse_costs(text: str) -> LoggedCosts:
    """Return the costs that a log shows."""
    marks = select_training_marks([*parse_marks(text)])
    steps = [mark for mark in marks if mark.kind == "step"]
    totals = {mark.total for mark in steps if mark.total}
    step_s = _measure_step_s(marks)
    restarts, in_epochs = [*_measure_restarts(marks)], counts_by_epoch(marks)
    return LoggedCosts(
        step_s=step_s,
        save_s=_measure_save_s(marks, step_s),
        restart_s=_join_spans(restarts),
        steps=totals.pop() if len(totals) == 1 and not in_epochs else None,
        save_interval=None if in_epochs else _find_save_interval(marks),
        restarts=len(restarts),
        launcher=_detect_launcher(text),
    )


def _detect_launcher(text: str) -> Launcher | None:
    if _TORCHRUN.search(text):
        return "torchrun"
    return "ray" if _RAY.search(text) else None


def counts_by_epoch(marks: Sequence[LogMark]) -> bool:
    """Return whether steps are counted in each epoch: they begin anew without a restart."""
    previous_step: LogMark | None = None
    for mark in marks:
        if mark.kind in ("restart", "notice", "group", "resume", "cancelled"):
            previous_step = None
        elif mark.kind == "step":
            is_named = mark.bar is not None and "epoch" in mark.bar[0].lower()
            if is_named or (
                previous_step is not None and (mark.step or 0) < (previous_step.step or 0)
            ):
                return True
            previous_step = mark
    return False


def _join_spans(spans: Sequence[LogSpan]) -> LogSpan | None:
    if not spans:
        return None
    low, high = min(span.low for span in spans), max(span.high for span in spans)
    return LogSpan(low, high, spans[0].line)


def _pair_steps(marks: Sequence[LogMark]) -> Iterator[tuple[LogMark, LogMark, bool]]:
    """Yield neighbouring steps that go on from each other, and whether a save is between them."""
    previous_step, is_saved = None, False
    for mark in marks:
        if mark.kind in ("restart", "notice", "group", "resume"):
            previous_step, is_saved = None, False
        elif mark.kind == "save":
            is_saved = True
        elif mark.at_s is not None and mark.step is not None:
            if previous_step is not None and mark.step == previous_step.step:
                continue  # of another rank
            if previous_step is not None and mark.step > (previous_step.step or 0):
                yield previous_step, mark, is_saved
            previous_step, is_saved = mark, False


def select_training_marks(marks: Sequence[LogMark]) -> list[LogMark]:
    """Return the marks without the steps of shorter loops beside the training's."""
    longest_total = max(
        (mark.total for mark in marks if mark.kind == "step" and mark.total), default=None
    )
    return [mark for mark in marks if mark.kind != "step" or mark.total in (None, longest_total)]


def _measure_step_s(marks: Sequence[LogMark]) -> LogSpan | None:
    """Return the seconds of a step: as lines say it, or by their times; of each attempt."""
    rates = [
        rate for attempt in _split_attempts(marks) if (rate := _measure_rate(attempt)) is not None
    ]
    if not rates:
        return None
    return LogSpan(min(rates)[0], max(rates)[0], max(rates)[1])


def _measure_rate(attempt: Sequence[LogMark]) -> tuple[float, int] | None:
    """Return the seconds of a step in an attempt, and the last line that shows it."""
    rated_steps = [mark for mark in attempt if mark.kind == "step" and mark.rate_s]
    if rated_steps:  # the later half: a first step is slow, and in some means
        rates = [mark.rate_s for mark in rated_steps[len(rated_steps) // 2 :] if mark.rate_s]
        return median(rates), rated_steps[-1].line
    bars = [mark for mark in attempt if mark.bar is not None]
    bar_distances = [_compare_bars(*pair) for pair in pairwise(bars) if pair[0].bar == pair[1].bar]
    rates = [
        passed_s / count for passed_s, count in bar_distances if count > 0 and passed_s >= BAR_S
    ]
    if rates:
        return median(rates), bars[-1].line
    pairs = [*_pair_steps(attempt)]
    timed = [_compare_marks(*pair[:2]) for pair in pairs if not pair[2]] or [
        _compare_marks(*p[:2]) for p in pairs
    ]
    rates = [seconds / count for seconds, count, _ in timed if count and seconds > 0]
    return (median(rates), timed[-1][2]) if rates else None


def _compare_bars(first_mark: LogMark, second_mark: LogMark) -> tuple[float, int]:
    return second_mark.passed_s - first_mark.passed_s, (second_mark.step or 0) - (
        first_mark.step or 0
    )


def _split_attempts(marks: Sequence[LogMark]) -> Iterator[Sequence[LogMark]]:
    start_index = 0
    for number, mark in enumerate(marks):
        if mark.kind in ("restart", "notice", "group", "cancelled"):
            yield marks[start_index:number]
            start_index = number
    yield marks[start_index:]


def _compare_marks(first_mark: LogMark, second_mark: LogMark) -> tuple[float, int, int]:
    return (
        (second_mark.at_s or 0) - (first_mark.at_s or 0),
        (second_mark.step or 0) - (first_mark.step or 0),
        second_mark.line,
    )


def _measure_save_s(marks: Sequence[LogMark], step_s: LogSpan | None) -> LogSpan | None:
    """Return the seconds by which the time between two steps is longer with a save in it."""
    if step_s is None:
        return None
    pairs = [*_pair_steps(marks)]
    save_distances = [_compare_marks(*pair[:2]) for pair in pairs if pair[2]]
    if not save_distances or len(save_distances) == len(
        pairs
    ):  # without a pair between saves, none is longer
        return None
    longer = [max(0.0, seconds - count * step_s.low) for seconds, count, _ in save_distances]
    if median(longer) < SHORT_S:  # less than lines tell
        return LogSpan(0.0, max(SHORT_S, *longer), save_distances[0][2])
    return LogSpan(median(longer), max(longer), save_distances[0][2])


def _find_save_interval(marks: Sequence[LogMark]) -> int | None:
    """Return the steps between two saves, by the last step before each."""
    saved_steps, step = list[int](), None
    for mark in marks:
        if mark.kind == "step":
            step = mark.step
        elif (
            mark.kind == "save" and step is not None and (not saved_steps or step > saved_steps[-1])
        ):
            saved_steps.append(step)
    step_gaps = [b - a for a, b in pairwise(saved_steps)]
    return round(median(step_gaps)) if step_gaps else None


def _measure_restarts(marks: Sequence[LogMark]) -> Iterator[LogSpan]:
    """Yield what each restart took: from the last step before it to the first one after it.

    The loss came up to one line's distance after the last step, and the first line after it is as
    far behind the first step. Without times of steps it is what passed until the group was there,
    at least.
    """
    for loss_index, next_index in find_outages(marks):
        last_step = _find_last(marks[:loss_index], "step")
        next_step = next(
            (mark for mark in marks[next_index:] if mark.kind == "step" and mark.at_s), None
        )
        if last_step is not None and next_step is not None and last_step.at_s and next_step.at_s:
            passed_s, spare_s = next_step.at_s - last_step.at_s, 2 * _measure_line_s(marks)
            yield LogSpan(max(0.0, passed_s - spare_s), passed_s, marks[loss_index].line)
            continue
        group = next(
            (
                later_mark
                for later_mark in marks[loss_index:]
                if later_mark.kind == "group" and later_mark.at_s
            ),
            None,
        )
        since_s = marks[loss_index].at_s
        if group is not None and group.at_s is not None and since_s is not None:
            min_s = group.at_s - since_s
            yield LogSpan(min_s, min_s + START_S, marks[loss_index].line)


START_S = 300.0  # assumed at most, from a group that is there to its first step


def _find_last(marks: Sequence[LogMark], kind: Kind) -> LogMark | None:
    matches = (mark for mark in reversed(marks) if mark.kind == kind and mark.at_s)
    return next(matches, None)


def _measure_line_s(marks: Sequence[LogMark]) -> float:
    distances_s = [
        seconds for seconds, _, _ in (_compare_marks(*pair[:2]) for pair in _pair_steps(marks))
    ]
    return median(distances_s) if distances_s else 0.0


def find_outages(marks: Sequence[LogMark]) -> Iterator[tuple[int, int]]:
    """Yield where each restart begins and the mark after it, by places in `marks`.

    It is one where a launcher says so, or where the job resumes at a step that is not above the
    last one, and steps are not counted in each epoch. What was cancelled by hand was no loss, and
    a first step after the last of all is of another training.
    """
    in_epochs = counts_by_epoch(marks)
    lowest = min((mark.step or 0 for mark in marks if mark.kind == "step"), default=0)
    number, highest, is_done = 0, 0, False
    while number < len(marks):
        mark = marks[number]
        if mark.kind == "step":
            highest = mark.step or 0
            is_done = mark.total is not None and highest >= mark.total
        elif mark.kind in ("restart", "notice", "resume", "cancelled") and highest:
            next_index = _next_step(marks, number)
            if next_index is None:
                return
            kinds = {outage_mark.kind for outage_mark in marks[number:next_index]}
            next_number = marks[next_index].step or 0
            # No line of a new start is between: the attempt goes on, in its grace.
            goes_on = kinds <= {"notice", "save"} and next_number >= highest
            falls = (
                next_number <= highest and not in_epochs and not (is_done and next_number == lowest)
            )
            is_said = not kinds.isdisjoint(("restart", "notice"))
            if "cancelled" not in kinds and not goes_on and (is_said or falls):
                yield number, next_index
            number = next_index
            continue
        number += 1


def _next_step(marks: Sequence[LogMark], number: int) -> int | None:
    return next((n for n in range(number, len(marks)) if marks[n].kind == "step"), None)
