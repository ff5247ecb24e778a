"""The judgement on a run with a planted loss: whether the audit would have caught it.

A claim is made only of a run in which the loss was planted, the fault happened, and the job went on
to train.
"""

import re
from collections.abc import Collection

from chaos.audit.card import LossResult, PlantedLoss
from chaos.check.analysis import RunAnalysis
from chaos.check.census import GIVEN_BACK
from chaos.check.evidence import FAULTS_HAPPENED
from chaos.check.outcome import OUTCOME
from chaos.check.state import STATE
from chaos.extensions.controls.selection import Control, find_owner
from chaos.model.verdict import Verdict

#: the results that, if equal, show that a loss changed nothing
_TRAINED_RESULTS = ("steps", "state")
#: begins the part of a headline that names values of the job; see `chaos.check.census`
_VALUES_BEGIN = "; at the resume "
_QUOTED = re.compile(r"`([^`]+)`")


def judge_loss(
    control: Control,
    verdict: Verdict,
    planted_paths: Collection[str],
    restored_parts: Collection[str] = (),
) -> PlantedLoss:
    """Return what came of a planted loss, by the verdict on its run.

    `restored_parts`: the parts of the state that had all come back as the next step began.
    """
    reason = _find_unplanted_reason(verdict)
    if control.path not in planted_paths:
        reason = "its value could not be set"
    elif control.is_named(restored_parts):
        reason = "the job had brought it back before its next step"
    if reason is not None:
        return describe_unplanted(control, reason)
    result, reason = _find_result(verdict)
    is_named = result == "found" and control.is_named(list_names(control, verdict))
    return PlantedLoss(part=control.part, result=result, is_named=is_named, reason=reason)


def _find_unplanted_reason(verdict: Verdict) -> str | None:
    """Return why a run shows nothing of a loss; None if it does."""
    if FAULTS_HAPPENED not in {r.check for r in verdict.results if r.status == "pass"}:
        return "the fault before the resume did not happen again"
    broken_checks = {result.check for result in verdict.broken}
    if verdict.status == "fail" and broken_checks <= {OUTCOME}:
        return f"the job does not go on without it: {verdict.headline}"
    return None


def _find_result(verdict: Verdict) -> tuple[LossResult, str]:
    """Return what became of a loss, and what shows that."""
    if verdict.status == "fail":
        return "found", verdict.headline
    if verdict.status == "inconclusive":
        return "in doubt", verdict.headline
    equal_results = {result.name for result in verdict.compared if result.status == "equal"}
    if equal_results.issuperset(_TRAINED_RESULTS):
        return "no consequence", "all later inputs, losses and states are the baseline's"
    return "not found", verdict.headline


def describe_unplanted(control: Control, reason: str) -> PlantedLoss:
    """Return a loss that was not planted."""
    return PlantedLoss(part=control.part, result="not planted", reason=reason)


def list_restored_parts(analysis: RunAnalysis, attempt: int) -> set[str]:
    """Return the parts of the state that each rank had back as an attempt began to train.

    Of an optimizer's, none where one of them was lost.
    """
    rows = [row for row in analysis.state_rows if row.attempt == attempt]
    lost_parts = {row.component for row in rows if row.standing != "restored"}
    lost_owners = {owner for part in lost_parts if (owner := find_owner(part))}
    restored_parts = {row.component for row in rows} - lost_parts
    return {part for part in restored_parts if find_owner(part) not in lost_owners}


def list_names(control: Control, verdict: Verdict) -> set[str]:
    """Return what the findings of a run name of the kind that a control is of.

    A metric may have the name of a variable, and is none.
    """
    if not control.is_state:
        return set(_QUOTED.findall(verdict.headline.partition(_VALUES_BEGIN)[2]))
    anomalies = [a for result in verdict.broken if result.check == STATE for a in result.anomalies]
    names = {part for anomaly in anomalies for part in anomaly.parts}
    return names | {generator for generator in GIVEN_BACK if generator in verdict.headline}
