"""The verdict in one sentence, for a person."""

from collections import Counter
from collections.abc import Sequence

from chaos.check.diagnosis import cause
from chaos.check.divergence import difference, divergence
from chaos.check.resumes import in_words, nothing_was_left, untested
from chaos.check.strikes import Strike
from chaos.check.trajectory import TRAJECTORY
from chaos.check.trial import Trial
from chaos.model.scenario import VerdictStatus
from chaos.model.trigger import AtMoment, AtRecovery, AtStart, AtState, AtStep, AtTime
from chaos.model.verdict import CheckResult
from chaos.words import plural

_PLACES = {
    "saving": "in the middle of a save of epoch {epoch}",
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
    trial: Trial, results: Sequence[CheckResult], status: VerdictStatus, *, accepted: int = 0
) -> str:
    """Return the faults, the outcome of the job, and the evidence, in one sentence.

    `accepted`: how many broken promises the scenario accepts.
    """
    sentence = _sentence(trial, results, status, accepted=accepted)
    return sentence[:1].upper() + sentence[1:].removesuffix(".") + "."


def _sentence(
    trial: Trial, results: Sequence[CheckResult], status: VerdictStatus, *, accepted: int
) -> str:
    if status == "pass":
        lack = untested(trial)
        return f"{_deeds(trial)}{_good(trial, accepted=accepted)}" + (f"; {lack}" if lack else "")
    if status == "fail":
        return f"{_deeds(trial)}{_bad(trial, results)}"
    doubts = (result.summary for result in results if result.status == "inconclusive")
    broken = [result.check for result in results if result.status == "fail"]
    besides = f" (broken all the same: {', '.join(broken)})" if broken else ""
    return f"it cannot be told whether the job came out right: {next(doubts)}{besides}"


def _deeds(trial: Trial) -> str:
    landed = [strike for strike in trial.strikes if strike.landed]
    if not landed:
        return "nothing was done to the job; "
    times = Counter(strike.op.index for strike in landed)
    firsts = {strike.op.index: strike for strike in reversed(landed)}
    deeds = [_deed(firsts[index], times[index]) for index in dict.fromkeys(times)]
    *others, last = deeds
    return f"{', '.join(others)} and {last}; " if others else f"{last}; "


def _deed(strike: Strike, times: int) -> str:
    at, fault = strike.op.at, strike.op.fault
    if strike.is_in_storage:  # told in storage's own words; where it was armed is left out
        details = "; ".join(event.detail for _, event in strike.effects[:1])
        return f"{fault.in_words(strike.rank, '')}: storage {details}"
    if isinstance(at, AtMoment):
        place = _PLACES[at.moment]
    elif isinstance(at, AtStep):
        place = f"at epoch {at.epoch}, step {at.step}"
    else:
        place = _elsewhere(at)
    again = f" in {times} attempts" if times > 1 else ""
    return f"{fault.in_words(strike.rank, place.format(epoch=at.epoch))}{again}"


def _elsewhere(at: AtRecovery | AtStart | AtState | AtTime) -> str:
    match at:
        case AtRecovery():
            return _RECOVERY[at.stage]
        case AtStart():
            return f"as attempt {at.starting} {'was launched' if at.at_launch else 'began'}"
        case AtState():
            return f"as Ray's controller came to {at.state}"
        case AtTime():
            return f"{at.seconds:g} s after the start"


def _good(trial: Trial, *, accepted: int) -> str:
    lineage = trial.run.lineage
    size = plural(len(lineage.commits), "epoch")
    if lineage.steps_done:  # boosted trees have none
        size = f"{size}, {plural(lineage.steps_done, 'step')}"
    went_on = _went_on(trial)
    if trial.error_was_expected:
        assert trial.run.ending.raised is not None
        return (
            f"{went_on}fit() raised {trial.run.ending.raised[1].error}, as expected, after {size}"
        )
    if not trial.plan.ops:
        return f"{went_on}it finished: {size}"
    if trial.comparison is not None and trial.comparison.resized:
        return f"{went_on}with another number of workers it finished: {size}"
    return f"{went_on or 'the job '}came out {_equal(trial, accepted=accepted)}: {size}"


def _equal(trial: Trial, *, accepted: int) -> str:
    equal = "bitwise equal to its baseline"
    if (bands := trial.leeway.bands) is not None:
        equal = f"within the band of {bands.runs} clean runs"
    elif trial.plan.expect.loss_tolerance is not None:
        equal = "equal to its baseline within the tolerance it states"
    if accepted:
        equal = "equal to its baseline but for what `expect.accept` allows"
    if trial.comparison is not None and trial.comparison.steps_apart:
        equal = f"{equal}, so far as it could be compared"
    return equal


def _went_on(trial: Trial) -> str:
    restarts = trial.restarts
    if not restarts:
        return ""
    if nothing_was_left(trial):
        return f"the job was restarted after its end ({in_words(trial)}) and "
    last = restarts[-1]
    start = next(iter(last.handed.values()), None)
    where = "from scratch"
    if start is not None:
        where = f"from {start}" + (f" (epoch {last.epoch - 1})" if last.epoch else "")
    if len(restarts) > 1:
        return f"the job restarted {len(restarts)} times, the last time {where}, and "
    return f"the job {'started again' if start is None else 'resumed'} {where} and "


def _bad(trial: Trial, results: Sequence[CheckResult]) -> str:
    broken = [result for result in results if result.status == "fail"]
    others = [result.check for result in broken[1:]]
    also = f" (also broken: {', '.join(others)})" if others else ""
    named = cause(trial, results)
    if named is not None:
        return f"{named}{also}"
    first = divergence(trial)
    if broken[0].check != TRAJECTORY or first is None:
        return f"{broken[0].anomalies[0].message}{also}"
    place = f"epoch {first.epoch}" + ("" if first.step is None else f", step {first.step}")
    what = "loss" if first.what == "loss" else f"`{first.what}`"
    fell = f"from {place} on its {what} differs from the baseline's: {difference(first)}"
    went = "resumed, but" if trial.restarts else "finished, but"
    return f"the job {went} {fell}{_right(trial, results)}"


def _right(trial: Trial, results: Sequence[CheckResult]) -> str:
    """Return in words the parts that were shown to be right."""
    shown = {result.check for result in results if result.status == "pass" and result.evidence}
    if {"resume-point", "cursor", "epochs"} <= shown:
        if not trial.sees_steps:
            return "; the checkpoint and the epochs are right"
        return "; the checkpoint, the epochs and the number of steps are right"
    return ""
