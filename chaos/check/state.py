"""Checks of the job's state at a resume: each part came back, and ranks stay what they were."""

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from chaos.check.analysis import RunAnalysis
from chaos.check.anomaly import build_anomaly
from chaos.check.blame import EFFECT_STEPS, find_blame
from chaos.check.kinds.state import GeneratorCopied, PartChanged, UnequalReplicas
from chaos.check.part_facts import build_part_facts
from chaos.check.result import (
    builtin_check,
    conclude,
    judge_missing_evidence,
    judge_no_restart,
    not_applicable,
)
from chaos.model.event import SetAside, StateSeen
from chaos.model.events.state import find_group
from chaos.model.places import AttemptRank, RankEpoch
from chaos.model.verdict import Anomaly, CheckDoubt, CheckResult
from chaos.resume.state_at_resume import ResumeRow
from chaos.resume.state_snapshots import holds_nothing, index_parts, is_rng, locate_snapshot
from chaos.wording import plural

# -- state -----------------------------------------------------------------------------------------


STATE = "state"


@builtin_check(STATE, asks="Did every part of the job's state come back at each resume?")
def check_state(analysis: RunAnalysis) -> CheckResult:
    """Require that a rank enters a resumed attempt with the baseline's state at that place.

    Parts are model, optimizer, settings, schedule, scaler, averaged models, generators and what the
    job declares. Causes that can have changed the first number that differs come first.

    A part that differs from the baseline before any fault is compared with the run's own at the
    commit, or not at all. So is, within a tolerance, a part that the run itself had saved. A part
    without which the model is the baseline's to the last bit is only noted. A generator is a
    finding only where numbers depend on it and nothing else explains the difference
    (huggingface/transformers PR #11582). A difference in a run that had left its baseline before
    the resume is a consequence.
    """
    if not analysis.restarts:
        return judge_no_restart(STATE, analysis)
    blind_result = _find_blind_result(STATE, analysis, "state")
    if blind_result is not None:
        return blind_result
    if analysis.no_step_reason is not None:
        return not_applicable(STATE, analysis.no_step_reason)
    compared_rows = [row for row in analysis.state_rows if row.standing != "not compared"]
    # Where the baseline's state was not looked at, equal losses to the last bit do instead: from
    # another state no loss would be. In each resumed attempt some, or an attempt without any would
    # be green by the others.
    if (
        not compared_rows
        and _has_equal_losses(analysis)
        and not [*_explain_missing_snapshots(analysis)]
    ):
        return not_applicable(
            STATE, "no part of the state could be compared there, and every loss is the same"
        )
    broken_names = {row.component for row in find_broken_rows(analysis)}
    harmless_names = sorted({row.component for row in find_harmless_rows(analysis)} - broken_names)
    note = f"; {', '.join(harmless_names)} did not come back, and nothing was seen to depend on it"
    return conclude(
        STATE,
        anomalies=list(_find_state_anomalies(analysis)),
        doubts=list(
            _find_state_doubts(analysis) if compared_rows else _explain_missing_snapshots(analysis)
        ),
        evidence=len(compared_rows),
        summary=f"{plural(len({r.component for r in compared_rows}), 'part')} of the state came "
        f"back "
        f"at {plural(len(analysis.restarts), 'resume')}{note if harmless_names else ''}",
        measures={
            "components_compared": len(compared_rows),
            "components_broken": len(find_broken_rows(analysis)),
            "components_without_consequence": ", ".join(harmless_names) or None,
            "components_not_repeatable": ", ".join(sorted(analysis.unstable_components)) or None,
        },
    )


def _find_blind_result(
    check: str, analysis: RunAnalysis, subject: str, is_relevant: Callable[[str], bool] = bool
) -> CheckResult | None:
    is_run_seen, is_baseline_seen = (
        tables is not None and any(map(is_relevant, tables.snapshots.part_names))
        for tables in (analysis.run, analysis.reference)
    )
    return judge_missing_evidence(
        check,
        analysis,
        subject,
        has_run_evidence=is_run_seen,
        has_baseline_evidence=is_baseline_seen,
    )


def find_broken_rows(analysis: RunAnalysis) -> tuple[ResumeRow, ...]:
    """Return the rows that are findings, the likely cause of each resume first."""
    return tuple(row for restart in analysis.restarts for row in find_blame(analysis, restart).rows)


