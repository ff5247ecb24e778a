"""Reasons why a job cannot be tested: it fails even without a fault."""

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from chaos.check.ending import find_ending
from chaos.check.rank_epochs import find_stepped_epochs
from chaos.check.standstill import describe_waits, find_waits
from chaos.errors import (
    FailedJobError,
    ForeignFileError,
    HarnessError,
    JobError,
    MissingExtraError,
    OtherLauncherError,
    RemoteStoreError,
    UnmetNeedError,
    parse_refusal,
)
from chaos.model.causes import find_causes
from chaos.model.event import (
    NO_FIT,
    UNCALLED,
    ChildTrained,
    CommandEnded,
    DeadlinePassed,
    Disturbed,
    FailureDecided,
    FileLoaded,
    FitCalled,
    FitRaised,
    FitReturned,
    FolderCompared,
    GroupJoined,
    ScriptRaised,
    StepDone,
    WorkerStarted,
    WroteOutside,
)
from chaos.model.events.harness import REFUSED
from chaos.model.history import Baseline, History
from chaos.model.launcher import LAUNCHER_FACTS, Launcher
from chaos.model.plan import Plan
from chaos.model.scenario import SOURCES
from chaos.plan.extent import count_epoch_steps
from chaos.report.outcome import FinishedRun
from chaos.run.machine import has_ray
from chaos.wording import plural, shorten_text, strip_colors

# The packages of our extras, by the name for their import. Any other module that is missing is the
# job's own.
EXTRAS = {
    "accelerate": "transformers",
    "lightgbm": "lightgbm",
    "lightning": "lightning",
    "pytorch_lightning": "lightning",
    "ray": "ray",
    "sklearn": "examples",
    "tensorflow": "tensorflow",
    "tf_keras": "tensorflow",
    "transformers": "transformers",
    "xgboost": "xgboost",
}
# Of a package that is there and lacks a part, the name has a dot: that is no missing extra.
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '(\w+)'")
_GPU_WORDS = re.compile(r"\b(cuda|nccl|gpus?)\b|nvidia|\bHIP\b", re.IGNORECASE)
_NO_GPU_HINT = (
    "Have the script take the device it is given (`ray.train.torch.get_device()`), or test it on "
    "a machine with GPUs: `chaos init` writes a scenario, `chaos run --backend ray` runs it."
)
LAST_LINE_MAX, LAST_LINES = 200, 10
# Of a traceback: those that start a script, each with its lines of code; torchrun begins every line
# with the rank.
_OUR_FRAMES = re.compile(
    r'^(.*)  File "(?:<frozen runpy>|[^"]*/chaos/launch/[^"]*)", line \d+, in .*\n(?:\1    .*\n)*',
    re.MULTILINE,
)
# Words of torch 2.13 that it says where there is no GPU, or where it was built without one.
_LACKING_GPU_ERRORS = re.compile(
    r"not compiled with CUDA|no CUDA GPUs are available|no NVIDIA driver|doesn't have NCCL"
    r"|no GPUs found|CUDA is not available|'torch\._C' has no attribute '_cuda",
    re.IGNORECASE,
)
# Lines of a log that show a missed GPU, where the error names none: a scaler that torch 2.13 has
# disabled keeps no scale, and a script's own question.
_MISSING_GPU_LINES = {
    "KeyError": re.compile(r"UserWarning: (.*GradScaler is enabled, but CUDA is not available)"),
    "AssertionError": re.compile(r"^\s+(assert .*cuda\.\w+\(.*)", re.MULTILINE),
}
_NO_LOCAL_GPU_HINT = (
    "Audit it on a machine with GPUs, where it is started as it is. Or have the script take "
    "the CPU and the backend gloo where torch.cuda.is_available() is False."
)
# Ray 2.60's own words, where its part for a framework is imported before the framework.
_UNINSTALLED_FRAMEWORKS = {"PyTorch Lightning": "lightning", "TensorFlow": "tensorflow"}


def refuse_empty_draw(plan: Plan) -> None:
    """Raise `UnmetNeedError` where the seed draws no fault: a run without one shows nothing."""
    if plan.has_empty_draw:
        raise UnmetNeedError(
            f"seed {plan.seed} draws no fault for '{plan.scenario}', so nothing would be tested",
            "Give another --seed, a higher chance, or a shorter life.",
            location=plan.file,
        )


