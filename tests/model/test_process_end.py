"""The end of a process is read as it was written."""

import pytest

from chaos.model.process_end import (
    ENDED_BY_FAULT,
    describe_exit_code,
    describe_signal_end,
    find_end_signal,
    is_process_end,
)


@pytest.mark.parametrize("signal", ["SIGKILL", "SIGTERM", "SIGRTMIN"])
def test_the_signal_that_ended_a_process_is_read_back(signal: str) -> None:
    error = describe_signal_end(signal)

    assert (find_end_signal(error), is_process_end(error)) == (signal, True)


def test_an_exit_code_is_an_end_by_no_signal() -> None:
    error = describe_exit_code(3)

    assert (find_end_signal(error), is_process_end(error)) == (None, True)


def test_an_end_by_a_fault_names_no_signal() -> None:
    assert find_end_signal(ENDED_BY_FAULT) is None
    assert is_process_end(ENDED_BY_FAULT)


@pytest.mark.parametrize("error", ["", "RuntimeError: ended by SIGKILL", "RuntimeError: no"])
def test_an_exception_is_no_end_of_a_process(error: str) -> None:
    assert find_end_signal(error) is None
    assert not is_process_end(error)