def find_harmless_rows(analysis: RunAnalysis) -> tuple[ResumeRow, ...]:
    """Return the rows that did not come back, and that no observation depends on."""
    blames = (find_blame(analysis, restart) for restart in analysis.restarts)
    return tuple(row for blame in blames for row in blame.without_consequence)


def _find_state_anomalies(analysis: RunAnalysis) -> Iterator[Anomaly]:
    """Yield one anomaly per cause; random streams alone make a result not reproducible."""
    for restart in analysis.restarts:
        blame = find_blame(analysis, restart)
        for cause in blame.causes:
            is_random = blame.is_immediate and all(is_rng(row.component) for row in cause.rows)
            facts = build_part_facts(analysis, cause.rows)
            yield build_anomaly(
                facts,
                analysis.launcher_words,
                events=(row.number for row in cause.rows),
                parts=dict.fromkeys(row.component for row in cause.rows),
                severity="not reproducible" if is_random else "wrong result",
                is_unexplained=isinstance(facts, PartChanged),
            )


def _find_state_doubts(analysis: RunAnalysis) -> Iterator[str]:
    rounded_names = sorted({row.component for row in analysis.state_rows if row.is_rounded})
    if rounded_names:
        yield (
            f"{', '.join(rounded_names)} came back near to what the run had saved, and not the "
            f"same to "
            "the last bit: saved in fewer bits than it is trained in, or of another moment"
        )
    # A rank that was seen to enter, and whose parts have no counterpart, is no doubt: it was looked
    # at.
    compared_ranks = {(row.attempt, row.rank) for row in analysis.state_rows}
    setup_attempts = {event.attempt for _, event in analysis.history.select_events(SetAside)}
    for restart in analysis.restarts:
        attempt = restart.attempt
        missing_ranks = [
            r for r in attempt.first_step_event_numbers if (attempt.index, r) not in compared_ranks
        ]
        entered_ranks = [
            r for r in missing_ranks if (attempt.index, r) in analysis.run.snapshots.entries
        ]
        # Steps that each start repeats came first; what follows them has the baseline's losses, and
        # enough of these for any part of the state to show.
        has_repeated_setup = (
            attempt.index in setup_attempts
            and _has_equal_losses(analysis)
            and all(len(attempt.steps.steps_by_rank[r]) >= EFFECT_STEPS for r in missing_ranks)
        )
        if missing_ranks and not entered_ranks and not has_repeated_setup:
            yield f"how rank {missing_ranks[0]} entered attempt {attempt.index} was not seen"


def _explain_missing_snapshots(analysis: RunAnalysis) -> Iterator[str | CheckDoubt]:
    """Yield why nothing is compared: a restart goes on where the baseline was not looked at."""
    yield from _find_state_doubts(analysis)
    assert analysis.reference is not None
    if _has_equal_losses(analysis):
        return
    for restart in analysis.restarts:
        attempt = restart.attempt.index
        for rank in sorted(restart.attempt.starts):
            _, snapshot = analysis.run.snapshots.entries.get(AttemptRank(attempt, rank), (0, None))
            if snapshot is not None and snapshot.step:
                message = (
                    f"attempt {attempt} goes on from step {snapshot.step} of epoch "
                    f"{snapshot.epoch}, where the baseline's state was not looked at: "
                    "`watch: {entries: steps}` looks at every step"
                )
                yield CheckDoubt(message=message, kind="unwatched-step")
                return


def _has_equal_losses(analysis: RunAnalysis) -> bool:
    """Return whether every loss is the baseline's to the last bit, in each resumed attempt some.

    From another state no loss is.
    """
    comparison = analysis.comparison
    if (
        comparison is None
        or not analysis.allowance.is_exact
        or comparison.losses.earliest_pair is not None
    ):
        return False
    compared_attempts = {
        step.attempt
        for group in analysis.aligned_steps
        for step, due in group.pairs()
        if due is not None and step.losses and due.losses
    }
    trained_attempts = {
        restart.attempt.index for restart in analysis.restarts if restart.attempt.steps
    }
    return bool(trained_attempts) and trained_attempts <= compared_attempts


# -- rank-randomness -------------------------------------------------------------------------------


RANK_RANDOMNESS = "rank-randomness"


