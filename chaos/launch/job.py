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
from chaos.launch.environment import this_start
from chaos.model.arguments import command_line
from chaos.model.plan import Plan

V2_ENV = "RAY_TRAIN_V2_ENABLED"
_PATHS = sysconfig.get_paths()
_INSTALLED = (_PATHS["stdlib"], _PATHS["purelib"], str(Path(__file__).parents[1]), "<")


def run_job(plan: Plan) -> None:
    """Run the plan's job up to its end; raises whatever the job raises."""
    if os.environ.get(V2_ENV, "1").lower() in ("0", "false"):
        raise refused_v1(f", by {V2_ENV}={os.environ[V2_ENV]} in the environment")
    if plan.job.script is not None:
        _run_script(plan.job.script, words_of(plan))
    else:
        _run_train_loop(plan)


def words_of(plan: Plan) -> list[str]:
    """Return the script's arguments at this start of it, of which its driver knows the number."""
    return command_line(plan.job.args_at(this_start()))


def is_clean_exit(error: BaseException) -> bool:
    """Return whether an error is a normal exit of the script."""
    return isinstance(error, SystemExit) and error.code in (None, 0)


def _run_script(script: str, words: Sequence[str]) -> None:
    sys.argv = [script, *words]
    sys.path.insert(0, str(Path(script).parent))
    runpy.run_path(script, run_name="__main__")


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


def refused_v1(how: str) -> RefusalError:
    """Return the error for a script of Ray Train V1; `how` is the evidence that it is one."""
    return RefusalError(
        f"the script is written for Ray Train V1{how}; chaos tests Ray Train V2",
        "V2 has no `Trainer.restore`: a run that is started again under its name and storage path "
        "goes on by itself. See Ray's migration guide.",
    )


def line_of_script(frames: Sequence[FrameType] | None = None) -> str:
    """Return `, train.py:12` for the innermost frame of the job's own code; empty if none is.

    `frames` are from the outermost to the innermost; by default, those of the caller.
    """
    if frames is None:
        frames = [frame for frame, _ in traceback.walk_stack(None)][::-1]
    for frame in reversed(frames):
        file = frame.f_code.co_filename
        if not file.startswith(_INSTALLED):
            near = file.removeprefix(str(Path.cwd()) + os.sep)
            return f", {near}:{frame.f_lineno}"
    return ""
