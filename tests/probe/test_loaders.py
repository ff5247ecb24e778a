"""The processes of data loaders are counted as loaders begin and end."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest
from torch.utils.data import DataLoader
from torch.utils.data._utils import signal_handling

from chaos.errors import LoaderLostError
from chaos.probe.loaders import postpone_loader_loss, watch_loaders
from tests.probe.scripted import Scripted


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    for name in ("_set_worker_pids", "_remove_worker_pids"):
        monkeypatch.setattr(signal_handling, name, getattr(signal_handling, name))
    seen: list[int] = []
    watch_loaders(Scripted(loaders_counted=seen.append))
    return seen


def test_a_loader_with_processes_is_counted_from_its_first_batch_to_its_last(
    counts: list[int],
) -> None:
    batches = list(DataLoader(range(8), batch_size=2, num_workers=2))

    assert len(batches) == 4
    assert counts == [2, 0]


def test_a_loader_without_processes_is_not(counts: list[int]) -> None:
    list(DataLoader(range(8), batch_size=2))

    assert counts == []


def lost(number: int, frame: object) -> None:
    raise RuntimeError("DataLoader worker (pid 1) is killed by signal: Killed.")


@pytest.fixture
def handler() -> Iterator[None]:
    before = signal.signal(signal.SIGCHLD, lost)
    yield
    signal.signal(signal.SIGCHLD, before)


def test_a_loss_while_a_rank_is_held_is_raised_to_the_job_as_it_goes_on(handler: None) -> None:
    done = []

    def hold() -> None:
        with postpone_loader_loss():
            os.kill(os.getpid(), signal.SIGCHLD)
            done.append("held to its end")

    with pytest.raises(LoaderLostError, match="killed by signal"):
        hold()
    assert done
    assert signal.getsignal(signal.SIGCHLD) is lost


def test_without_a_loss_nothing_is_raised(handler: None) -> None:
    with postpone_loader_loss():
        pass

    assert signal.getsignal(signal.SIGCHLD) is lost


def test_a_thread_that_no_signal_reaches_changes_no_handler(handler: None) -> None:
    seen = []

    def hold() -> None:
        with postpone_loader_loss():
            seen.append(signal.getsignal(signal.SIGCHLD))

    held = threading.Thread(target=hold)
    held.start()
    held.join()

    assert seen == [lost]