def check_stated_steps(plan: Plan, baseline: Baseline) -> None:
    """Raise `JobError` where no epoch is as long as what was drawn takes it to be."""
    lengths = sorted({steps for steps in count_epoch_steps(baseline) if steps})
    for stated_length in plan.stated_steps:
        if lengths and stated_length not in lengths:
            raise JobError(
                f"the scenario states {stated_length} steps per epoch, and the job makes "
                f"{' or '.join(map(str, lengths))}",
                f"Write `steps_per_epoch: {lengths[-1]}`: places and lives are counted by it.",
                location=_locate_job_line(plan),
            )


def check_rank_epochs(plan: Plan, baseline: Baseline) -> None:
    """Raise `JobError` where the ranks of the baseline ended one epoch at two steps."""
    if (epochs := find_stepped_epochs(plan, baseline.runs)) is not None:
        raise JobError(
            f"without a fault, {epochs.describe_ends()}",
            f"Write `epoch_steps: {epochs.steps}` below `job`: epochs are then counted by steps.",
            location=_locate_job_line(plan),
        )


def build_job_error(plan: Plan, run: FinishedRun, *, log: Path) -> JobError:
    """Return the error to raise, at the line of the scenario that names the job.

    A script that failed before its `fit()` on the embedded backend had no driver yet, and its
    output is in the zygote's log. Raises `HarnessError` where the job was not the cause.
    """
    for _, disturbed in run.history.select_events(Disturbed):
        raise HarnessError(disturbed.why)
    module = find_missing_module(run.history)
    if module is not None:
        return _build_missing_error(plan, module, EXTRAS[module])
    if (launcher_error := _find_launcher_error(plan, run)) is not None:
        return launcher_error
    refusal = _find_refusal(run.history)
    if refusal is not None:
        return JobError(refusal.removesuffix("."), location=_locate_job_line(plan))
    log = log if _read_log(log).strip() else log.with_name("zygote.log")
    source, log_lines = plan.job.source, extract_last_lines(_read_log(log))
    reason = _describe_reason(run).removesuffix(".")  # another sentence follows it
    if (lack_message := _find_lack(plan, run.history, reason, log)) is not None:
        return JobError(*lack_message, location=_locate_job_line(plan), log_lines=log_lines)
    failure = "fails without any fault"
    if (retried_failure := _find_retried_failure(run.history)) is not None:
        failure, reason = "fails and retries by itself without any fault", retried_failure
    problem = f"the job {Path(source).name} {failure}: {reason}"
    hint = f"{_suggest_more_time(plan, run.history)}Its output is in {log}"
    if _is_before_fit(plan, run.history):
        suggestion = _suggest_launcher(plan, "torchrun")
        hint = f"If torchrun starts this script, {suggestion[0].lower()}{suggestion[1:]} {hint}"
    return FailedJobError(problem, hint, location=_locate_job_line(plan), log_lines=log_lines)


def _suggest_more_time(plan: Plan, history: History) -> str:
    """Return how to give a job more time that came to the limit of its scenario, as a sentence."""
    if plan.confined is not None or not history.count(DeadlinePassed):
        return ""
    longer_limit = f"`limits: {{run_s: {2 * plan.limits.run_s:.0f}}}` in the scenario"
    return f"Where it only takes longer, {longer_limit} gives it twice the time. "


def extract_last_lines(text: str) -> tuple[str, ...]:
    """Return the last lines of a log, each cut between words, without colours and our frames."""
    lines = [line.rstrip() for line in _OUR_FRAMES.sub("", strip_colors(text)).splitlines()]
    return tuple(shorten_text(line, LAST_LINE_MAX) for line in lines if line)[-LAST_LINES:]


