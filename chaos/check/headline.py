"""The verdict in one sentence, for a person."""

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from chaos.check import census
from chaos.check.analysis import RunAnalysis
from chaos.check.children import describe_unseen_children
from chaos.check.diagnosis import describe_cause
from chaos.check.divergence import describe_difference, find_divergence
from chaos.check.injections import Injection
from chaos.check.restarts import Restart
from chaos.check.resumes import describe_no_work, find_untested_reason, has_no_work_left, is_resumed
from chaos.check.save_operations import find_file
from chaos.check.state import STATE
from chaos.check.trajectory import TRAJECTORY
from chaos.model.expect import VerdictStatus
from chaos.model.history import History
from chaos.model.trigger import (
    SAVE_MOMENTS,
    AtMoment,
    AtRecovery,
    AtStart,
    AtState,
    AtStep,
    build_path_pattern,
)
from chaos.model.verdict import CheckResult
from chaos.wording import format_sentence, plural

NAMED_FAULTS_MAX = 3  # of a run with more, the first alone: the rest are in its report
_MOMENT_TEXTS = {
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
_RECOVERY_TEXTS = {
    "start": "as it began to recover",
    "loading": "while it loaded what an earlier attempt had saved",
    "first_step": "as its first step after the recovery began",
}


def build_headline(
    analysis: RunAnalysis,
    results: Sequence[CheckResult],
    status: VerdictStatus,
    *,
    accepted_count: int = 0,
) -> str:
    """Return the faults, the outcome of the job, and the evidence, in one sentence.

    `accepted_count`: the number of broken promises that the scenario accepts.
    """
    if status == "pass":
        untested_reason = find_untested_reason(analysis)
        success = _describe_success(analysis, accepted=accepted_count)
        return format_sentence(
            f"{describe_faults(analysis)}{success}"
            f"{f'; {untested_reason}' if untested_reason else ''}"
        )
    if status == "fail":
        return format_sentence(f"{describe_faults(analysis)}{_describe_failure(analysis, results)}")
    doubts = (result.summary for result in results if result.status == "inconclusive")
    failed_checks = [result.check for result in results if result.status == "fail"]
    failure_text = f" (broken all the same: {', '.join(failed_checks)})" if failed_checks else ""
    return format_sentence(
        f"it is unknown whether the job came out right: {next(doubts)}{failure_text}"
    )


def describe_faults(analysis: RunAnalysis) -> str:
    """Return the faults in words, as the beginning of a sentence."""
    effective_injections = [injection for injection in analysis.injections if injection.has_effect]
    if not effective_injections:
        return "nothing was done to the job; "
    injection_counts = Counter(injection.op.index for injection in effective_injections)
    first_injections = {
        injection.op.index: injection for injection in reversed(effective_injections)
    }
    names = [
        _describe_fault(analysis, first_injections[index], injection_counts[index])
        for index in dict.fromkeys(injection_counts)
    ]
    if len(names) > NAMED_FAULTS_MAX:
        return f"{names[0]}, and {len(names) - 1} more faults were injected into the run; "
    *earlier_names, last_name = names
    return f"{', '.join(earlier_names)} and {last_name}; " if earlier_names else f"{last_name}; "


def _describe_fault(analysis: RunAnalysis, injection: Injection, attempt_count: int) -> str:
    trigger, fault = injection.op.at, injection.op.fault
    if injection.is_in_storage:  # in the words of storage; the place where it was armed is left out
        details = "; ".join(event.detail for _, event in injection.storage_events[:1])
        return f"{fault.describe_injection(injection.rank, '')}: storage {details}"
    match trigger:
        case AtMoment():
            fault_site = _MOMENT_TEXTS[trigger.moment].format(epoch=trigger.epoch) + _describe_file(
                trigger, analysis.baseline
            )
        case AtStep():
            fault_site = f"at epoch {trigger.epoch}, step {trigger.step}"
        case AtRecovery():
            fault_site = _RECOVERY_TEXTS[trigger.stage]
        case AtStart():
            fault_site = (
                f"as attempt {trigger.starting} {'was launched' if trigger.at_launch else 'began'}"
            )
        case AtState():
            fault_site = f"as Ray's controller came to {trigger.state}"
        case _:
            fault_site = f"{trigger.seconds:g} s after the start"
    repetition = f" in {attempt_count} attempts" if attempt_count > 1 else ""
    return f"{fault.describe_injection(injection.rank, fault_site)}{repetition}"


def _describe_file(trigger: AtMoment, clean_history: History | None) -> str:
    """Return the file of a place, as the place or a clean run names it, in brackets."""
    name = trigger.path
    if name is None and trigger.moment in SAVE_MOMENTS and clean_history is not None:
        path = find_file(trigger, clean_history)
        name = None if path is None else build_path_pattern(path)
    return "" if name is None else f" ({name})"


def _describe_success(analysis: RunAnalysis, *, accepted: int) -> str:
    lineage = analysis.run.lineage
    amount = plural(analysis.run.epochs_done, "epoch")
    if lineage.step_count:  # boosted trees have none
        amount = f"{amount}, {plural(lineage.step_count, 'step')}"
    restart_text = _describe_restarts(analysis)
    if analysis.has_expected_error:
        raised_error = analysis.run.ending.fit_error
        assert raised_error is not None
        return (
            f"{restart_text}{analysis.launcher_words.describe_failure(raised_error[1].error)}, as "
            f"expected, after {amount}"
        )
    if not analysis.plan.ops:
        return f"{restart_text}it finished: {amount}"
    if analysis.comparison is not None and analysis.comparison.resized_steps:
        return f"{restart_text}with another number of workers it finished: {amount}"
    return (
        f"{restart_text or 'the job '}came out "
        f"{_describe_equality(analysis, accepted=accepted)}: {amount}"
    )


def _describe_equality(analysis: RunAnalysis, *, accepted: int) -> str:
    equality = "bitwise equal to its baseline"
    if (bands := analysis.allowance.bands) is not None:
        equality = f"within the band of {bands.runs} clean runs"
    elif analysis.plan.expect.loss_tolerance is not None:
        equality = "equal to its baseline within the tolerance it states"
    if accepted:
        key = "accept_findings" if analysis.plan.expect.accept_findings else "accept"
        equality = f"equal to its baseline but for what `expect.{key}` allows"
    if analysis.comparison is not None and analysis.comparison.unpaired_steps:
        equality = f"{equality}, so far as it could be compared"
    return equality


def _describe_restarts(analysis: RunAnalysis) -> str:
    restarts = analysis.restarts
    if not restarts:
        return ""
    if has_no_work_left(analysis):
        return f"the job was restarted after its end ({describe_no_work(analysis)}) and "
    source = describe_first_resume_source(analysis, restarts[-1])
    origin = f"from {source or 'scratch'}"
    if len(restarts) > 1:
        return f"the job restarted {len(restarts)} times, the last time {origin}, and "
    return f"the job {'started again' if source is None else 'resumed'} {origin} and "


def describe_first_resume_source(analysis: RunAnalysis, restart: Restart) -> str | None:
    """Return the checkpoint, or else the file of the job's own, that a restart continued from."""
    checkpoint = next(iter(restart.checkpoints.values()), None)
    if checkpoint is not None:
        return checkpoint + (f" (epoch {restart.epoch - 1})" if restart.epoch else "")
    if not is_resumed(analysis, restart):
        return None
    attempt = restart.attempt
    loads = (analysis.run.files.find_newest_load(attempt.index, rank) for rank in attempt.starts)
    paths = [load.path for _, load in filter(None, loads)]
    paths += [start.path for start in attempt.starts.values() if start.path is not None]
    epoch, step = attempt.training_place or (0, 0)
    training_place = f"epoch {epoch}, step {step}" if step else f"epoch {epoch - 1}"
    name = PurePath(paths[0]).name if paths else "what it saved"
    return name + (f" ({training_place})" if (epoch, step) > (0, 0) else "")


def _describe_failure(analysis: RunAnalysis, results: Sequence[CheckResult]) -> str:
    failures = [result for result in results if result.status == "fail"]
    first_difference = find_divergence(analysis)
    cause_text = describe_cause(analysis, results)
    # Where the cause is named, the sentence has the first number that differs.
    is_said = {TRAJECTORY} if cause_text is not None and first_difference is not None else set()
    other_checks = [result.check for result in failures[1:] if result.check not in is_said]
    also_failed = f" (also broken: {', '.join(other_checks)})" if other_checks else ""
    if cause_text is not None:
        return f"{cause_text}{_describe_unseen_state(analysis, results)}{also_failed}"
    if failures[0].check != TRAJECTORY or first_difference is None:
        return f"{failures[0].anomalies[0].message}{also_failed}"
    training_place = f"epoch {first_difference.epoch}" + (
        "" if first_difference.step is None else f", step {first_difference.step}"
    )
    value_name = (
        f"`{first_difference.value_name}`"
        if first_difference.step is None
        else first_difference.value_name
    )
    divergence_text = (
        f"from {training_place} on its {value_name} differs from the baseline's: "
        f"{describe_difference(first_difference)}"
    )
    census_text = census.describe_candidates(census.find_candidates(analysis))
    outcome = "resumed, but" if analysis.restarts else "finished, but"
    unseen_text = _describe_unseen_state(analysis, results)
    return (
        f"the job {outcome} "
        f"{divergence_text}{_describe_right_parts(analysis, results)}{census_text}{unseen_text}"
    )


def _describe_unseen_state(analysis: RunAnalysis, results: Sequence[CheckResult]) -> str:
    """Return in words what no check sees, where no part of the state is known to be the cause."""
    is_known = any(result.status == "fail" and result.check == STATE for result in results)
    return "" if is_known else describe_unseen_children(analysis)


def _describe_right_parts(analysis: RunAnalysis, results: Sequence[CheckResult]) -> str:
    """Return in words the parts that were shown to be right."""
    proven_checks = {
        result.check for result in results if result.status == "pass" and result.evidence
    }
    if not {"resume-point", "cursor", "epochs"} <= proven_checks:
        return ""
    if not analysis.has_visible_steps:
        return "; the checkpoint and the epochs are right"
    return "; the checkpoint, the epochs and the number of steps are right"
