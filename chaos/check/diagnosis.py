"""The parts of the state at each resume, as a table, and the defect in one sentence."""

from collections.abc import Iterator, Sequence

from chaos.check.analysis import RunAnalysis
from chaos.check.artifacts import ARTIFACTS
from chaos.check.batch import BATCH
from chaos.check.blame import find_blame
from chaos.check.divergence import describe_difference, find_divergence
from chaos.check.epochs import CURSOR, EPOCHS
from chaos.check.inputs import InputComparison
from chaos.check.metrics import METRICS, SELECTION
from chaos.check.part_facts import describe_value
from chaos.check.restarts import Restart
from chaos.check.resume import AGREEMENT, COMMITTED_ONLY, RESUME_POINT, START_DECISION
from chaos.check.samples import SAMPLE_ORDER, SAMPLES
from chaos.check.state import RANK_RANDOMNESS, REPLICAS, STATE, find_harmless_rows
from chaos.check.trajectory import TRAJECTORY
from chaos.model.diagnosis import Part, Resume, Standing
from chaos.model.events.state import GROUPS, find_group
from chaos.model.verdict import Anomaly, CheckResult
from chaos.resume.state_at_resume import ResumeRow
from chaos.resume.state_snapshots import is_rng
from chaos.wording import plural

NAMED_MAX = 3
# The checks whose first anomaly names a cause in the state that came back, or did not.
CAUSES = (
    START_DECISION,
    COMMITTED_ONLY,
    AGREEMENT,
    RESUME_POINT,
    CURSOR,
    STATE,
    RANK_RANDOMNESS,
    REPLICAS,
    SELECTION,
    BATCH,
    SAMPLE_ORDER,
    SAMPLES,
)

# The checks that name what came out otherwise, and not the state that is the reason.
EFFECTS = (
    CURSOR,
    SELECTION,
    BATCH,
    SAMPLE_ORDER,
    SAMPLES,
    EPOCHS,
    METRICS,
    ARTIFACTS,
    TRAJECTORY,
)


def diagnose_resumes(analysis: RunAnalysis, results: Sequence[CheckResult]) -> tuple[Resume, ...]:
    """Return one row per restart that started, with the parts of the state as it entered."""
    return tuple(
        _build_resume(analysis, restart, results)
        for restart in analysis.restarts
        if restart.attempt.starts
    )


def describe_cause(analysis: RunAnalysis, results: Sequence[CheckResult]) -> str | None:
    """Return the defect of a resume and the first number that differs; None if none is known."""
    failed_result = next((r for r in results if r.status == "fail"), None)
    if failed_result is None or failed_result.check not in CAUSES:
        return None
    first_anomaly, *other_anomalies = failed_result.anomalies
    return (
        first_anomaly.message
        + _describe_consequence(analysis, failed_result)
        + _describe_other_causes(first_anomaly, other_anomalies)
    )


def _describe_other_causes(first_anomaly: Anomaly, other_anomalies: Sequence[Anomaly]) -> str:
    """Return in words the further causes that one check found, by part."""
    first_parts = dict.fromkeys(anomaly.parts[0] for anomaly in other_anomalies if anomaly.parts)
    other_parts = [part for part in first_parts if part not in first_anomaly.parts]
    if not other_parts:
        return ""
    more_text = f" and {len(other_parts) - NAMED_MAX} more" if len(other_parts) > NAMED_MAX else ""
    return f". Besides, {', '.join(other_parts[:NAMED_MAX])}{more_text} did not come back"


def _build_resume(
    analysis: RunAnalysis, restart: Restart, results: Sequence[CheckResult]
) -> Resume:
    attempt = restart.attempt
    epoch, step = attempt.training_place or (0, 0)
    parts = sorted(
        _find_parts(analysis, restart), key=lambda p: (GROUPS.index(p.group), p.component, p.rank)
    )
    failure = _find_failure(restart, results)
    return Resume(
        attempt=attempt.index,
        epoch=epoch,
        step=step,
        checkpoint=next(iter(restart.checkpoints.values()), None),
        sound=failure is None,
        sentence=_describe_restored_parts(parts)
        if failure is None
        else _describe_failure(analysis, restart, failure),
        parts=tuple(parts),
        events=tuple(start.number for start in attempt.starts.values()),
        grounds=attempt.grounds,
    )


def _find_failure(
    restart: Restart, results: Sequence[CheckResult]
) -> tuple[CheckResult, list[Anomaly]] | None:
    """Return the most specific check with anomalies of this attempt, or of work after it."""
    first_number = min(start.number for start in restart.attempt.starts.values())
    final_number = restart.attempt.steps[-1].number if restart.attempt.steps else first_number
    for result in results:
        if result.check in CAUSES and result.status == "fail":
            attempt_anomalies = [
                a
                for a in result.anomalies
                if any(first_number <= n <= final_number for n in a.events)
            ]
            if attempt_anomalies:
                return result, attempt_anomalies
    return None


def _describe_failure(
    analysis: RunAnalysis, restart: Restart, failure: tuple[CheckResult, Sequence[Anomaly]]
) -> str:
    """Return the defect of one resume, with generators that may not matter."""
    result, (first_anomaly, *other_anomalies) = failure
    named_parts = {name for anomaly in (first_anomaly, *other_anomalies) for name in anomaly.parts}
    rows = find_blame(analysis, restart).without_consequence
    harmless_parts = {row.component for row in rows if is_rng(row.component)} - named_parts
    generator_text = (
        f". {', '.join(sorted(harmless_parts))} did not come back either" if harmless_parts else ""
    )
    return (
        first_anomaly.message
        + _describe_consequence(analysis, result)
        + _describe_other_causes(first_anomaly, other_anomalies)
        + generator_text
    )