@builtin_check(RANK_RANDOMNESS, asks="Do ranks still draw random numbers of their own?")
def check_rank_randomness(analysis: RunAnalysis) -> CheckResult:
    """Require that no rank continues with another rank's generator, if they differ in the baseline.

    If only rank 0 saves its generator and every rank loads it, all have the same dropout
    (NVIDIA/Megatron-LM PR #6858). It fails only where numbers differ after the resume: a job that
    draws nothing loses nothing.

    With another number of workers no number shows that. The check is then inconclusive where ranks
    drew from one generator that are apart in the baseline: new ranks were given none, or another
    rank's (TensorAuto/OpenTau PR #180).
    """
    if not analysis.restarts:
        return judge_no_restart(RANK_RANDOMNESS, analysis)
    blind_result = _find_blind_result(RANK_RANDOMNESS, analysis, "generators", is_relevant=is_rng)
    if blind_result is not None:
        return blind_result
    compared_rows = [row for row in analysis.state_rows if is_rng(row.component)]
    doubts = list(_find_shared_generators(analysis))
    if analysis.no_step_reason is not None or not compared_rows:
        return not_applicable(
            RANK_RANDOMNESS, analysis.no_step_reason or "no generator could be compared"
        )
    copied_rows: dict[tuple[int, str, int], list[ResumeRow]] = {}
    for restart in analysis.restarts:
        for row in find_blame(analysis, restart).random_rows:
            if row.copied_from is not None:
                key = (row.attempt, row.component, row.copied_from)
                copied_rows.setdefault(key, []).append(row)
    anomalies = [
        build_anomaly(
            GeneratorCopied(
                name, tuple(sorted({row.rank for row in rows})), owner, epoch=rows[0].epoch
            ),
            analysis.launcher_words,
            events=(row.number for row in rows),
        )
        for (_, name, owner), rows in copied_rows.items()
    ]
    return conclude(
        RANK_RANDOMNESS,
        anomalies=anomalies,
        doubts=doubts,
        evidence=len(compared_rows),
        summary=f"{plural(len(analysis.restarts), 'resume')}; ranks draw their own random numbers",
    )


def _find_shared_generators(analysis: RunAnalysis) -> Iterator[str]:
    """Yield the generators that ranks share since they are another number, and draw from."""
    assert analysis.reference is not None
    run_snapshots, baseline_snapshots = analysis.run.snapshots, analysis.reference.snapshots
    for attempt in sorted(analysis.resized_attempts):
        first_ranks: dict[tuple[str, str], int] = {}
        for rank in sorted(r for number, r in run_snapshots.entries if number == attempt):
            _, snapshot = run_snapshots.entries[AttemptRank(attempt, rank)]
            exit_snapshot = run_snapshots.exit_snapshots.get(RankEpoch(rank, snapshot.epoch))
            exit_parts = index_parts(
                exit_snapshot
                if exit_snapshot is not None and exit_snapshot.attempt == attempt
                else None
            )
            state_place = locate_snapshot(snapshot)
            for name, part in index_parts(snapshot).items():
                # A generator that nothing draws from in the attempt may be the same on all ranks.
                if not is_rng(name) or exit_parts.get(name, part).digest == part.digest:
                    continue
                other_rank = first_ranks.setdefault((name, part.digest), rank)
                rank_part, other_part = (
                    index_parts(
                        baseline_snapshots.latest_snapshots.get(state_place._replace(rank=number))
                    ).get(name)
                    for number in (rank, other_rank)
                )
                if (
                    rank_part is not None
                    and other_part is not None
                    and rank_part.digest != other_part.digest
                ):
                    yield (
                        f"rank {rank} draws the same random numbers from {name} as rank "
                        f"{other_rank} in "
                        f"attempt {attempt}, which has another number of workers, and not in the "
                        "baseline: whether training depends on it was not seen"
                    )


# -- replicas --------------------------------------------------------------------------------------


REPLICAS = "replicas"


_COPIED = frozenset({"model", "buffers", "optimizer", "optimizer settings", "averaged model"})
_NumberedSnapshot: TypeAlias = tuple[int, StateSeen]


class _AttemptPlace(NamedTuple):
    """A place of one attempt, at which all its ranks are seen."""

    attempt: int
    epoch: int
    step: int
    moment: str


