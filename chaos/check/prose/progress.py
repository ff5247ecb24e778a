"""Sentences of findings about time and work: recovery, lost work, standstills, and the end."""

from collections.abc import Iterable, Sequence
from math import isinf

from chaos.check.kinds.progress import (
    EndedAtStandstill,
    LifeSign,
    LongPause,
    NoSignOfLife,
    NotOverInTime,
    RanksStandStill,
    RepeatedFailures,
    SlowRecovery,
    StuckUntilLimit,
    TooManyStepsLost,
    WaitingThread,
)
from chaos.check.prose.registry import describes
from chaos.model.launcher_facts import LauncherWords
from chaos.wording import join_names, plural

#: of other threads of a rank, so many are named
_THREADS_MAX = 2


def describe_sign(sign: LifeSign) -> str:
    """Return progress in words."""
    match sign.event_type:
        case "step":
            return f"rank {sign.rank}'s step {sign.step} of epoch {sign.epoch}"
        case "commit":
            return f"the commit of epoch {sign.epoch}"
        case "report" | "upload":
            return f"rank {sign.rank}'s {sign.event_type} of epoch {sign.epoch}"
        case "rank start":
            return f"the start of rank {sign.rank} in attempt {sign.attempt}"
        case "attempt start":
            return f"the start of attempt {sign.attempt}"


def describe_time_limit(seconds: float, baseline_s: float | None) -> str:
    """Return a limit as the rest of a sentence; `baseline_s` if it comes from the baseline."""
    if isinf(seconds):
        return "no limit is set, as the job waits among the jobs of others"
    if baseline_s is None:
        return f"{seconds:g} s are allowed"
    return f"{seconds:.0f} s are allowed, twice the {baseline_s:.0f} s of the baseline"


# -- recovery and lost-work ------------------------------------------------------------------------


@describes(
    SlowRecovery,
    usual_cause=(
        "The loss is noticed late (a silent node after about a minute), or workers start slowly."
    ),
    remedy=(
        "Look at the longest phase: the cluster's timeouts, or what you download, compile or "
        "load at the start."
    ),
)
def _describe_slow_recovery(facts: SlowRecovery, _: LauncherWords) -> str:
    return (
        f"attempt {facts.attempt} made its first step {facts.seconds:.1f} s after the fault; "
        f"{describe_time_limit(facts.limit_s, facts.baseline_s)} (most of it: "
        f"{facts.longest_phase}, {facts.phase_s:.1f} s)"
    )


@describes(
    TooManyStepsLost,
    usual_cause="The restart took an older checkpoint, or a usual save did not happen.",
    remedy="Check which checkpoint it loaded; save more often if less work may be lost.",
)
def _describe_too_many_steps_lost(facts: TooManyStepsLost, _: LauncherWords) -> str:
    return (
        f"attempt {facts.attempt} threw away {plural(facts.steps, 'finished step')} of rank "
        f"{facts.rank}; {facts.allowed_steps:g} are allowed"
    )


# -- progress --------------------------------------------------------------------------------------


@describes(
    LongPause,
    usual_cause="Ranks wait in a collective for one that is gone, until its timeout.",
    remedy="Set a shorter timeout for the process group; look at where the ranks wait.",
)
def _describe_long_pause(facts: LongPause, _: LauncherWords) -> str:
    return (
        f"{describe_pause(facts.seconds, facts.last_sign)}; "
        f"{describe_time_limit(facts.limit_s, facts.baseline_s)}"
    )


def describe_pause(seconds: float, last_sign: LifeSign | None) -> str:
    """Return in words that nothing was done for so long."""
    text = f"nothing was done for {seconds:.0f} s"
    return text if last_sign is None else f"{text} after {describe_sign(last_sign)}"


@describes(
    StuckUntilLimit,
    usual_cause=(
        "A rank waits or tries again for what never comes: a rank, a file, a connection, a "
        "resource."
    ),
    remedy="Look at the ranks' last lines, and give each wait there a timeout.",
)
def _describe_stuck_until_limit(facts: StuckUntilLimit, _: LauncherWords) -> str:
    progress = (
        "no progress was seen"
        if facts.last_sign is None
        else f"the last progress was {describe_sign(facts.last_sign)}"
    )
    return (
        f"hung: {progress}, {facts.idle_s:.0f} s before the limit of {facts.limit_s:g} s"
        f"{_describe_ends(facts.threads, is_still=False)}"
    )