def _find_launcher_error(plan: Plan, run: FinishedRun) -> OtherLauncherError | None:
    """Return the error for a job that asked for torchrun, or trained in each of its ranks alone."""
    if (separation := _find_separate_training(plan, run.history)) is not None:
        problem = f"{Path(plan.job.source).name} failed under torchrun, where {separation}: "
        return _build_separate_error(plan, f"{problem}{_describe_reason(run)}", separation)
    failure_event = _find_script_end(run.history)
    if failure_event is None or failure_event.asked is None:
        return None
    evidence = f"{failure_event.asked}{plan.job.launcher_facts.words.before_call}"
    problem = (
        f"the job {Path(plan.job.source).name} seems to be one that torchrun starts, since "
        f"{evidence}; it failed: {failure_event.error}: {_extract_last_line(failure_event.message)}"
    )
    return OtherLauncherError(
        problem,
        _suggest_launcher(plan, "torchrun"),
        location=_locate_job_line(plan),
        launcher="torchrun",
        evidence=evidence,
    )


def _find_script_end(history: History) -> ScriptRaised | CommandEnded | None:
    """Return the error that a run's script raised; without one, how its command ended last."""
    script_error = find_ending(history).script_error
    if script_error is not None:
        return script_error[1]
    command_ends = [event for _, event in history.select_events(CommandEnded)]
    return command_ends[-1] if command_ends else None


def refuse_separate_jobs(run: FinishedRun) -> None:
    """Raise `OtherLauncherError` where each rank that torchrun started trains a job of its own.

    None has joined a process group of torch's, though all have trained: what one saves, another may
    overwrite, and no rank notices the loss of another.
    """
    evidence = _find_separate_training(run.plan, run.history)
    trained_ranks = {event.rank for _, event in run.history.select_events(StepDone)}
    started_ranks = {event.rank for _, event in run.history.select_events(WorkerStarted)}
    if evidence is not None and trained_ranks == started_ranks:
        problem = (
            f"under torchrun each rank of {Path(run.plan.job.source).name} seems to train a job of "
            f"its own: {evidence}"
        )
        raise _build_separate_error(run.plan, problem, evidence)


def _find_separate_training(plan: Plan, history: History) -> str | None:
    """Return that no rank joined a process group, where torchrun started several and one trained.

    A library's trainer reads what torchrun gives, and yet may train on one device in each rank.
    """
    started_ranks = {event.rank for _, event in history.select_events(WorkerStarted)}
    has_joined_group = any(history.select_events(GroupJoined))
    has_trained = any(history.select_events(StepDone))
    if (
        plan.job.launcher_facts.workers.script_sets_count
        or has_joined_group
        or started_ranks <= {0}
    ):
        return None
    return f"none of the {len(started_ranks)} ranks joined a process group" if has_trained else None


def _build_separate_error(plan: Plan, problem: str, evidence: str) -> OtherLauncherError:
    return OtherLauncherError(
        problem,
        _suggest_launcher(plan, "python"),
        location=_locate_job_line(plan),
        launcher="python",
        evidence=evidence,
    )


def refuse_unwatched_files(
    plan: Plan, first_history: History, later_histories: Iterable[History]
) -> None:
    """Raise `JobError` for a file that each clean run left otherwise, by no watched process.

    It may be the job's, written by a program or in native code; then each run goes on from what the
    one before has left. It may be another program's as well: so nothing removes it.
    """
    new_files = dict[str, str]()
    for _, event in first_history.select_events(FolderCompared):
        new_files |= event.new
    changed_files = (
        file
        for history in later_histories
        for _, event in history.select_events(FolderCompared)
        for file in event.changed.items()
    )
    for path, digest in changed_files:
        if new_files.get(path, digest) != digest:
            raise JobError(
                f"{path} appeared in a clean run, and was another one after the next. No process "
                "that is watched wrote it, so it was left there, and a run may go on from what the "
                "one before it has left",
                "Remove it. Have the job write it by Python, or elsewhere; if no start of the job "
                f"reads it, add --allow-writes {path}.",
                location=_locate_job_line(plan),
            )


def _is_before_fit(plan: Plan, history: History) -> bool:
    return plan.job.launcher_facts.has_call and not any(history.select_events(FitCalled))


def _suggest_launcher(plan: Plan, launcher: Launcher) -> str:
    """Return the sentence that sets the launcher: an option of an audit, a line of a scenario."""
    if plan.confined is not None:
        return f"Add --launcher {launcher}."
    return f"Write `launcher: {launcher}` below `job:`."


