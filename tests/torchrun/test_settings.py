"""The environment and the words that torchrun is started with."""

from pathlib import Path
from unittest.mock import Mock

import pytest
from torch.distributed.run import get_args_parser

from chaos.launch.commands.roots import NOWHERE
from chaos.launch.torchrun.agent import _build_command
from chaos.launch.torchrun.settings import build_environment
from chaos.model.plan import Plan
from tests.torchrun.test_rendezvous import plan

ON_THE_CPU = "ACCELERATE_USE_CPU"


def env_of(plan: Plan) -> dict[str, str]:
    return build_environment(plan, NOWHERE, hash_seed="0")


def test_accelerate_is_told_of_the_cpu_unless_there_is_a_gpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(ON_THE_CPU, raising=False)
    monkeypatch.setattr(Path, "glob", lambda *_: iter(()))
    assert env_of(plan())[ON_THE_CPU] == "true"

    monkeypatch.setattr(Path, "glob", lambda *_: iter([Path("/dev/nvidia0")]))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert ON_THE_CPU not in env_of(plan())
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert env_of(plan())[ON_THE_CPU] == "true"


def test_what_the_user_says_of_it_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ON_THE_CPU, "no")

    assert env_of(plan())[ON_THE_CPU] == "no"


@pytest.mark.parametrize("option", ["logs", "log", "node", "rdzv", "help", "max"])
def test_no_option_of_the_script_is_taken_for_torchruns(option: str, tmp_path: Path) -> None:
    asked = plan()
    job = asked.job.model_copy(update={"args": (f"--{option}", "here")})
    words = _build_command(asked.model_copy(update={"job": job}), "node-0", Mock(), tmp_path)

    read = get_args_parser().parse_args(words)
    assert read.training_script_args == [asked.job.source, f"--{option}", "here"]
    assert read.max_restarts == 2
