"""The plain value of a string is its digest, and nothing large is read."""

import torch

from chaos.probe.state.census import Census
from chaos.probe.state.plain_values import ELEMENTS_MAX
from chaos.run.clock import SystemClock


def test_no_text_of_a_string_is_kept_and_nothing_large_is_read() -> None:
    census = Census(SystemClock().now_ns)
    large = torch.zeros(ELEMENTS_MAX + 1)
    census.add_values({"key": "secret", "large": large, "many": [0] * ELEMENTS_MAX}.items())

    assert [(held.path, held.text) for held in census.entries] == [("key", "")]
    assert census.omitted_paths == ["large", "many"]