def _describe_consequence(analysis: RunAnalysis, failed_result: CheckResult) -> str:
    differing_number = find_divergence(analysis)
    if differing_number is None:
        return ""
    place_text = f"epoch {differing_number.epoch}" + (
        "" if differing_number.step is None else f", step {differing_number.step}"
    )
    number_name = (
        f"`{differing_number.value_name}`"
        if differing_number.step is None
        else differing_number.value_name
    )
    diverging_restarts = [
        r for r in analysis.restarts if r.attempt.index == differing_number.attempt
    ]
    # A schedule or a momentum cannot change the loss of the first forward call after a resume. If
    # that differs nevertheless, the sentence must not call the one the reason of the other.
    is_consistent = failed_result.check != STATE or all(
        find_blame(analysis, r).is_explained for r in diverging_restarts
    )
    has_other_inputs = any(
        find_blame(analysis, restart).earliest_difference.differing_inputs
        for restart in diverging_restarts
    )
    reason = "since its inputs are others" if has_other_inputs else "for a reason that was not seen"
    link_text = "From" if is_consistent else f"Besides, {reason}, from"
    return (
        f". {link_text} {place_text} on, the {number_name} differs: "
        f"{describe_difference(differing_number)}"
    )


def _describe_restored_parts(parts: Sequence[Part]) -> str:
    compared_parts = [part for part in parts if part.standing != "not compared"]
    if not compared_parts:
        return "nothing of the state could be compared"
    lost_components = sorted(
        {part.component for part in compared_parts if part.standing != "restored"}
    )
    if lost_components:
        lost_text = ", ".join(lost_components)
        return (
            f"all that matters came back; {lost_text} did not, and nothing was seen to depend on it"
        )
    return (
        f"{plural(len({part.component for part in compared_parts}), 'part')} of the state came back"
    )


# -- the parts ------------------------------------------------------------------------------


def _find_parts(analysis: RunAnalysis, restart: Restart) -> Iterator[Part]:
    harmless_rows = set(find_harmless_rows(analysis))
    rows = [row for row in analysis.state_rows if row.attempt == restart.attempt.index]
    for row in rows:
        if not _is_covered(row, rows):
            yield _build_part(row, matters=row not in harmless_rows)
    if (
        analysis.inputs is not None
        and analysis.inputs.has_run_inputs
        and analysis.inputs.has_baseline_inputs
    ):
        yield from _build_input_parts(restart, analysis.inputs)
    yield from _build_cursor_parts(analysis, restart)


def _is_covered(row: ResumeRow, rows: Sequence[ResumeRow]) -> bool:
    """Return whether a row is an optimizer's `state`, and its content has rows of its own.

    It records which parameters have which state. Where only that did not come back, no other row
    shows it.
    """
    optimizer, _, name = row.component.rpartition(".")
    if name != "state" or row.group != "optimizer":
        return False
    group_rows = (r for r in rows if r is not row and (r.rank, r.group) == (row.rank, row.group))
    inner_rows = [
        inner_row for inner_row in group_rows if inner_row.component.rpartition(".")[0] == optimizer
    ]
    # It stood beside the kinds of state that say the same, and was counted as one more.
    return any(inner_row.is_broken or not row.is_broken for inner_row in inner_rows)


def _build_part(row: ResumeRow, *, matters: bool) -> Part:
    return Part(
        group=find_group(row.component),
        component=row.component,
        rank=row.rank,
        standing=row.standing,
        matters=matters,
        ours=describe_value(row.actual, row.group),
        baseline=describe_value(row.expected, row.group),
    )


def _build_input_parts(restart: Restart, inputs: InputComparison) -> Iterator[Part]:
    differences = {
        (difference.rank, difference.epoch): difference for difference in inputs.differing_epochs
    }
    for rank, start in sorted(restart.attempt.starts.items()):
        key = (rank, start.epoch)
        if (
            key not in inputs.run_lineage.steps
            or key not in inputs.baseline_lineage.steps
            or not inputs.is_repeatable
        ):
            standing: Standing = "not compared"
            run_text = ""
        elif key not in differences:
            standing, run_text = "restored", f"epoch {start.epoch}"
        else:
            other_epoch = inputs.find_source_epoch(differences[key].steps)
            # Inputs of the first epoch come from an order that began anew, others from some other
            # place.
            standing = "reset" if other_epoch == 0 else "different"
            run_text = "other inputs" if other_epoch is None else f"epoch {other_epoch}"
        yield Part(
            group="data order",
            component="inputs",
            rank=rank,
            standing=standing,
            ours=run_text,
            baseline=f"epoch {start.epoch}",
        )


def _build_cursor_parts(analysis: RunAnalysis, restart: Restart) -> Iterator[Part]:
    step_offset = analysis.input_offsets.get(restart.attempt.index, 0)
    for rank, start in sorted(restart.attempt.starts.items()):
        baseline_text = f"epoch {start.epoch}, step {start.step}"
        standing: Standing = "different" if step_offset else "restored"
        run_text = f"{baseline_text} {step_offset:+d} steps" if step_offset else baseline_text
        if restart.attempt.index in analysis.scratch_attempts:
            standing, run_text = "reset", "the beginning"
        elif analysis.reference is None or rank not in restart.attempt.first_step_event_numbers:
            standing, run_text = "not compared", ""
        yield Part(
            group="cursor",
            component="cursor",
            rank=rank,
            standing=standing,
            ours=run_text,
            baseline=baseline_text,
        )
