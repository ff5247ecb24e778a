"""What the note on evicted pods says is in the histories that are kept with it."""

from tests.recorded.evictions import NOTE, table


def test_the_note_has_the_table_of_the_recorded_evictions() -> None:
    assert table() in NOTE.read_text(encoding="utf-8")


def test_an_announced_node_that_goes_before_its_deadline_is_always_a_failure() -> None:
    rows = [row for row in table().splitlines() if "terminated unexpectedly" in row]

    assert len(rows) >= 2
    assert all("`max_failures`" in row for row in rows)


def test_a_hook_that_drains_before_sigterm_is_always_a_preemption() -> None:
    rows = [row for row in table().splitlines() if "hook" in row]

    assert len(rows) >= 2
    assert all("`max_preemption_failures`" in row for row in rows)
