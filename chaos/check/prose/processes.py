"""Sentences of findings about processes: writers, other trials, what is left, and notices."""

from chaos.check.kinds.processes import (
    ActorLeft,
    AttemptActivity,
    AttemptStillWorking,
    DuplicateRank,
    NoticeUnused,
    OtherTrialCharged,
    OtherTrialFailed,
    OtherTrialLosses,
    OtherTrialRestarted,
    OtherTrialUnfinished,
    PlacementGroupLeft,
    ProcessLeft,
    RankOnLeavingNode,
    StandstillUntilDeadline,
    TwoDriversWrite,
    UnregisteredCheckpoints,
)
from chaos.check.prose.registry import describes
from chaos.model.launcher_facts import LauncherWords
from chaos.wording import plural

# -- single-writer ---------------------------------------------------------------------------------


@describes(
    AttemptStillWorking,
    usual_cause="A worker was frozen or cut off, and came back after it had been replaced.",
    remedy="Let a worker check before it writes that its attempt is the current one.",
)
def _describe_attempt_still_working(facts: AttemptStillWorking, _: LauncherWords) -> str:
    return (
        f"attempt {facts.attempt} was still at work {facts.late_s:.1f} s after the next one was "
        f"opened: {_describe_activity(facts.last_activity)}"
    )


def _describe_activity(activity: AttemptActivity) -> str:
    return f"a {activity.event_type}" + (
        "" if activity.rank is None else f" of rank {activity.rank}"
    )


@describes(
    TwoDriversWrite,
    usual_cause="The script was started a second time, and nothing keeps the two apart.",
    remedy="Take a lock in the storage at the start, and end if another run has it.",
)
def _describe_two_drivers_write(facts: TwoDriversWrite, _: LauncherWords) -> str:
    activity = "had made a step" if facts.has_stepped else "had begun to write"
    return (
        f"two drivers of one run wrote side by side: attempt {facts.attempt} of the one {activity} "
        f"when attempt {facts.writing_attempt} of the other began to write {facts.target}"
    )


@describes(
    DuplicateRank,
    usual_cause=(
        "The script starts processes with their parent's rank, or a replaced process never ended."
    ),
    remedy="Start each rank once, and end a process before its successor trains.",
)
def _describe_duplicate_rank(facts: DuplicateRank, _: LauncherWords) -> str:
    return (
        f"two processes were rank {facts.rank} of attempt {facts.attempt}: pids {facts.pid} and "
        f"{facts.other_pid}"
    )


# -- bystanders ------------------------------------------------------------------------------------


@describes(
    OtherTrialFailed,
    usual_cause="The trials share something that the fault broke: an actor, a file, a node.",
    remedy="Give each trial its own actors and folders; its error says what was lost.",
)
def _describe_other_trial_failed(facts: OtherTrialFailed, _: LauncherWords) -> str:
    return f"{_describe_trial(facts.trial)}, failed: its fit() raised {facts.error}"


@describes(
    OtherTrialUnfinished,
    usual_cause="The trial waits for something of the other one, or for its resources.",
    remedy="Look at its workers' stacks, and at what the restarted trial holds.",
)
def _describe_other_trial_unfinished(facts: OtherTrialUnfinished, _: LauncherWords) -> str:
    return f"{_describe_trial(facts.trial)}, did not end"


@describes(
    OtherTrialRestarted,
    usual_cause="The trial shares a node or an actor with the other one.",
    remedy="Give each trial nodes and actors of its own.",
)
def _describe_other_trial_restarted(facts: OtherTrialRestarted, _: LauncherWords) -> str:
    attempts = plural(facts.attempts, "attempt")
    return f"{_describe_trial(facts.trial)}, was begun again: {attempts}"


@describes(
    OtherTrialCharged,
    usual_cause="The trial shares a node or an actor with the other one.",
    remedy="Give each trial nodes and actors of its own.",
)
def _describe_other_trial_charged(facts: OtherTrialCharged, _: LauncherWords) -> str:
    failures = plural(facts.failures, "failure")
    return f"{_describe_trial(facts.trial)}, was charged for {failures}"


@describes(
    OtherTrialLosses,
    usual_cause="The trials share state, such as a data set or a checkpoint folder.",
    remedy="Give each trial its own data, random seed and folder.",
)
def _describe_other_trial_losses(facts: OtherTrialLosses, _: LauncherWords) -> str:
    remainder = f" and {facts.places - 1} more places" if facts.places > 1 else ""
    return (
        f"{_describe_trial(facts.trial)}, has other losses than in the baseline: "
        f"{facts.first_place}{remainder}"
    )


def _describe_trial(trial: int) -> str:
    return f"trial {trial}, which nothing was done to"


# -- leftovers -------------------------------------------------------------------------------------


@describes(
    ProcessLeft,
    usual_cause="Nothing ends a child process when its parent is killed.",
    remedy="End child processes in a `finally`, and let them notice that their parent is gone.",
)
def _describe_process_left(facts: ProcessLeft, _: LauncherWords) -> str:
    return f"a process outlived the run: {facts.name}"


@describes(
    PlacementGroupLeft,
    usual_cause="The group is detached, or is not removed when training fails.",
    remedy="Call `ray.util.remove_placement_group()` in a `finally`.",
)
def _describe_placement_group_left(facts: PlacementGroupLeft, _: LauncherWords) -> str:
    return f"a placement group outlived the run: {facts.name}"


@describes(
    ActorLeft,
    usual_cause="The script makes a detached actor, or something holds on to it.",
    remedy="End it with `ray.kill()` in a `finally`, or do not detach it.",
)
def _describe_actor_left(facts: ActorLeft, _: LauncherWords) -> str:
    return f"an actor outlived the run: {facts.name}"


@describes(
    UnregisteredCheckpoints,
    usual_cause=(
        "Checkpoints are uploaded outside `ray.train.report()`, or each fault cuts off several"
        " reports."
    ),
    remedy="Upload checkpoints only by `ray.train.report()`.",
)
def _describe_unregistered_checkpoints(facts: UnregisteredCheckpoints, _: LauncherWords) -> str:
    directories = plural(facts.directories, "checkpoint directory", "checkpoint directories")
    return (
        f"{directories} that no report registered, after {plural(facts.faults, 'fault')}: "
        f"{facts.last_directory}"
    )


# -- drain -----------------------------------------------------------------------------------------


@describes(
    RankOnLeavingNode,
    usual_cause="Workers are placed without a look at which nodes are drained.",
    remedy="Let Ray place the workers; look at what pins them to a node.",
)
def _describe_rank_on_leaving_node(facts: RankOnLeavingNode, _: LauncherWords) -> str:
    return f"attempt {facts.attempt} put rank {facts.rank} on a node that was announced to go"


@describes(
    StandstillUntilDeadline,
    usual_cause="The ranks see the notice at different steps, and wait for each other.",
    remedy="Let the ranks agree on the step at which all save, as by an all-reduce of a flag.",
)
def _describe_standstill_until_deadline(facts: StandstillUntilDeadline, _: LauncherWords) -> str:
    return (
        f"training stood still for the last {facts.still_s:.1f} s before the deadline of the "
        "notice: ranks wait for each other"
    )


@describes(
    NoticeUnused,
    usual_cause="Nothing asks for the notice, or the save takes too long.",
    remedy="Ask at each step whether a notice has come, and save at once.",
)
def _describe_notice_unused(facts: NoticeUnused, _: LauncherWords) -> str:
    return (
        f"{facts.notice_s:.1f} s of notice passed, and nothing that was done after it was saved "
        "before the node went"
    )
