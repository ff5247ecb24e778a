"""Why a job cannot be tested: it does not even come through without a fault."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from chaos.errors import JobError, MissingExtraError, UnmetNeedError
from chaos.model.event import (
    DeadlinePassed,
    DriverExited,
    FailureDecided,
    FitRaised,
    ScriptRaised,
)
from chaos.model.history import History
from chaos.model.plan import Plan
from chaos.report.outcome import FinishedRun

# What our extras install, by the name that it is imported under. Any other module that is missing
# is the job's own.
EXTRAS = {
    "accelerate": "transformers",
    "lightgbm": "lightgbm",
    "lightning": "lightning",
    "pytorch_lightning": "lightning",
    "sklearn": "examples",
    "tensorflow": "tensorflow",
    "tf_keras": "tensorflow",
    "transformers": "transformers",
    "xgboost": "xgboost",
}
# Of a package that is there and lacks a part, the name has a dot: that is no missing extra.
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '(\w+)'")
# Ray 2.60's own words, where its part for a framework is imported before the framework.
_ISNT_INSTALLED = {"PyTorch Lightning": "lightning", "TensorFlow": "tensorflow"}


def why_the_job_failed(plan: Plan, run: FinishedRun, *, log: Path) -> JobError:
    """Give the error to raise, at the line of the scenario that names the job.

    A script that failed before its `fit()` on the embedded backend had no driver yet.
    """
    missing = missing_module(run.history)
    if missing is not None:
        return MissingExtraError(
            f"the job {Path(plan.job.source).name} needs {missing}, which is not installed",
            f"pip install 'ray-train-chaos[{EXTRAS[missing]}]'",
            place=_place(plan),
        )
    log = log if log.exists() else log.with_name("zygote.log")
    source = plan.job.source
    reason = _reason(run).removesuffix(".")  # what follows is a sentence of its own
    problem = f"the job {Path(source).name} fails without any fault: {reason}"
    return JobError(problem, f"Its output is in {log}", place=_place(plan))


def missing_module(history: History) -> str | None:
    """Name the module of one of our extras that a job could not import, if it was that.

    Read from what the script, or the train function in a worker, has raised.
    """
    for raised in _raised(history):
        found = _NO_MODULE.fullmatch(raised)
        if found is not None and found[1] in EXTRAS:
            return found[1]
        for framework, module in _ISNT_INSTALLED.items():
            if raised.startswith(f"ModuleNotFoundError: {framework} isn't installed."):
                return module
    return None


def _raised(history: History) -> Iterator[str]:
    for _, script in history.of(ScriptRaised):
        yield f"{script.error}: {script.message}"
    for _, decided in history.of(FailureDecided):
        yield from decided.errors.values()


def refuse_trials_elsewhere(plan: Plan) -> None:
    """Raise `JobError` where a trial is named on the backend that runs none."""
    if plan.job.trial is not None and plan.backend == "fork":
        raise JobError(
            "job.trial names a trial of Ray Tune, and the embedded backend runs no experiments",
            "Use the backend `ray`; leave job.trial out where the script calls fit() itself.",
            place=_place(plan),
        )


def refuse_unmet_needs(plan: Plan, environment: Mapping[str, str]) -> None:
    """Raise `UnmetNeedError` where the backend or a variable is not there that the job needs."""
    if plan.job.needs_backend not in (None, plan.backend):
        raise UnmetNeedError(
            f"the scenario can be shown on the backend `{plan.job.needs_backend}` alone",
            place=_place(plan),
        )
    unset = [n for n in plan.job.needs_env if not plan.job.env.get(n, environment.get(n))]
    if unset:
        raise UnmetNeedError(
            f"the job {Path(plan.job.source).name} needs {' and '.join(unset)} in the "
            "environment, and that is not set",
            place=_place(plan),
        )


def _reason(run: FinishedRun) -> str:
    for _, raised in run.history.of(ScriptRaised):
        if raised.error == "NoFit":
            return "it ended without calling trainer.fit()"
        return f"{raised.error}: {_last_line(raised.message)}"
    for _, failed in run.history.of(FitRaised):
        return f"fit() raised {failed.error}: {_last_line(failed.message)}"
    for _, late in run.history.of(DeadlinePassed):
        return f"it was still running after limits.run_s = {late.limit_s:g} s"
    for _, ended in run.history.of(DriverExited):
        if ended.code != 0:
            return f"its process ended with code {ended.code}"
    return run.verdict.headline


def _last_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no message"


def _place(plan: Plan) -> str:
    if plan.file.endswith(".py"):  # of its tests, which one named the job is not known here
        return plan.file
    return f"{plan.file}:{_line_of_job(plan)}"


def _line_of_job(plan: Plan) -> int:
    """Find the line that names the job; 1 where the file is gone."""
    try:
        lines = Path(plan.file).read_text(encoding="utf-8").splitlines()
    except OSError:
        return 1
    keys = ("script:", "train_loop:")
    named = (n for n, line in enumerate(lines, 1) if any(key in line for key in keys))
    return next(named, 1)
