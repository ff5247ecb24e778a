"""A process group lasts as long as its worker, which cannot hang in freeing it."""

import subprocess
import sys

import pytest

JOINS = """
import gc, os
from pathlib import Path
import torch.distributed as dist
from chaos.backends.torchrun.worker import keep_groups
if {keep}:
    keep_groups()
dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.destroy_process_group()
gc.collect()
names = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
print("pt_gloo_runloop" in names)
"""


@pytest.mark.parametrize("keep", [True, False])
def test_the_threads_of_a_destroyed_group_are_joined_by_nobody(*, keep: bool) -> None:
    program = JOINS.format(keep=keep)

    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, timeout=60
    )

    assert done.stdout.split() == [str(keep)]
