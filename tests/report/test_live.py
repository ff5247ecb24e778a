"""The display of a run that goes on, on a console that records."""

import io
import time
from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from rich.console import Console

from chaos.model.event import Committed, FaultInvoked, FitRaised, ScriptRaised
from chaos.model.history import History, JournalEntry
from chaos.report import live
from chaos.report.live import Display, LiveLine, Progress, advance_all, build_panel
from chaos.report.outcome import FinishedRun
from chaos.report.screen import build_console


@dataclass
class StillClock:
    """A clock that a test moves."""

    now: int = 0

    def now_ns(self) -> int:
        return self.now

    def wall_ns(self) -> int:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)


def shown(history: History, *, is_terminal: bool) -> str:
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=is_terminal, color_system="truecolor")
    extent = {"total_epochs": 4, "steps_per_epoch": 23}
    with Display(console, StillClock(), title="killed [1]", **extent) as display:
        for start in range(0, len(history), 40):
            display.show_events(history[start : start + 40])
    return out.getvalue()


def test_without_a_terminal_there_is_one_plain_line_per_notable_event(
    valid_run: FinishedRun,
) -> None:
    text = shown(valid_run.history, is_terminal=False)
    lines = text.splitlines()

    assert "\x1b" not in text
    assert lines[0] == "killed [1]"
    assert len(lines) == 9
    assert any("injected into rank 1 (pid 201" in line for line in lines)
    assert any("op 0: ok: pid 201 of rank 1 is gone" in line for line in lines)
    assert sum("attempt 1 started" in line for line in lines) == 1
    assert lines[-1].startswith("   13.2 s  fit() returned")


def committed(epochs: Iterable[int], *, attempt: int = 0, every_s: float = 1.0) -> History:
    commits = (
        Committed(attempt=attempt, epoch=epoch, checkpoint=f"at_{epoch}", metrics=())
        for epoch in epochs
    )
    return History(
        [
            JournalEntry(time_ns=int(n * every_s * 1e9), source="controller-1", seq=n, event=commit)
            for n, commit in enumerate(commits)
        ]
    )


def test_without_a_terminal_the_commits_of_an_attempt_are_one_line() -> None:
    attempts = [*committed(range(1, 40)), *committed([30], attempt=1)]

    assert shown(History(attempts), is_terminal=False).splitlines() == [
        "killed [1]",
        "   38.0 s  epochs 1 to 39 committed by attempt 0, with checkpoint at_39",
        "   38.0 s  epoch 30 committed by attempt 1, with checkpoint at_30",
    ]


def test_commits_are_not_kept_back_for_minutes() -> None:
    slow = committed(range(6), every_s=40)

    assert shown(slow, is_terminal=False).splitlines()[1:] == [
        "   80.0 s  epochs 0 to 2 committed by attempt 0, with checkpoint at_2",
        "  160.0 s  epochs 3 to 4 committed by attempt 0, with checkpoint at_4",
        "  200.0 s  epoch 5 committed by attempt 0, with checkpoint at_5",
    ]


def test_the_time_in_a_panel_goes_on_while_nothing_happens(valid_run: FinishedRun) -> None:
    clock, console = StillClock(), Console(width=80)
    display = Display(console, clock, title="t")

    def seconds() -> str:
        with console.capture() as captured:
            console.print(display)
        return captured.get().split()[1]

    clock.sleep(7)
    assert seconds() == "7.0"
    display.show_events(valid_run.history[:5])
    begun_ns = valid_run.history[0].time_ns
    clock.now = begun_ns + 90_000_000_000
    assert seconds() == "90.0"
    display.show_events(valid_run.history[5:])
    assert seconds() == "13.4"


def test_in_a_terminal_the_panel_shows_place_and_faults(valid_run: FinishedRun) -> None:
    text = shown(valid_run.history, is_terminal=True)

    assert "epoch 3/3 · step 23/23" in text
    assert "✓ ok" in text
    assert "4 commits" in text


def text_of(progress: Progress, *, epochs: int | None, steps: int | None) -> str:
    console = Console(width=80)
    with console.capture() as captured:
        console.print(build_panel(progress, title="t", total_epochs=epochs, steps_per_epoch=steps))
    return captured.get()


def test_a_fault_under_way_is_shown_as_such(valid_run: FinishedRun) -> None:
    (number,) = [number for number, _ in valid_run.history.select_events(FaultInvoked)]
    progress = advance_all(Progress(), valid_run.history[: number + 1])

    assert "kill_worker (SIGKILL) on rank 1  … under way" in text_of(progress, epochs=4, steps=23)


def test_without_a_baseline_the_place_has_no_bar(valid_run: FinishedRun) -> None:
    progress = advance_all(Progress(), valid_run.history)

    assert "━" in text_of(progress, epochs=4, steps=23)
    assert "━" not in text_of(progress, epochs=None, steps=None)
    assert "epoch 3 · step 23" in text_of(progress, epochs=None, steps=None)


def test_in_a_log_a_line_is_written_again_while_nothing_else_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "SILENCE_S", 0.01)
    file = io.StringIO()

    with LiveLine(build_console(file=file), is_ticking=True) as line:
        line.show_line("clean run 1 of 2", stage="clean run", share=0.0)
        for _ in range(1000):
            if file.getvalue().count("clean run 1 of 2") > 2:
                break
            time.sleep(0.01)
        line.show_line("faults", stage="faults", share=0.0)

    lines = file.getvalue().splitlines()
    assert lines.count("clean run 1 of 2") > 2
    assert lines[-1] == "faults"


def test_a_display_that_is_shown_nothing_says_that_nothing_began() -> None:
    assert "no attempt yet" in text_of(Progress(), epochs=4, steps=23)
    assert shown(History([]), is_terminal=False) == "killed [1]\n"


@pytest.mark.parametrize("kind", [FitRaised, ScriptRaised])
def test_of_a_long_error_the_line_that_says_most_is_shown(
    kind: type[FitRaised | ScriptRaised],
) -> None:
    """A job's whole traceback in one line hides what went wrong, and looks like one of chaos's."""
    message = "Training failed:\nTraceback (most recent call last):\n  File x\nOSError: no memory\n"
    event = kind(error="WorkerGroupError", message=message)

    assert event.sentence.endswith("WorkerGroupError: OSError: no memory")