def find_stall_error(run: FinishedRun, logs: Path) -> JobError | None:
    """Return the error for a job whose last step was long before its limit; None for a slow one.

    A job that hangs in its last lines, after training, is no longer with fewer epochs.
    """
    deadline_number, _ = next(run.history.select_events(DeadlinePassed))
    steps = list(run.history.select_events(StepDone))
    if not steps:
        return None
    last_number, last_step = steps[-1]
    stalled_s = (run.history.time_ns(deadline_number) - run.history.time_ns(last_number)) / 1e9
    if stalled_s < run.plan.limits.run_s / 2:
        return None
    return JobError(
        f"the job {Path(run.plan.job.source).name} stood still without a fault: {stalled_s:.0f} s "
        f"without a step, after epoch {last_step.epoch}, step {last_step.step} of rank "
        f"{last_step.rank}"
        f"{_describe_last_lines(run)}",
        f"The stacks of its processes are in {logs}. Where it hangs now and then, audit it again.",
        location=run.plan.file,
    )


def _describe_last_lines(run: FinishedRun) -> str:
    """Return the line of the job that each rank was in at the end, as the end of a sentence."""
    thread_waits = (wait for _, wait in find_waits(run.history))
    description = describe_waits(thread_waits, cwd=run.plan.cwd, is_still=False)
    return f"; when chaos ended it, {description}" if description else ""


def build_duration_error(run: FinishedRun) -> JobError:
    """Return the error for a job that is too long to be run once for each place."""
    plan = run.plan
    if not run.history.count(StepDone):
        return JobError(
            f"in {plan.limits.run_s:g} s without a fault no step of the job "
            f"{Path(plan.job.source).name} was seen{_describe_last_lines(run)}",
            "Where it reads data or computes there, audit it with less of it: the script's own "
            "arguments follow after --. Where it waits there, it hangs without a fault.",
            location=plan.file,
        )
    return JobError(
        f"the job {Path(plan.job.source).name} was still running after {plan.limits.run_s:g} s "
        "without a fault, and an audit makes a run for every place, or for a few of them",
        "Audit it with fewer epochs or less data: the script's own arguments follow after --.",
        location=plan.file,
    )


def _find_lack(plan: Plan, history: History, reason: str, log: Path) -> tuple[str, str] | None:
    """Return problem and hint where the job lacks a GPU, or found nothing to train; or None."""
    if plan.job.launcher_facts.has_call:
        request = _describe_gpu_request(history, reason) if plan.backend == "fork" else None
        return None if request is None else (f"{request}: {reason}", _NO_GPU_HINT)
    if _LACKING_GPU_ERRORS.search(reason):
        request = "the job asks for a GPU, and torch finds none on this machine"
        return f"{request}: {reason}", _NO_LOCAL_GPU_HINT
    has_returned = any(history.select_events(FitReturned))
    if not has_returned and (gpu_line := _find_gpu_line(reason, log)) is not None:
        failure = f"the job {Path(plan.job.source).name} fails without any fault: {reason}"
        hint = (
            f"If that is why: {_NO_LOCAL_GPU_HINT[0].lower()}{_NO_LOCAL_GPU_HINT[1:]} Its output "
            f"is in {log}"
        )
        return f"{failure}; its log has: {gpu_line}", hint
    if (
        not has_returned
        or history.count(StepDone)
        or _describe_earlier_training(history) is not None
    ):
        return None
    problem = (
        f"the job {Path(plan.job.source).name} ended without an error, and called no optimizer's "
        f"step() in its workers{_describe_last_output(log)}"
    )
    without_steps = problem, f"Its output is in {log}"
    return (
        _find_training_children(plan, history) or _find_single_rank(plan, history) or without_steps
    )


def _find_training_children(plan: Plan, history: History) -> tuple[str, str] | None:
    """Return problem and hint where processes train that the job has started; None if none does."""
    children = [event for _, event in history.select_events(ChildTrained)]
    if not children:
        return None
    start_methods = " and ".join(sorted({child.start for child in children}))
    problem = (
        f"the job {Path(plan.job.source).name} trains in "
        f"{plural(len(children), 'process', 'processes')} that it starts itself, and none of them "
        f"joins a process group of its ranks: its children are started by {start_methods} and "
        "are not watched"
    )
    hint = (
        "Audit the script that trains, under the launcher of its ranks (--launcher torchrun or "
        f"python). A child was: {children[0].command}"
    )
    return problem, hint


