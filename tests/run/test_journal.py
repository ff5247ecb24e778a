"""What was written before a crash can be read after it, line by line."""

import json
import re
import resource
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chaos.errors import HistoryError
from chaos.model.event import RunStarted, StepDone
from chaos.run.clock import SystemClock
from chaos.run.journal import Journal, JournalTail, load_history, read_history, write_history


def step(number: int) -> StepDone:
    return StepDone(attempt=0, rank=0, epoch=0, step=number, losses=(0.1 * number,))


def journal_in(folder: Path, source: str = "worker-1", steps: int = 3) -> Journal:
    journal = Journal(folder, source, role="worker", clock=SystemClock())
    for number in range(1, steps + 1):
        journal.add(step(number))
    return journal


def test_a_torn_last_line_is_left_out_and_its_journal_named(tmp_path: Path) -> None:
    path = journal_in(tmp_path).path
    path.write_bytes(path.read_bytes() + b'{"time_ns": 12, "sou')

    history = read_history(tmp_path)

    assert history.torn == ("worker-1",)
    assert [event.step for _, event in history.select_events(StepDone)] == [1, 2, 3]


def test_a_damaged_line_names_its_file_and_number(tmp_path: Path) -> None:
    path = journal_in(tmp_path).path
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b"not json\n", *lines[2:]]))

    with pytest.raises(HistoryError, match=r"worker-1\.jsonl:3: the line is not as it was written"):
        read_history(tmp_path)


@pytest.mark.parametrize("place", [1, 60, -2])
def test_a_byte_that_is_no_utf8_names_its_line(tmp_path: Path, place: int) -> None:
    journal_in(tmp_path)
    write_history(tmp_path / "history.jsonl", read_history(tmp_path))
    text = bytearray((tmp_path / "history.jsonl").read_bytes())
    text[place] = 0xFF
    (tmp_path / "history.jsonl").write_bytes(text)

    with pytest.raises(HistoryError, match=r"history\.jsonl:\d: the line is not as it was"):
        load_history(tmp_path / "history.jsonl")


def test_brackets_without_end_name_their_line(tmp_path: Path) -> None:
    called = {"event": "FitReturned", "checkpoint": None, "metrics": {"a": 1}}
    line = json.dumps({"time_ns": 1, "source": "driver", "seq": 0, "what": called})
    deep = line.replace('{"a": 1}', '{"a": ' * 100_000)
    (tmp_path / "history.jsonl").write_text(f"{line}\n{deep}\n")

    with pytest.raises(HistoryError, match=r"history\.jsonl:2: not an event"):
        load_history(tmp_path / "history.jsonl")


def test_a_journal_names_the_run_whose_plan_lies_beside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "journals").mkdir()
    (tmp_path / "plan.json").write_text('{"version": 1, "token": "1a2b"}')
    journal_in(tmp_path / "journals", "a")
    (tmp_path / "plan.json").unlink()
    journal_in(tmp_path / "journals", "b")

    assert read_history(tmp_path / "journals").tokens == {"1a2b": {"a"}}


def test_a_line_that_a_full_disk_cuts_short_is_taken_back(tmp_path: Path) -> None:
    journal = journal_in(tmp_path, steps=1)
    size = journal.path.stat().st_size
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size + 10, hard))
        with pytest.raises(OSError, match="No space left"):
            journal.add(step(2))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
        signal.signal(signal.SIGXFSZ, before)
    journal.add(step(3))

    history = read_history(tmp_path)
    assert [event.step for _, event in history.select_events(StepDone)] == [1, 3]
    assert history.missing_lines == {}


def test_a_missing_history_says_what_to_give(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="Is this the directory of a run"):
        load_history(tmp_path / "history.jsonl")


def test_a_tail_gives_each_event_once_and_no_half_line(tmp_path: Path) -> None:
    tail = JournalTail(tmp_path)
    journal = journal_in(tmp_path, steps=1)
    assert len(tail.fetch_entries()) == 2
    assert tail.fetch_entries() == []
    assert tail.lines == {"worker-1": 2}

    journal.add(RunStarted(scenario="s", seed=0, backend="ray"))
    with journal.path.open("ab") as file:
        file.write(b'{"half')

    assert [type(e.event).__name__ for e in tail.fetch_entries()] == ["RunStarted"]


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_loss_keeps_every_bit(tmp_path_factory: pytest.TempPathFactory, value: float) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal = Journal(folder, "worker-1", role="worker", clock=SystemClock())
    journal.add(StepDone(attempt=0, rank=0, epoch=0, step=1, losses=(value,)))
    journal.close()

    _, event = next(read_history(folder).select_events(StepDone))

    assert event.losses is not None
    assert isinstance(event.losses[0], float)
    assert event.losses[0].hex() == value.hex()


def test_a_damaged_first_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "history.jsonl").write_bytes(b'{"torn": [1\n')

    with pytest.raises(HistoryError, match=r"history\.jsonl:1"):
        load_history(tmp_path / "history.jsonl")


@given(st.data())
def test_no_bit_of_a_history_changes_unnoticed(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("journal")
    journal_in(folder)
    path = folder / "history"
    write_history(path, read_history(folder))
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 2))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)

    with pytest.raises(HistoryError, match="history:"):
        load_history(path)


def test_a_history_without_sums_is_taken_as_it_is(tmp_path: Path) -> None:
    journal_in(tmp_path)
    (tmp_path / "worker-1.jsonl").write_bytes(
        re.sub(rb'"sum":"\w+",', b"", (tmp_path / "worker-1.jsonl").read_bytes())
    )

    assert len(read_history(tmp_path)) == 4
