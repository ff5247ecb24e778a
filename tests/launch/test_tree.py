"""Processes are found by their names below a rank."""

import multiprocessing
import os

import pytest
import torch

from chaos.faults.kill_loader import NAME
from chaos.processes.tree import find_descendant_pids


def test_loader_processes_are_found_by_the_name_that_torch_gives_them() -> None:
    loader = torch.utils.data.DataLoader(range(64), batch_size=2, num_workers=2)

    batches = iter(loader)
    next(batches), next(batches)  # one of each process: it has its name by then

    assert sorted(find_descendant_pids(os.getpid(), NAME)) == sorted(
        child.pid for child in multiprocessing.active_children() if child.pid is not None
    )
    del batches
    assert find_descendant_pids(os.getpid(), NAME) == []


def test_of_a_process_that_is_gone_nothing_is_asked() -> None:
    with pytest.raises(ProcessLookupError):
        find_descendant_pids(2**22)