def _find_single_rank(plan: Plan, history: History) -> tuple[str, str] | None:
    """Return problem and hint for a script that seems to train alone, where several are stated."""
    # Where several ranks are stated, a process is watched from where it joins their group.
    workers, has_driver = plan.job.workers, plan.job.launcher_facts.has_driver
    if not has_driver or workers == 1 or any(history.select_events(WorkerStarted)):
        return None
    option = "--workers" if plan.confined is not None else "`workers`"
    problem = (
        f"the job {Path(plan.job.source).name} seems to have 1 rank, and {option} says {workers}: "
        "none of its processes joined a process group"
    )
    suggestion = (
        "Leave --workers out" if plan.confined is not None else "Write `workers: 1` below `job:`"
    )
    return problem, f"{suggestion} if it trains alone."


def _find_gpu_line(reason: str, log: Path) -> str | None:
    """Return the line of a log that shows which GPU an error is about that names none; or None."""
    log_text = _read_log(log)
    matches = (
        line.search(log_text) for error, line in _MISSING_GPU_LINES.items() if f"{error}:" in reason
    )
    match = next(filter(None, matches), None)
    return None if match is None else shorten_text(match[1].strip(), LAST_LINE_MAX)


def _describe_last_output(log: Path) -> str:
    """Return what the job said last, as the end of a sentence; nothing if it said nothing."""
    last_line = next(reversed(extract_last_lines(_read_log(log))), "").strip().removesuffix(".")
    return f"; the last that it said was: {last_line}" if last_line else ""