@builtin_check(REPLICAS, asks="Are the copies of the model on all ranks still equal?")
def check_replicas(analysis: RunAnalysis) -> CheckResult:
    """Require equal models and optimizers on all ranks at equal places.

    A rank that joins with a stale learning rate makes another model of equal gradients
    (pytorch/torchtitan PR #4598). A part that is not equal on all ranks in the baseline, such as a
    shard, or before the fault, is no replica.
    """
    blind_result = _find_blind_result(REPLICAS, analysis, "state")
    if blind_result is not None:
        return blind_result
    assert analysis.reference is not None
    baseline_snapshots = analysis.reference.snapshots.numbered_snapshots
    # A part that is empty in the baseline, and filled by a load alone, is no replica of anything.
    names = {
        part.name
        for _, snapshot in baseline_snapshots
        for part in snapshot.components
        if not holds_nothing(part)
    }
    replica_names = {name for name in names if find_group(name) in _COPIED} - set(
        _find_unequal_parts(baseline_snapshots)
    )
    # A part that ranks hold unequal without any fault (shards, a stage of a pipeline) is no
    # replica, whatever its group.
    early_snapshots = [
        (n, snapshot)
        for n, snapshot in analysis.run.snapshots.numbered_snapshots
        if n < analysis.fault_start
    ]
    replica_names -= set(_find_unequal_parts(early_snapshots))
    if len(analysis.reference.lineage.ranks) < 2 or not replica_names:  # noqa: PLR2004
        return not_applicable(REPLICAS, "no part of the state is held by several ranks alike")
    unequal_parts = _find_unequal_parts(
        analysis.run.snapshots.numbered_snapshots, selected_names=replica_names
    )
    anomalies = [
        build_anomaly(
            UnequalReplicas(name, *attempt_place, _find_tainted_epochs(analysis, attempt_place)),
            analysis.launcher_words,
            events=events,
        )
        for name, (attempt_place, events) in sorted(
            unequal_parts.items(), key=lambda item: item[1][1]
        )
    ]
    return conclude(
        REPLICAS,
        anomalies=anomalies[:1],
        evidence=len(analysis.run.snapshots.numbered_snapshots),
        summary=f"{plural(len(replica_names), 'part')} equal on all ranks wherever they were seen",
    )


def _find_tainted_epochs(analysis: RunAnalysis, attempt_place: _AttemptPlace) -> tuple[int, ...]:
    """Return the epochs whose checkpoints were committed with unequal copies.

    They are those of the attempt from that place on, and of later attempts that resumed from one.
    """
    index, epoch = attempt_place.attempt, attempt_place.epoch
    epochs_by_checkpoint: dict[str, int] = {}
    for attempt in analysis.run.attempts[index:]:
        start_checkpoints = {start.checkpoint for start in attempt.starts.values()}
        if attempt.index != index and start_checkpoints.isdisjoint(epochs_by_checkpoint):
            continue
        for commit in attempt.commits:
            if commit.checkpoint is not None and (attempt.index > index or commit.epoch >= epoch):
                epochs_by_checkpoint[commit.checkpoint] = commit.epoch
    return tuple(sorted(set(epochs_by_checkpoint.values())))


def _find_unequal_parts(
    snapshots: Iterable[_NumberedSnapshot], *, selected_names: set[str] | None = None
) -> dict[str, tuple[_AttemptPlace, tuple[int, ...]]]:
    """Return the parts that are unequal on some ranks, with the first such place of each."""
    first_entries: dict[_AttemptPlace, _NumberedSnapshot] = {}
    unequal_parts: dict[str, tuple[_AttemptPlace, tuple[int, ...]]] = {}
    for number, snapshot in snapshots:
        attempt_place = _AttemptPlace(
            snapshot.attempt, snapshot.epoch, snapshot.step, snapshot.moment
        )
        first_entry = first_entries.setdefault(attempt_place, (number, snapshot))
        if first_entry[1].components == snapshot.components:
            continue
        expected_parts = index_parts(first_entry[1])
        for part in snapshot.components:
            expected_part = expected_parts.get(part.name)
            is_empty = holds_nothing(part) and holds_nothing(expected_part)
            is_same = expected_part is not None and expected_part.digest == part.digest
            if (
                not is_empty
                and not is_same
                and (selected_names is None or part.name in selected_names)
            ):
                unequal_parts.setdefault(part.name, (attempt_place, (first_entry[0], number)))
    return unequal_parts
