"""The processes of data loaders are counted as loaders begin and end."""

import pytest
from torch.utils.data import DataLoader
from torch.utils.data._utils import signal_handling

from chaos.backends.train.loaders import watch_loaders


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    for name in ("_set_worker_pids", "_remove_worker_pids"):
        monkeypatch.setattr(signal_handling, name, getattr(signal_handling, name))
    seen: list[int] = []
    watch_loaders(seen.append)
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