def _read_log(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""


def _build_missing_error(plan: Plan, package: str, extra: str) -> MissingExtraError:
    subject = f"the job {Path(plan.job.source).name}"
    return MissingExtraError.from_package(subject, package, extra, location=_locate_job_line(plan))


def _find_refusal(history: History) -> str | None:
    """Return chaos's own message that it cannot test the job, from driver or worker; or None."""
    lines = [f"{event.error}: {event.message}" for _, event in history.select_events(FitRaised)]
    lines += [line for text in lines for line in text.splitlines()]
    refusals = (parse_refusal(words) for words in (*lines, *_iterate_errors(history)))
    return next(filter(None, refusals), None)


def find_harm_error(run: FinishedRun) -> JobError | None:
    """Return an error if the job was kept from harming a file, even if it caught the error."""
    for _, write_event in run.history.select_events(WroteOutside):
        if write_event.operation in REFUSED and not write_event.after_fit:
            is_remote = write_event.operation == "remote"
            file_error = ForeignFileError.from_path(write_event.path, "overwrite")
            refusal = RemoteStoreError.from_path(write_event.path) if is_remote else file_error
            return JobError(refusal.problem, refusal.hint, location=_locate_job_line(run.plan))
    return None


def _describe_gpu_request(history: History, reason: str) -> str | None:
    """Return a sentence if the failure on the embedded backend is a GPU that is not there."""
    if not _GPU_WORDS.search(reason):
        return None
    is_gpu_replaced = any(
        "use_gpu" in event.original_settings for _, event in history.select_events(FitCalled)
    )
    replacement = ", in place of `use_gpu=True`" if is_gpu_replaced else ""
    return f"the job asks for a GPU by itself; the embedded backend trains on the CPU{replacement}"


def _find_retried_failure(history: History) -> str | None:
    """Return the failure that a job survived by its own retries, without any fault."""
    if not any(history.select_events(FitReturned)):
        return None
    is_script_retry = history.count(FitCalled) > 1
    for _, decision in history.select_events(FailureDecided):
        if decision.decision == "RETRY" or (is_script_retry and decision.decision == "RAISE"):
            first_error = next(iter(find_causes(decision.errors).items()), None)
            failure = (
                decision.error
                if first_error is None
                else f"rank {first_error[0]}: {first_error[1]}"
            )
            return (
                f"{failure} in attempt {decision.attempt}. A run with a fault is compared with "
                "one in which nothing fails; switch that failure off by the script's own arguments"
            )
    return None


def find_missing_module(history: History) -> str | None:
    """Return the module of one of our extras that a job could not import; or None.

    Read from the errors of the script, or of the train function in a worker.
    """
    for error in _iterate_errors(history):
        match = _NO_MODULE.fullmatch(error)
        if match is not None and match[1] in EXTRAS:
            return match[1]
        for framework, module in _UNINSTALLED_FRAMEWORKS.items():
            if error.startswith(f"ModuleNotFoundError: {framework} isn't installed."):
                return module
    return None


def _iterate_errors(history: History) -> Iterator[str]:
    if (script_error := find_ending(history).script_error) is not None:
        yield f"{script_error[1].error}: {script_error[1].message}"
    for _, decision in history.select_events(FailureDecided):
        yield from find_causes(decision.errors).values()


def check_needs(plan: Plan, environment: Mapping[str, str]) -> None:
    """Raise `UnmetNeedError` if Ray, the backend, a variable or a module of the job is missing.

    Raises `JobError` where a trial is named on the backend that runs none.
    """
    if plan.job.launcher_facts.extra == "ray" and not has_ray():
        raise _build_missing_error(plan, "Ray", "ray")
    if plan.required_backend not in (None, plan.backend):
        raise UnmetNeedError(
            f"the scenario can be shown on the backend `{plan.required_backend}` alone",
            location=_locate_job_line(plan),
        )
    unset_variables = [
        variable
        for variable in plan.job.needs_env
        if not plan.job.env.get(variable, environment.get(variable))
    ]
    absent_modules = [name for name in plan.job.needs_modules if find_spec(name) is None]
    for names, problem in (
        (unset_variables, " in the environment, and that is not set"),
        (absent_modules, ", and that is not installed"),
    ):
        if names:
            raise UnmetNeedError(
                f"the job {Path(plan.job.source).name} needs {' and '.join(names)}{problem}",
                location=_locate_job_line(plan),
            )
    if plan.job.trial is not None and plan.backend == "fork":
        raise JobError(
            "job.trial names a trial of Ray Tune, and the embedded backend runs no experiments",
            "Use the backend `ray`; leave job.trial out where the script calls fit() itself.",
            location=_locate_job_line(plan),
        )


def _describe_reason(run: FinishedRun) -> str:
    run_end = find_ending(run.history)
    if run_end.script_error is not None:
        script_error = run_end.script_error[1]
        if script_error.error == NO_FIT:
            times = "" if run.plan.job.fit == 1 else f" {run.plan.job.fit} times"
            return f"it {UNCALLED}{times}"
        return f"{script_error.error}: {_extract_last_line(script_error.message)}"
    for _, fit_error in run.history.select_events(FitRaised):
        # The own error of torchrun names no reason; the message is the worker's.
        raiser = LAUNCHER_FACTS[fit_error.launcher].words.describe_run_failure(fit_error.error)
        return f"{raiser}: {_extract_last_line(fit_error.message)}"
    for _, deadline in run.history.select_events(DeadlinePassed):
        return f"it was still running after limits.run_s = {deadline.limit_s:g} s"
    if (
        run_end.driver_exit is not None
        and run_end.driver_exit[1].code != 0
        and run_end.fit_return is None
    ):
        return f"its process ended with code {run_end.driver_exit[1].code}"
    return _describe_earlier_training(run.history) or run.verdict.headline


def _describe_earlier_training(history: History) -> str | None:
    """Return a sentence if nothing was left to train, because of files from before the run."""
    loaded_paths = sorted(
        {
            event.path
            for _, event in history.select_events(FileLoaded)
            if event.saved_attempt is None
        }
    )
    if not loaded_paths or history.count(StepDone):
        return None
    return (
        f"not one step was trained, and {loaded_paths[0]} was loaded, which is of an earlier "
        "training: move it away, or have the job save elsewhere by its own arguments"
    )


def _extract_last_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return shorten_text(lines[-1]) if lines else "no message"


def _locate_job_line(plan: Plan) -> str:
    """Return the place of the line that names the job; of the first where the file is gone."""
    if plan.file.endswith(".py"):  # of its tests, which one named the job is not known here
        return plan.file
    try:
        lines = Path(plan.file).read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    keys = re.compile(rf"\b({'|'.join(SOURCES)}):")
    line_numbers = (number for number, line in enumerate(lines, 1) if keys.search(line))
    return f"{plan.file}:{next(line_numbers, 1)}"
