"""A history is in order of time, and the same after writing and loading."""

from pathlib import Path

from chaos.model.event import StepDone
from chaos.model.history import History
from chaos.run.clock import SystemClock
from chaos.run.journal import Journal, load_history, read_history, write_history


def step(number: int) -> StepDone:
    return StepDone(attempt=0, rank=0, epoch=0, step=number, losses=(0.1 * number,))


def journal_in(folder: Path, source: str = "worker-1", steps: int = 3) -> Journal:
    journal = Journal(folder, source, role="worker", clock=SystemClock())
    for number in range(1, steps + 1):
        journal.add(step(number))
    return journal


def test_a_history_is_the_same_after_writing_and_loading(tmp_path: Path) -> None:
    journal_in(tmp_path, "worker-1")
    journal_in(tmp_path, "worker-2")
    merged = read_history(tmp_path)
    torn = History(merged.entries, torn=("worker-2",))

    write_history(tmp_path / "history.jsonl.out", torn)
    again = load_history(tmp_path / "history.jsonl.out")

    assert again.entries == merged.entries
    assert again.torn == ("worker-2",)


def test_merged_journals_are_in_order_of_time(tmp_path: Path) -> None:
    first, second = journal_in(tmp_path, "a", 0), journal_in(tmp_path, "b", 0)
    for number in range(1, 6):
        (first if number % 2 else second).add(step(number))

    history = read_history(tmp_path)

    assert [event.step for _, event in history.select_events(StepDone)] == [1, 2, 3, 4, 5]