@describes(
    RanksStandStill,
    usual_cause=(
        "The ranks wait in different places, such as a barrier that some never reach, or for a"
        " process that is gone."
    ),
    remedy="Let all ranks make the same collective calls, and give waits a timeout.",
)
def _describe_ranks_stand_still(facts: RanksStandStill, _: LauncherWords) -> str:
    progress = "" if facts.last_sign is None else f" after {describe_sign(facts.last_sign)}"
    pause = (
        ""
        if facts.baseline_pause_s is None
        else f"; the baseline pauses for {facts.baseline_pause_s:.1f} s at most"
    )
    return (
        f"hung{progress}: all ranks stood still for {facts.still_s:.0f} s, with next to no "
        f"processor time{_describe_ends(facts.threads, is_still=True)}{pause}"
    )


@describes(
    RepeatedFailures,
    usual_cause="Each attempt fails at the same place, as at a damaged checkpoint.",
    remedy="Fall back to the save before if the newest cannot be read, and limit the retries.",
)
def _describe_repeated_failures(facts: RepeatedFailures, terms: LauncherWords) -> str:
    return (
        f"it goes in circles: attempts {facts.first_attempt} to {facts.last_attempt} each failed "
        f"and {terms.saved_verb} nothing, up to the limit of {facts.limit_s:g} s; the last one of "
        f"{facts.error}"
    )


# -- terminates ------------------------------------------------------------------------------------


@describes(
    NoSignOfLife,
    usual_cause="The workers never started, as where the cluster lacks their resources.",
    remedy="Compare what the workers ask for with what the cluster has.",
)
def _describe_no_sign_of_life(facts: NoSignOfLife, _: LauncherWords) -> str:
    return f"hung: no progress was seen in {facts.limit_s:g} s"


@describes(
    EndedAtStandstill,
    usual_cause="The ranks wait for each other, or for a process that is gone.",
    remedy="Look at the lines in which they wait, and give waits a timeout.",
)
def _describe_ended_at_standstill(facts: EndedAtStandstill, _: LauncherWords) -> str:
    return f"hung: it was ended when all ranks had stood still for {facts.still_s:.0f} s"


@describes(
    NotOverInTime,
    usual_cause="The job hangs, restarts again and again, or needs more time.",
    remedy="Look at what came after the last progress; give a slow job a longer limit.",
)
def _describe_not_over_in_time(facts: NotOverInTime, _: LauncherWords) -> str:
    return (
        f"not over at its limit of {facts.limit_s:g} s: the last progress was "
        f"{describe_sign(facts.last_sign)}, {facts.idle_s:.0f} s before"
        f"{suggest_longer_limit(facts.limit_s, is_settable=facts.is_limit_settable)}"
    )


def suggest_longer_limit(limit_s: float, *, is_settable: bool) -> str:
    """Return, as the end of a sentence, how to give a run more time, if a scenario can."""
    if not is_settable:
        return ""
    return f"; `limits: {{run_s: {2 * limit_s:.0f}}}` in the scenario gives it twice the time"


# -- threads ---------------------------------------------------------------------------------------


def describe_threads(threads: Iterable[WaitingThread], *, is_still: bool) -> str:
    """Return in words where each rank waited; empty where no stack has a line of the job's.

    Of a run that did not stand still it is only known where its threads were.
    """
    threads_by_rank: dict[int, list[WaitingThread]] = {}
    for thread in threads:
        threads_by_rank.setdefault(thread.rank, []).append(thread)
    # Ranks that wait alike are named together.
    ranks_by_text: dict[str, list[int]] = {}
    for rank, rank_threads in sorted(threads_by_rank.items()):
        ranks_by_text.setdefault(_describe_rank(rank_threads), []).append(rank)
    singular_verb, plural_verb = ("waits", "wait") if is_still else ("was", "were")
    texts = []
    for text, ranks in ranks_by_text.items():
        rank_names = join_names([str(rank) for rank in ranks])
        subject = (
            f"rank {rank_names} {singular_verb}"
            if len(ranks) == 1
            else f"ranks {rank_names} {plural_verb}"
        )
        texts.append(f"{subject} in {text}")
    return "; ".join(texts)


def _describe_ends(threads: Sequence[WaitingThread], *, is_still: bool) -> str:
    """Return where the ranks were at the end, as the end of a sentence."""
    text = describe_threads(threads, is_still=is_still)
    return f"; {text}" if text else ""


def _describe_rank(threads: Sequence[WaitingThread]) -> str:
    main_thread, *other_threads = sorted(threads, key=lambda thread: not thread.is_main)
    other_lines = list(dict.fromkeys(map(_describe_line, other_threads)))[:_THREADS_MAX]
    others_text = f", another thread in {join_names(other_lines)}" if other_lines else ""
    return f"{_describe_line(main_thread)}{others_text}"


def _describe_line(thread: WaitingThread) -> str:
    callee = f" at `{thread.callee}`" if thread.callee else ""
    caller = "" if thread.caller_line is None else f", called from line {thread.caller_line}"
    return f"{thread.file}:{thread.line}{callee} (in `{thread.function}`{caller})"
