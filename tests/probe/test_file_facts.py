"""What is known of a file that a job saves."""

import torch

from chaos.model.event import (
    FileSaved,
)
from tests.probe.saving_rank import New
from tests.probe.saving_rank import new as new  # noqa: PLC0414 - a fixture


def test_a_saved_file_tells_what_it_counts(new: New) -> None:
    rank = new()
    torch.save({"epoch": 3, "model": {"w": torch.zeros(2)}, "lr": 0.1}, rank.path)
    torch.save(obj=7, f=rank.path)

    assert [saved.counts for saved in rank.of(FileSaved)] == [{"epoch": 3}, {}]
