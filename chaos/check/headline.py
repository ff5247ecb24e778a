"""The verdict in one sentence, for a person."""

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from chaos.check import census
from chaos.check.analysis import RunAnalysis
from chaos.check.children import describe_unseen_children
from chaos.check.diagnosis import cause
from chaos.check.divergence import difference, divergence
from chaos.check.injections import Injection
from chaos.check.restarts import Restart
from chaos.check.resumes import in_words, is_resumed, nothing_was_left, untested
from chaos.check.save_operations import file_at
from chaos.check.state import STATE
from chaos.check.trajectory import TRAJECTORY
from chaos.model.history import History
from chaos.model.scenario import VerdictStatus
from chaos.model.trigger import (
    IN_A_SAVE,
    AtMoment,
    AtRecovery,
    AtStart,
    AtState,
    AtStep,
    path_pattern,
)
from chaos.model.verdict import CheckResult
from chaos.words import begun, plural

FAULTS_NAMED = 3  # of a run with more, the first alone: the rest are in its report
_PLACES = {
    "validating": "in the validation of epoch {epoch}",
    "saving": "in the middle of a save of epoch {epoch}",
    "making": "as it had made a folder in epoch {epoch}",
    "opening": "as it began to write a file anew in epoch {epoch}",
    "renaming": "as it was to rename a file of epoch {epoch}",
    "linking": "as it was to make a link in epoch {epoch}",
    "removing": "as it was to remove a file in epoch {epoch}",
    "putting": "as it was to put an object in epoch {epoch}",
    "completing": "as it had sent the parts of an object in epoch {epoch}",
    "upload_begin": "as its upload of epoch {epoch} began",
    "upload_end": "when its upload of epoch {epoch} was done and report() had not returned",
    "reported": "when report() of epoch {epoch} had returned and Ray had not committed it",
    "committed": "when Ray had committed epoch {epoch}",
}
_RECOVERY = {
    "start": "as it began to recover",
    "loading": "while it loaded what an earlier attempt had saved",
    "first_step": "as its first step after the recovery began",
}


def headline(
    analysis: RunAnalysis,
    results: Sequence[CheckResult],
    status: VerdictStatus,
    *,
    accepted: int = 0,
) -> str:
    """Return the faults, the outcome of the job, and the evidence, in one sentence.

    `accepted`: the number of broken promises that the scenario accepts.
    """
    if status == "pass":
        lack = untested(analysis)
        good = _good(analysis, accepted=accepted)
        return as_sentence(f"{faults(analysis)}{good}{f'; {lack}' if lack else ''}")
    if status == "fail":
        return as_sentence(f"{faults(analysis)}{_bad(analysis, results)}")
    doubts = (result.summary for result in results if result.status == "inconclusive")
    broken = [result.check for result in results if result.status == "fail"]
    besides = f" (broken all the same: {', '.join(broken)})" if broken else ""
    return as_sentence(f"it is unknown whether the job came out right: {next(doubts)}{besides}")


def as_sentence(text: str) -> str:
    """Return a text with a capital and a full stop."""
    return begun(text).removesuffix(".") + "."


def faults(analysis: RunAnalysis) -> str:
    """Return the faults in words, as the beginning of a sentence."""
    landed = [injection for injection in analysis.injections if injection.landed]
    if not landed:
        return "nothing was done to the job; "
    times = Counter(injection.op.index for injection in landed)
    firsts = {injection.op.index: injection for injection in reversed(landed)}
    names = [_fault(analysis, firsts[index], times[index]) for index in dict.fromkeys(times)]
    if len(names) > FAULTS_NAMED:
        return f"{names[0]}, and {len(names) - 1} more faults were injected into the run; "
    *others, last = names
    return f"{', '.join(others)} and {last}; " if others else f"{last}; "


def _fault(analysis: RunAnalysis, injection: Injection, times: int) -> str:
    at, fault = injection.op.at, injection.op.fault
    if injection.is_in_storage:  # in the words of storage; the place where it was armed is left out
        details = "; ".join(event.detail for _, event in injection.effects[:1])
        return f"{fault.in_words(injection.rank, '')}: storage {details}"
    match at:
        case AtMoment():
            place = _PLACES[at.moment].format(epoch=at.epoch) + _file(at, analysis.baseline)
        case AtStep():
            place = f"at epoch {at.epoch}, step {at.step}"
        case AtRecovery():
            place = _RECOVERY[at.stage]
        case AtStart():
            place = f"as attempt {at.starting} {'was launched' if at.at_launch else 'began'}"
        case AtState():
            place = f"as Ray's controller came to {at.state}"
        case _:
            place = f"{at.seconds:g} s after the start"
    again = f" in {times} attempts" if times > 1 else ""
    return f"{fault.in_words(injection.rank, place)}{again}"


