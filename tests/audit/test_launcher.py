"""The launcher of a script is found out by its text."""

from pathlib import Path

import pytest

from chaos.audit.launcher import launcher_of

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("source", "launcher"),
    [
        ("import torch.distributed as dist\ndist.init_process_group('gloo')\n", "torchrun"),
        ("from torch.distributed import init_process_group\ninit_process_group()\n", "torchrun"),
        ("import ray.train\nimport torch\ntorch.distributed.init_process_group()\n", "ray"),
        ("from ray.train.torch import TorchTrainer\nTorchTrainer(f).fit()\n", "ray"),
        ("from .ray import x\nx.init_process_group()\n", "torchrun"),
        ("print('init_process_group')\n", "ray"),
        ("def broken(:\n", "ray"),
    ],
)
def test_a_script_without_ray_that_joins_a_group_is_torchruns(source: str, launcher: str) -> None:
    assert launcher_of(source) == launcher


@pytest.mark.parametrize("job", sorted(ROOT.glob("tests/torchrun/jobs/*.py")), ids=lambda p: p.stem)
def test_the_jobs_of_the_tests_are_recognized(job: Path) -> None:
    text = job.read_text(encoding="utf-8")

    assert launcher_of(text) == "torchrun"
    assert "chaos" not in text
