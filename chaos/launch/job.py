"""The execution of the user's script as it is, or of a train loop by a trainer made for it."""

import os
import pkgutil
import runpy
import sys
import sysconfig
import traceback
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from chaos.errors import RefusalError
from chaos.launch.environment import find_argument_start
from chaos.model.arguments import build_command_line
from chaos.model.plan import Plan

V2_ENV = "RAY_TRAIN_V2_ENABLED"
_PATHS = sysconfig.get_paths()
_INSTALLED = (_PATHS["stdlib"], _PATHS["purelib"], str(Path(__file__).parents[1]), "<")


def run_job(plan: Plan) -> None:
    """Run the plan's job up to its end; raises whatever the job raises."""
    if os.environ.get(V2_ENV, "1").lower() in ("0", "false"):
        raise build_v1_refusal(f", by {V2_ENV}={os.environ[V2_ENV]} in the environment")
    if plan.job.train_loop is not None:
        _run_train_loop(plan)
    else:
        run_script(build_script_words(plan))


def build_script_words(plan: Plan) -> list[str]:
    """Return the words that follow `python` to start a script or a module as it starts now.

    Its driver knows the number of the start, by which its arguments may differ.
    """
    return build_start_words(plan, find_argument_start())


def build_start_words(plan: Plan, start: int) -> list[str]:
    """Return these words of a start, counted from 0."""
    job = plan.job
    code = ["-m", job.module] if job.module else [job.source]
    return [*code, *build_command_line(job.build_start_args(start))]


def is_clean_exit(error: BaseException) -> bool:
    """Return whether an error is a normal exit of the script."""
    return isinstance(error, SystemExit) and error.code in (None, 0)


def run_script(words: Sequence[str]) -> None:
    """Run `train.py ARGS…` or `-m package.module ARGS…` in this process, as Python does."""
    is_module = words[0] == "-m"
    sys.argv = [*words[is_module:]]
    name = sys.argv[0]
    sys.path.insert(0, str(Path.cwd() if is_module else Path(name).absolute().parent))
    if is_module:
        runpy.run_module(name, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(name, run_name="__main__")


def _run_train_loop(plan: Plan) -> None:
    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    # Ray passes the working directory and the folder of argv[0] on to its workers (Ray 2.60).
    sys.path[:0] = [plan.cwd, str(Path(plan.file).parent)]
    sys.argv = [plan.file]
    train_loop = pkgutil.resolve_name(plan.job.source)
    if not callable(train_loop):
        kind = type(train_loop).__name__
        raise TypeError(f"{plan.job.source} is not a function but {kind}")
    assert isinstance(plan.job.args, dict)  # any other scenario was refused
    trainer = TorchTrainer(
        train_loop,
        train_loop_config=dict(plan.job.args) or None,
        scaling_config=ScalingConfig(num_workers=plan.job.num_workers),
        run_config=RunConfig(),
    )
    trainer.fit()


def build_v1_refusal(evidence: str) -> RefusalError:
    """Return the error for a script of Ray Train V1; `evidence` is the evidence that it is one."""
    return RefusalError(
        f"the script is written for Ray Train V1{evidence}; chaos tests Ray Train V2",
        "V2 has no `Trainer.restore`: a run that is started again under its name and storage path "
        "goes on by itself. See Ray's migration guide.",
    )


def describe_script_line(frames: Sequence[FrameType] | None = None) -> str:
    """Return `, train.py:12` for the innermost frame of the job's own code; empty if none is.

    `frames` are from the outermost to the innermost; by default, those of the caller.
    """
    if frames is None:
        frames = [frame for frame, _ in traceback.walk_stack(None)][::-1]
    for frame in reversed(frames):
        file = frame.f_code.co_filename
        if not file.startswith(_INSTALLED):
            relative_path = file.removeprefix(str(Path.cwd()) + os.sep)
            return f", {relative_path}:{frame.f_lineno}"
    return ""
