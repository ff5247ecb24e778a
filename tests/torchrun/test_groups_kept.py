"""A process group lasts as long as its worker, which cannot hang in freeing it."""

import subprocess
import sys

JOINS = """
import gc
from pathlib import Path
import torch.distributed as dist
from chaos.launch.commands.worker import patch_group_creation

def has_thread_of_a_destroyed_group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    dist.destroy_process_group()
    gc.collect()
    names = [file.read_text().strip() for file in Path("/proc/self/task").glob("*/comm")]
    return "pt_gloo_runloop" in names

print(has_thread_of_a_destroyed_group())
patch_group_creation(lambda: None)
print(has_thread_of_a_destroyed_group())
"""


def test_the_threads_of_a_destroyed_group_are_joined_by_nobody_once_it_is_kept() -> None:
    done = subprocess.run(
        [sys.executable, "-c", JOINS], check=True, capture_output=True, text=True, timeout=60
    )

    assert done.stdout.split() == ["False", "True"]
