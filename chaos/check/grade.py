"""The severity of a broken promise by what came of it, and those that a scenario accepts.

wrong result       as long as nothing else is shown
work lost          a resume threw away saved work, no other promise is broken, and
                   losses, metrics, state and files are the baseline's in the end
not reproducible   every part of the state came back at every resume but
                   generators, every step and sample is there, and the first
                   number that differs follows from what was drawn anew: the
                   generators moved in that step, as far as that was seen
cosmetic           no loss and no part of the state differs, and of metrics
                   only counters, which are written to logs
"""

from collections.abc import Sequence

from chaos.check.analysis import RunAnalysis
from chaos.check.blame import blamed, follows_a_first_forward
from chaos.check.divergence import divergence, left_before
from chaos.check.metrics import counters
from chaos.check.progress import LOST_WORK, RECOVERY
from chaos.check.restarts import Restart
from chaos.check.resume import RESUME_POINT, START_DECISION
from chaos.check.samples import SAMPLE_ORDER, SAMPLES
from chaos.check.saved_model import is_in_file
from chaos.check.state_at_resume import Row
from chaos.check.state_comparison import states_of
from chaos.check.state_snapshots import is_rng, parts_of
from chaos.check.trajectory import TRAJECTORY
from chaos.model.places import RankEpoch
from chaos.model.scenario import Acceptable, Expect
from chaos.model.severity import Severity
from chaos.model.verdict import CheckResult

# The checks that show that training continued at its place, over as many steps.
_GROUNDS = ("agreement", "resume-point", "cursor", "epochs", "batch")
ACCEPTED = "accepted as "  # opens a note on a broken promise that is accepted
_MEANT: dict[Acceptable, Severity] = {
    "rng": "not reproducible",
    "lost-work": "work lost",
    "cosmetic": "cosmetic",
}
# The checks that are broken where saved work is trained again; that takes its time, too.
_COSTLY = (START_DECISION, RESUME_POINT, LOST_WORK)
_DRAWN = (SAMPLE_ORDER, SAMPLES)


def graded(analysis: RunAnalysis, results: Sequence[CheckResult]) -> tuple[CheckResult, ...]:
    """Return the results with the severity of lost work, and of a trajectory that differs."""
    broken = {result.check for result in results if result.status == "fail"}
    right = any(r.check == TRAJECTORY and r.status == "pass" and r.evidence for r in results)
    severities: dict[str, Severity] = {}
    if TRAJECTORY in broken:
        severities[TRAJECTORY] = _of_trajectory(analysis, results)
    if right and broken <= {*_COSTLY, RECOVERY}:  # all that is broken is the cost of a resume
        severities |= dict.fromkeys(_COSTLY, "work lost")
    return tuple(
        _with(result, severities[result.check]) if result.check in severities else result
        for result in results
    )


def accepted(
    expect: Expect, results: Sequence[CheckResult]
) -> tuple[tuple[CheckResult, ...], tuple[str, ...]]:
    """Return the results, passed if nothing is worse than what is accepted, with notes of it.

    Where inputs may be drawn anew, so may be what is shown to follow from them alone.
    """
    broken = [result for result in results if result.status == "fail"]
    allowed = {_MEANT[word] for word in expect.accept}
    is_drawn = expect.sampling == "resampled" and any(r.check in _DRAWN for r in broken)
    drawn = (*_DRAWN, TRAJECTORY) if is_drawn else ()
    if not broken or not all(
        result.severity in allowed or (result.check in drawn and result.severity == _MEANT["rng"])
        for result in broken
    ):
        return tuple(results), ()
    notes = tuple(f"{ACCEPTED}{r.severity}: {r.check}: {r.summary}" for r in broken)
    return tuple(_let_pass(r) if r in broken else r for r in results), notes


def _let_pass(result: CheckResult) -> CheckResult:
    said = f"{ACCEPTED}{result.severity}: {result.summary}"
    return result.model_copy(update={"status": "pass", "anomalies": (), "summary": said})


def _with(result: CheckResult, severity: Severity) -> CheckResult:
    anomalies = tuple(a.model_copy(update={"severity": severity}) for a in result.anomalies)
    return result.model_copy(update={"anomalies": anomalies})


def _of_trajectory(analysis: RunAnalysis, results: Sequence[CheckResult]) -> Severity:
    comparison = analysis.comparison
    if comparison is None:
        return "wrong result"
    lasting = states_of(analysis)
    is_even = comparison.losses.first is None and (lasting is None or not lasting.differing)
    if is_even and comparison.metrics.other <= counters(analysis):
        return "cosmetic"
    return "not reproducible" if only_random(analysis, results) else "wrong result"


def only_random(analysis: RunAnalysis, results: Sequence[CheckResult]) -> bool:
    """Return whether only random streams are shown to differ from the baseline's."""
    named = {result.check: result for result in results}
    first = divergence(analysis)
    if first is None or not analysis.allowance.is_exact:
        return False
    if any(named[check].status != "pass" for check in _GROUNDS if check in named):
        return False
    order = named[SAMPLE_ORDER]
    is_drawn = bool(order.anomalies) and order.severity == "not reproducible"
    counted = named[SAMPLES]
    if counted.severity == "wrong result" or not (
        is_drawn or (counted.status == "pass" and counted.evidence)
    ):
        return False
    started = [restart for restart in analysis.restarts if restart.attempt.first_steps]
    return all(_came_back(analysis, restart) for restart in started) and any(
        _parts_by_chance(analysis, restart, order)
        for restart in started
        if restart.attempt.index == first.attempt
    )


def _parts_by_chance(analysis: RunAnalysis, restart: Restart, order: CheckResult) -> bool:
    """Return whether the first difference after a resume was drawn: numbers at once, or inputs."""
    blame = blamed(analysis, restart)
    drew = blame.causes and all(is_rng(row.component) for row in blame.rows)
    if order.anomalies:
        return bool(blame.after.inputs) and order.severity == "not reproducible"
    return bool(drew) and blame.at_once


def _came_back(analysis: RunAnalysis, restart: Restart) -> bool:
    """Return whether every part of each rank but its generators was seen to be right."""
    rows = [row for row in analysis.components if row.attempt == restart.attempt.index]
    solid = [row for row in rows if not is_rng(row.component)]
    models = {row.rank for row in solid if row.group == "model"}
    return models >= set(restart.attempt.first_steps) and all(
        _is_right(analysis, restart, row) for row in solid
    )


def _is_right(analysis: RunAnalysis, restart: Restart, row: Row) -> bool:
    if row.standing == "restored" or row in blamed(analysis, restart).without_consequence:
        return True
    if follows_a_first_forward(analysis, restart, row):
        return True
    # Once numbers differ, the state to restore is the run's own at the end of the last epoch. Where
    # that was not seen, the file that was read shows whether the model is the one that was saved.
    is_late = restart.attempt.place is not None and left_before(analysis, *restart.attempt.place)
    if row.standing != "different" or not is_late or row.of_own or row.ours is None:
        return False
    left = None if row.step else analysis.run.snapshots.left.get(RankEpoch(row.rank, row.epoch - 1))
    own = parts_of(left).get(row.component)
    if own is not None:
        return own.digest == row.ours.digest
    return row.group != "model" or is_in_file(analysis, row, row.ours)