def _file(at: AtMoment, clean: History | None) -> str:
    """Return the file of a place, as the place or a clean run names it, in brackets."""
    name = at.path
    if name is None and at.moment in IN_A_SAVE and clean is not None:
        path = file_at(at, clean)
        name = None if path is None else path_pattern(path)
    return "" if name is None else f" ({name})"


def _good(analysis: RunAnalysis, *, accepted: int) -> str:
    lineage = analysis.run.lineage
    size = plural(analysis.run.epochs_done, "epoch")
    if lineage.steps_done:  # boosted trees have none
        size = f"{size}, {plural(lineage.steps_done, 'step')}"
    went_on = _went_on(analysis)
    if analysis.error_was_expected:
        raised = analysis.run.ending.raised
        assert raised is not None
        return f"{went_on}{analysis.terms.raised(raised[1].error)}, as expected, after {size}"
    if not analysis.plan.ops:
        return f"{went_on}it finished: {size}"
    if analysis.comparison is not None and analysis.comparison.resized:
        return f"{went_on}with another number of workers it finished: {size}"
    return f"{went_on or 'the job '}came out {_equal(analysis, accepted=accepted)}: {size}"


def _equal(analysis: RunAnalysis, *, accepted: int) -> str:
    equal = "bitwise equal to its baseline"
    if (bands := analysis.allowance.bands) is not None:
        equal = f"within the band of {bands.runs} clean runs"
    elif analysis.plan.expect.loss_tolerance is not None:
        equal = "equal to its baseline within the tolerance it states"
    if accepted:
        equal = "equal to its baseline but for what `expect.accept` allows"
    if analysis.comparison is not None and analysis.comparison.steps_apart:
        equal = f"{equal}, so far as it could be compared"
    return equal


def _went_on(analysis: RunAnalysis) -> str:
    restarts = analysis.restarts
    if not restarts:
        return ""
    if nothing_was_left(analysis):
        return f"the job was restarted after its end ({in_words(analysis)}) and "
    source = source_of(analysis, restarts[-1])
    where = f"from {source or 'scratch'}"
    if len(restarts) > 1:
        return f"the job restarted {len(restarts)} times, the last time {where}, and "
    return f"the job {'started again' if source is None else 'resumed'} {where} and "


def source_of(analysis: RunAnalysis, restart: Restart) -> str | None:
    """Return the checkpoint, or else the file of the job's own, that a restart continued from."""
    checkpoint = next(iter(restart.checkpoints.values()), None)
    if checkpoint is not None:
        return checkpoint + (f" (epoch {restart.epoch - 1})" if restart.epoch else "")
    if not is_resumed(analysis, restart):
        return None
    attempt = restart.attempt
    loads = (analysis.run.files.newest_loaded(attempt.index, rank) for rank in attempt.starts)
    paths = [load.path for _, load in filter(None, loads)]
    paths += [start.path for start in attempt.starts.values() if start.path is not None]
    epoch, step = attempt.place or (0, 0)
    place = f"epoch {epoch}, step {step}" if step else f"epoch {epoch - 1}"
    name = PurePath(paths[0]).name if paths else "what it saved"
    return name + (f" ({place})" if (epoch, step) > (0, 0) else "")


def _bad(analysis: RunAnalysis, results: Sequence[CheckResult]) -> str:
    broken = [result for result in results if result.status == "fail"]
    others = [result.check for result in broken[1:]]
    also = f" (also broken: {', '.join(others)})" if others else ""
    named = cause(analysis, results)
    if named is not None:
        return f"{named}{_unseen(analysis, results)}{also}"
    first = divergence(analysis)
    if broken[0].check != TRAJECTORY or first is None:
        return f"{broken[0].anomalies[0].message}{also}"
    place = f"epoch {first.epoch}" + ("" if first.step is None else f", step {first.step}")
    what = f"`{first.what}`" if first.step is None else first.what
    fell = f"from {place} on its {what} differs from the baseline's: {difference(first)}"
    held = census.in_words(census.candidates(analysis))
    went = "resumed, but" if analysis.restarts else "finished, but"
    unseen = _unseen(analysis, results)
    return f"the job {went} {fell}{_right(analysis, results)}{held}{unseen}"


def _unseen(analysis: RunAnalysis, results: Sequence[CheckResult]) -> str:
    """Return in words what no check sees, where no part of the state is known to be the cause."""
    is_known = any(result.status == "fail" and result.check == STATE for result in results)
    return "" if is_known else describe_unseen_children(analysis)


def _right(analysis: RunAnalysis, results: Sequence[CheckResult]) -> str:
    """Return in words the parts that were shown to be right."""
    shown = {result.check for result in results if result.status == "pass" and result.evidence}
    if not {"resume-point", "cursor", "epochs"} <= shown:
        return ""
    if not analysis.sees_steps:
        return "; the checkpoint and the epochs are right"
    return "; the checkpoint, the epochs and the number of steps are right"
