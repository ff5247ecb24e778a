"""Reasons why a job cannot be tested: it fails even without a fault."""

import re
from collections.abc import Iterable, Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

from chaos.check.ending import ending
from chaos.check.standstill import describe_waits, find_waits
from chaos.errors import (
    ForeignFileError,
    HarnessError,
    JobError,
    MissingExtraError,
    OtherLauncherError,
    RemoteStoreError,
    UnmetNeedError,
    refusal_in,
)
from chaos.model.causes import causes
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
    StepDone,
    WorkerStarted,
    WroteOutside,
)
from chaos.model.events.harness import REFUSED
from chaos.model.history import Baseline, History
from chaos.model.launcher import FACTS, Launcher
from chaos.model.plan import Plan
from chaos.model.scenario import SOURCES
from chaos.plan.extent import steps_by_epoch
from chaos.report.outcome import FinishedRun
from chaos.run.machine import has_ray
from chaos.words import plural, shortened, unpainted

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
_OF_GPU = re.compile(r"\b(cuda|nccl|gpus?)\b|nvidia|\bHIP\b", re.IGNORECASE)
_NO_GPU = (
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
_LACKS_GPU = re.compile(
    r"not compiled with CUDA|no CUDA GPUs are available|no NVIDIA driver|doesn't have NCCL"
    r"|no GPUs found|CUDA is not available|'torch\._C' has no attribute '_cuda",
    re.IGNORECASE,
)
# Lines of a log that show a missed GPU, where the error names none: a scaler that torch 2.13 has
# disabled keeps no scale, and a script's own question.
_MISSES_GPU = {
    "KeyError": re.compile(r"UserWarning: (.*GradScaler is enabled, but CUDA is not available)"),
    "AssertionError": re.compile(r"^\s+(assert .*cuda\.\w+\(.*)", re.MULTILINE),
}
_NO_GPU_HERE = (
    "Audit it on a machine with GPUs, where it is started as it is. Or have the script take "
    "the CPU and the backend gloo where torch.cuda.is_available() is False."
)
# Ray 2.60's own words, where its part for a framework is imported before the framework.
_ISNT_INSTALLED = {"PyTorch Lightning": "lightning", "TensorFlow": "tensorflow"}


def refuse_empty_draw(plan: Plan) -> None:
    """Raise `UnmetNeedError` where the seed draws no fault: a run without one shows nothing."""
    if plan.draws_nothing:
        raise UnmetNeedError(
            f"seed {plan.seed} draws no fault for '{plan.scenario}', so nothing would be tested",
            "Give another --seed, a higher chance, or a shorter life.",
            place=plan.file,
        )


def refuse_other_steps(plan: Plan, baseline: Baseline) -> None:
    """Raise `JobError` where no epoch is as long as what was drawn takes it to be."""
    lengths = sorted({steps for steps in steps_by_epoch(baseline) if steps})
    for stated in plan.stated_steps:
        if lengths and stated not in lengths:
            raise JobError(
                f"the scenario states {stated} steps per epoch, and the job makes "
                f"{' or '.join(map(str, lengths))}",
                f"Write `steps_per_epoch: {lengths[-1]}`: places and lives are counted by it.",
                place=_place(plan),
            )


def why_the_job_failed(plan: Plan, run: FinishedRun, *, log: Path) -> JobError:
    """Return the error to raise, at the line of the scenario that names the job.

    A script that failed before its `fit()` on the embedded backend had no driver yet, and its
    output is in the zygote's log. Raises `HarnessError` where the job was not the cause.
    """
    for _, disturbed in run.history.of(Disturbed):
        raise HarnessError(disturbed.why)
    missing = missing_module(run.history)
    if missing is not None:
        return _lacks(plan, missing, EXTRAS[missing])
    if (other := _for_another_launcher(plan, run.history)) is not None:
        return other
    refusal = _refusal(run.history)
    if refusal is not None:
        return JobError(refusal.removesuffix("."), place=_place(plan))
    log = log if _text_of(log).strip() else log.with_name("zygote.log")
    source, said = plan.job.source, last_lines(_text_of(log))
    reason = _reason(run).removesuffix(".")  # another sentence follows it
    if (lack := _lack(plan, run.history, reason, log)) is not None:
        return JobError(*lack, place=_place(plan), said=said)
    how = "fails without any fault"
    if (own := _own_retry(run.history)) is not None:
        how, reason = "fails and retries by itself without any fault", own
    problem = f"the job {Path(source).name} {how}: {reason}"
    hint = f"{_more_time(plan, run.history)}Its output is in {log}"
    if _is_before_fit(plan, run.history):
        words = _set(plan, "torchrun")
        hint = f"If torchrun starts this script, {words[0].lower()}{words[1:]} {hint}"
    return JobError(problem, hint, place=_place(plan), said=said)


def _more_time(plan: Plan, history: History) -> str:
    """Return how to give a job more time that came to the limit of its scenario, as a sentence."""
    if plan.confined is not None or not history.count(DeadlinePassed):
        return ""
    longer = f"`limits: {{run_s: {2 * plan.limits.run_s:.0f}}}` in the scenario"
    return f"Where it only takes longer, {longer} gives it twice the time. "


def last_lines(text: str) -> tuple[str, ...]:
    """Return the last lines of a log, each cut between words, without colours and our frames."""
    lines = [line.rstrip() for line in _OUR_FRAMES.sub("", unpainted(text)).splitlines()]
    return tuple(shortened(line, LAST_LINE_MAX) for line in lines if line)[-LAST_LINES:]


def _for_another_launcher(plan: Plan, history: History) -> OtherLauncherError | None:
    """Return the error for a job that failed, and asked for what torchrun gives; or None."""
    raised = ending(history).script_raised
    ends = [event for _, event in history.of(CommandEnded)]
    failed = raised[1] if raised is not None else ends[-1] if ends else None
    if failed is None or failed.asked is None:
        return None
    evidence = failed.asked + (" before any fit()" if "call" in plan.job.facts.has else "")
    problem = (
        f"the job {Path(plan.job.source).name} seems to be one that torchrun starts, since "
        f"{evidence}; it failed: {failed.error}: {_last_line(failed.message)}"
    )
    return OtherLauncherError(
        problem, _set(plan, "torchrun"), place=_place(plan), launcher="torchrun", evidence=evidence
    )


def refuse_jobs_apart(run: FinishedRun) -> None:
    """Raise `OtherLauncherError` where each rank that torchrun started trains a job of its own.

    None has joined a process group of torch's, though all have trained: what one saves, another may
    overwrite, and no rank notices the loss of another.
    """
    started = {event.rank for _, event in run.history.of(WorkerStarted)}
    trained = {event.rank for _, event in run.history.of(StepDone)}
    joined = any(run.history.of(GroupJoined))
    is_one = started <= {0}
    if run.plan.job.facts.sizes_itself or joined or is_one or trained != started:
        return
    evidence = f"none of the {len(started)} ranks joined a process group"
    raise OtherLauncherError(
        f"under torchrun each rank of {Path(run.plan.job.source).name} seems to train a job of its "
        f"own: {evidence}",
        _set(run.plan, "python"),
        place=_place(run.plan),
        launcher="python",
        evidence=evidence,
    )


def refuse_unwatched_files(plan: Plan, first: History, later: Iterable[History]) -> None:
    """Raise `JobError` for a file that each clean run left otherwise, by no watched process.

    It may be the job's, written by a program or in native code; then each run goes on from what the
    one before has left. It may be another program's as well: so nothing removes it.
    """
    made = dict[str, str]()
    for _, event in first.of(FolderCompared):
        made |= event.new
    changed = (event.changed for history in later for _, event in history.of(FolderCompared))
    for path, digest in ((path, digest) for each in changed for path, digest in each.items()):
        if made.get(path, digest) != digest:
            raise JobError(
                f"{path} appeared in a clean run, and was another one after the next. No process "
                "that is watched wrote it, so it was left there, and a run may go on from what the "
                "one before it has left",
                "Remove it. Have the job write it by Python, or elsewhere; if no start of the job "
                f"reads it, add --allow-writes {path}.",
                place=_place(plan),
            )


def _is_before_fit(plan: Plan, history: History) -> bool:
    return "call" in plan.job.facts.has and not any(history.of(FitCalled))


def _set(plan: Plan, launcher: Launcher) -> str:
    """Return the sentence that sets the launcher: an option of an audit, a line of a scenario."""
    if plan.confined is not None:
        return f"Add --launcher {launcher}."
    return f"Write `launcher: {launcher}` below `job:`."


def stood_still(run: FinishedRun, logs: Path) -> JobError | None:
    """Return the error for a job whose last step was long before its limit; None for a slow one.

    A job that hangs in its last lines, after training, is no longer with fewer epochs.
    """
    late, _ = next(run.history.of(DeadlinePassed))
    steps = list(run.history.of(StepDone))
    if not steps:
        return None
    number, step = steps[-1]
    still_s = (run.history.time_ns(late) - run.history.time_ns(number)) / 1e9
    if still_s < run.plan.limits.run_s / 2:
        return None
    return JobError(
        f"the job {Path(run.plan.job.source).name} stood still without a fault: {still_s:.0f} s "
        f"without a step, after epoch {step.epoch}, step {step.step} of rank {step.rank}"
        f"{_where_it_was(run)}",
        f"The stacks of its processes are in {logs}. Where it hangs now and then, audit it again.",
        place=run.plan.file,
    )


def _where_it_was(run: FinishedRun) -> str:
    """Return the line of the job that each rank was in at the end, as the end of a sentence."""
    waits = (wait for _, wait in find_waits(run.history))
    where = describe_waits(waits, cwd=run.plan.cwd, is_still=False)
    return f"; when chaos ended it, {where}" if where else ""


def too_long(run: FinishedRun) -> JobError:
    """Return the error for a job that is too long to be run once for each place."""
    plan = run.plan
    if not run.history.count(StepDone):
        return JobError(
            f"in {plan.limits.run_s:g} s without a fault no step of the job "
            f"{Path(plan.job.source).name} was seen{_where_it_was(run)}",
            "Where it reads data or computes there, audit it with less of it: the script's own "
            "arguments follow after --. Where it waits there, it hangs without a fault.",
            place=plan.file,
        )
    return JobError(
        f"the job {Path(plan.job.source).name} was still running after {plan.limits.run_s:g} s "
        "without a fault, and an audit makes a run for every place, or for a few of them",
        "Audit it with fewer epochs or less data: the script's own arguments follow after --.",
        place=plan.file,
    )


def _lack(plan: Plan, history: History, reason: str, log: Path) -> tuple[str, str] | None:
    """Return problem and hint where the job lacks a GPU, or found nothing to train; or None."""
    if "call" in plan.job.facts.has:
        asks = _asks_for_gpu(history, reason) if plan.backend == "fork" else None
        return None if asks is None else (f"{asks}: {reason}", _NO_GPU)
    if _LACKS_GPU.search(reason):
        asks = "the job asks for a GPU, and torch finds none on this machine"
        return f"{asks}: {reason}", _NO_GPU_HERE
    returned = any(history.of(FitReturned))
    if not returned and (misses := _misses_gpu(reason, log)) is not None:
        failed = f"the job {Path(plan.job.source).name} fails without any fault: {reason}"
        hint = f"If that is why: {_NO_GPU_HERE[0].lower()}{_NO_GPU_HERE[1:]} Its output is in {log}"
        return f"{failed}; its log has: {misses}", hint
    if not returned or history.count(StepDone) or _found_its_own(history) is not None:
        return None
    problem = (
        f"the job {Path(plan.job.source).name} ended without an error, and called no optimizer's "
        f"step() in its workers{_said_last(log)}"
    )
    without_steps = problem, f"Its output is in {log}"
    return _trained_by_children(plan, history) or _fewer_ranks(plan, history) or without_steps


def _trained_by_children(plan: Plan, history: History) -> tuple[str, str] | None:
    """Return problem and hint where processes train that the job has started; None if none does."""
    children = [event for _, event in history.of(ChildTrained)]
    if not children:
        return None
    starts = " and ".join(sorted({child.start for child in children}))
    problem = (
        f"the job {Path(plan.job.source).name} trains in "
        f"{plural(len(children), 'process', 'processes')} that it starts itself, and none of them "
        f"joins a process group of its ranks: its children are started by {starts} and are not "
        "watched"
    )
    hint = (
        "Audit the script that trains, under the launcher of its ranks (--launcher torchrun or "
        f"python). A child was: {children[0].command}"
    )
    return problem, hint


def _fewer_ranks(plan: Plan, history: History) -> tuple[str, str] | None:
    """Return problem and hint for a script that seems to train alone, where several are stated."""
    # Where several ranks are stated, a process is watched from where it joins their group.
    workers, facts = plan.job.workers, plan.job.facts
    is_command = facts.sizes_itself and facts.lacks_part("queue")
    if not is_command or workers == 1 or any(history.of(WorkerStarted)):
        return None
    source = "--workers" if plan.confined is not None else "`workers`"
    problem = (
        f"the job {Path(plan.job.source).name} seems to have 1 rank, and {source} says {workers}: "
        "none of its processes joined a process group"
    )
    own = "Leave --workers out" if plan.confined is not None else "Write `workers: 1` below `job:`"
    return problem, f"{own} if it trains alone."


def _misses_gpu(reason: str, log: Path) -> str | None:
    """Return the line of a log that shows which GPU an error is about that names none; or None."""
    said = _text_of(log)
    lines = (line.search(said) for error, line in _MISSES_GPU.items() if f"{error}:" in reason)
    found = next(filter(None, lines), None)
    return None if found is None else shortened(found[1].strip(), LAST_LINE_MAX)


def _said_last(log: Path) -> str:
    """Return what the job said last, as the end of a sentence; nothing if it said nothing."""
    last = next(reversed(last_lines(_text_of(log))), "").strip().removesuffix(".")
    return f"; the last that it said was: {last}" if last else ""


def _text_of(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""


def _lacks(plan: Plan, what: str, extra: str) -> MissingExtraError:
    who = f"the job {Path(plan.job.source).name}"
    return MissingExtraError.of(who, what, extra, place=_place(plan))


def _refusal(history: History) -> str | None:
    """Return chaos's own message that it cannot test the job, from driver or worker; or None."""
    lines = [f"{event.error}: {event.message}" for _, event in history.of(FitRaised)]
    lines += [line for text in lines for line in text.splitlines()]
    refusals = (refusal_in(words) for words in (*lines, *_raised(history)))
    return next(filter(None, refusals), None)


def why_harmful(run: FinishedRun) -> JobError | None:
    """Return an error if the job was kept from harming a file, even if it caught the error."""
    for _, wrote in run.history.of(WroteOutside):
        if wrote.how in REFUSED and not wrote.after_fit:
            is_remote = wrote.how == "remote"
            foreign = ForeignFileError.of(wrote.path, "overwrite")
            refusal = RemoteStoreError.of(wrote.path) if is_remote else foreign
            return JobError(refusal.problem, refusal.hint, place=_place(run.plan))
    return None


def _asks_for_gpu(history: History, reason: str) -> str | None:
    """Return a sentence if the failure on the embedded backend is a GPU that is not there."""
    if not _OF_GPU.search(reason):
        return None
    replaced = any("use_gpu" in e.replaced for _, e in history.of(FitCalled))
    took = ", in place of `use_gpu=True`" if replaced else ""
    return f"the job asks for a GPU by itself; the embedded backend trains on the CPU{took}"


def _own_retry(history: History) -> str | None:
    """Return the failure that a job survived by its own retries, without any fault."""
    if not any(history.of(FitReturned)):
        return None
    by_script = history.count(FitCalled) > 1
    for _, decided in history.of(FailureDecided):
        if decided.decision == "RETRY" or (by_script and decided.decision == "RAISE"):
            first = next(iter(causes(decided.errors).items()), None)
            what = decided.error if first is None else f"rank {first[0]}: {first[1]}"
            return (
                f"{what} in attempt {decided.attempt}. A run with a fault is compared with one in "
                "which nothing fails; switch that failure off by the script's own arguments"
            )
    return None


def missing_module(history: History) -> str | None:
    """Return the module of one of our extras that a job could not import; or None.

    Read from the errors of the script, or of the train function in a worker.
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
    if (script := ending(history).script_raised) is not None:
        yield f"{script[1].error}: {script[1].message}"
    for _, decided in history.of(FailureDecided):
        yield from causes(decided.errors).values()


def refuse_trials_elsewhere(plan: Plan) -> None:
    """Raise `JobError` where a trial is named on the backend that runs none."""
    if plan.job.trial is not None and plan.backend == "fork":
        raise JobError(
            "job.trial names a trial of Ray Tune, and the embedded backend runs no experiments",
            "Use the backend `ray`; leave job.trial out where the script calls fit() itself.",
            place=_place(plan),
        )


def refuse_unmet_needs(plan: Plan, environment: Mapping[str, str]) -> None:
    """Raise `UnmetNeedError` if Ray, the backend, a variable or a module of the job is missing."""
    if plan.job.facts.extra == "ray" and not has_ray():
        raise _lacks(plan, "Ray", "ray")
    if plan.needs_backend not in (None, plan.backend):
        raise UnmetNeedError(
            f"the scenario can be shown on the backend `{plan.needs_backend}` alone",
            place=_place(plan),
        )
    unset = [n for n in plan.job.needs_env if not plan.job.env.get(n, environment.get(n))]
    if unset:
        raise UnmetNeedError(
            f"the job {Path(plan.job.source).name} needs {' and '.join(unset)} in the "
            "environment, and that is not set",
            place=_place(plan),
        )
    absent = [name for name in plan.job.needs_modules if find_spec(name) is None]
    if absent:
        raise UnmetNeedError(
            f"the job {Path(plan.job.source).name} needs {' and '.join(absent)}, and that is not "
            "installed",
            place=_place(plan),
        )


def _reason(run: FinishedRun) -> str:
    end = ending(run.history)
    if end.script_raised is not None:
        raised = end.script_raised[1]
        if raised.error == NO_FIT:
            times = "" if run.plan.job.fit == 1 else f" {run.plan.job.fit} times"
            return f"it {UNCALLED}{times}"
        return f"{raised.error}: {_last_line(raised.message)}"
    for _, failed in run.history.of(FitRaised):
        # The own error of torchrun names no reason; the message is the worker's.
        facts = FACTS[failed.launcher]
        is_scripts_own = not facts.has.isdisjoint({"call", "driver"})
        by = facts.words.raised(failed.error) if is_scripts_own else "a worker ended"
        return f"{by}: {_last_line(failed.message)}"
    for _, late in run.history.of(DeadlinePassed):
        return f"it was still running after limits.run_s = {late.limit_s:g} s"
    if end.exited is not None and end.exited[1].code != 0 and end.returned is None:
        return f"its process ended with code {end.exited[1].code}"
    return _found_its_own(run.history) or run.verdict.headline


def _found_its_own(history: History) -> str | None:
    """Return a sentence if nothing was left to train, because of files from before the run."""
    loaded = sorted({e.path for _, e in history.of(FileLoaded) if e.saved_attempt is None})
    if not loaded or history.count(StepDone):
        return None
    return (
        f"not one step was trained, and {loaded[0]} was loaded, which is of an earlier training: "
        "move it away, or have the job save elsewhere by its own arguments"
    )


def _last_line(message: str) -> str:
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    return shortened(lines[-1]) if lines else "no message"


def _place(plan: Plan) -> str:
    """Return the place of the line that names the job; of the first where the file is gone."""
    if plan.file.endswith(".py"):  # of its tests, which one named the job is not known here
        return plan.file
    try:
        lines = Path(plan.file).read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    keys = re.compile(rf"\b({'|'.join(SOURCES)}):")
    named = (number for number, line in enumerate(lines, 1) if keys.search(line))
    return f"{plan.file}:{next(named, 1)}"
