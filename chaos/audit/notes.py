"""Notes on a job: facts of interest that runs without faults show."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from chaos.audit.determinism import Repetition
from chaos.audit.group import GROUPS, OF_ERRORS, groups_of, needs, needs_nodes
from chaos.audit.job_profile import JobProfile
from chaos.check.ending import ending
from chaos.check.save_operations import operations_of
from chaos.model.event import (
    ChildTrained,
    FileRenamed,
    FilesUnsynced,
    FitCalled,
    FolderCompared,
    StepDone,
    WroteOutside,
)
from chaos.model.events.harness import REFUSED
from chaos.model.history import History
from chaos.model.launcher import FACTS, launcher_named
from chaos.model.paths import is_below
from chaos.model.plan import Plan
from chaos.model.trigger import path_pattern
from chaos.record import Record
from chaos.run.modules import parsed
from chaos.words import plural

SHOWN = 3  # paths
# 2026-11-21, 20261121, 1763690000 (seconds since 1970), or the head of a UUID
_STAMP = re.compile(r"20\d\d[-_.]?[01]\d[-_.]?[0-3]\d|\b1[5-9]\d{8}\b|[0-9a-f]{8}-[0-9a-f]{4}-")
# Methods of argparse, click and Typer that declare an option, and options that seem to resume.
_DECLARES = re.compile(r"^(?:add_)?(?:argument|option)$|^Option$")
_RESUMES = re.compile(r"--[\w-]*(?:resume|restore|continue)[\w-]*")


class Note(Record):
    """One fact of interest; a `warning` is one that may cost work or money."""

    kind: Literal["warning", "note"]
    text: str


def warning(text: str) -> Note:
    """Return a note on what may cost work or money."""
    return Note(kind="warning", text=text)


def note(text: str) -> Note:
    """Return a note on what costs nothing."""
    return Note(kind="note", text=text)


def notes(
    profile: JobProfile,
    *,
    names: Sequence[str],
    paths: Sequence[str] = (),
    habits: Iterable[str] = (),
) -> tuple[Note, ...]:
    """Return the notes that follow from the profile and the settings.

    `names` and `paths` are the clean runs' own run names and storage paths; `habits` are
    warnings about their use of data.
    """
    remarks = (*_remarks(profile, names, paths), *habits)
    return (*map(warning, _warnings(profile)), *map(note, remarks))


def resuming_option(source: str, place: str, given: Iterable[object]) -> Note | None:
    """Return the note on an option of a script that seems to resume, and that no start is given.

    `place`: the script's file, to show; `given`: the words of its starts.
    """
    words = {str(word).partition("=")[0].replace("_", "-") for word in given}
    declared = (node for node in ast.walk(parsed(source)) if isinstance(node, ast.Call))
    options = [
        (word.lineno, str(word.value))
        for call in declared
        if _DECLARES.search(getattr(call.func, "attr", getattr(call.func, "id", "")))
        for word in call.args
        if isinstance(word, ast.Constant) and _RESUMES.fullmatch(str(word.value))
    ]
    if not options or any(option.replace("_", "-") in words for _, option in options):
        return None
    line, option = options[0]
    return note(
        f"{place}:{line} has the option {option}, and no start is given it: if restarts are, in "
        f"production, add --restart-args='{option} …'"
    )


def _warnings(profile: JobProfile) -> Iterator[str]:
    if not profile.has_saves and not profile.unwatched_saves:
        seen = ", for Ray or with `torch.save`" if "reports" in profile.facts.has else ""
        yield (
            f"the job saves no checkpoint that could be seen{seen}: unless it keeps "
            "its state in a database, a mapped file or on a server, every fault costs all the "
            "training before it"
        )
    if profile.has_checkpoints and not profile.asks:
        yield (
            "the job saves checkpoints and asks for none: no rank called "
            "`ray.train.get_checkpoint()`; unless it finds its files by itself, every restart "
            "begins anew"
        )
    if not profile.sees:
        yield (
            "no loss, no state and no metric but a counter was seen: a restart that goes wrong "
            "would not be noticed; report a metric of the model, such as its loss"
        )
    if profile.own("max_preemption_failures") == 0:
        yield (
            "`max_preemption_failures` is 0: the first machine that is taken back after a notice "
            "ends `fit()`; left out it is -1, without limit"
        )


def _remarks(profile: JobProfile, names: Sequence[str], paths: Sequence[str]) -> Iterator[str]:
    if profile.saves and not profile.has_checkpoints and "reports" in profile.facts.has:
        yield (
            "the job reports no checkpoint to Ray, and keeps files of its own: what a fault costs "
            "depends on what it reads back from them"
        )
    if unwatched := dict.fromkeys(map(path_pattern, profile.unwatched_saves)):
        yield (
            f"saved by a process that the job starts itself: {_some([*unwatched])}. "
            "No fault is injected in the middle of such a save"
        )
    yield from _left_out(profile)
    yield from _tiers(profile)
    if {rank for _, rank in profile.uploads} == {0} and len(profile.ranks) > 1:
        others = plural(len(profile.ranks) - 1, "other rank")
        yield (
            f"only rank 0 uploads: what the {others} drew, such as random numbers, is in the "
            "checkpoint only if rank 0 gathers it from them"
        )
    score, kept = profile.own("checkpoint_score_attribute"), profile.own("num_to_keep")
    if score is not None and kept is not None:
        # Ray 2.60: the newest checkpoint is never deleted, so its own restarts find it.
        yield (
            f"the best by `{score}` of all checkpoints are kept ({kept}), and the newest until "
            "the next is there: a restart from the best one goes further back than Ray does"
        )
    unsaved = len(profile.epochs) - len(profile.saved)
    if profile.has_checkpoints and unsaved:
        yield f"{unsaved} of {plural(len(profile.epochs), 'report')} carried no checkpoint"
    if paths and (len(set(paths)) > 1 or _STAMP.search(paths[0])):
        yield (
            f"the storage path changes at every start (`{paths[0]}`): a script that is started "
            "again does not find the checkpoints of its earlier run"
        )
    if names and (len(set(names)) > 1 or _STAMP.search(names[0])):
        yield (
            f"the run name changes at every start (`{names[0]}`): a script that is started again "
            "does not find the checkpoints of its earlier run"
        )


def _left_out(profile: JobProfile) -> Iterator[str]:
    """Yield in words the places that the job's launcher does not have."""
    facts = profile.facts
    left_out = [group for group in groups_of(facts) if facts.lacks_part(needs(group))]
    if left_out:
        yield f"not tried, since it needs Ray Train: {'; '.join(left_out)}"
    if not facts.lacks_part("queue"):
        yield from _left_out_of_a_queue(profile)
    elif not facts.loses_nodes:
        lost = "; ".join(group for group in GROUPS if needs_nodes(group))
        yield (
            "no fault takes the node that hosts the rendezvous, that of rank 0: torchelastic does "
            "not survive its loss, whatever the job does; nor is one injected at the last step of "
            "training, for no agent whose workers have ended starts them again"
            if profile.away
            else f"not tried, since the job has one node: {lost}; --nodes 2 gives it two, and with "
            "--restart command its command is started again on another"
        )


def _left_out_of_a_queue(profile: JobProfile) -> Iterator[str]:
    if not profile.away:
        yield "not tried, since the script asks for one node: node lost"
    yield f"not tried, since Slurm starts no failed job again: {'; '.join(OF_ERRORS)}"


def _tiers(profile: JobProfile) -> Iterator[str]:
    """Yield in words which saves are lost with their node, where others are not."""
    outlive = dict.fromkeys(one.path for one in profile.operations if one.outlives_node)
    if outlive:
        lost = dict.fromkeys(one.path for one in profile.operations if not one.outlives_node)
        yield (
            f"on the node's own disk, and lost with it: {', '.join(lost)}; not on it: "
            f"{', '.join(outlive)}"
        )


def without_grace(profile: JobProfile) -> tuple[Note, ...]:
    """Return the note on a job that is preempted, and given no time before its end."""
    if profile.facts.lacks_part("queue") or profile.grace_s:
        return ()
    text = (
        "it is preempted without a grace, as in a partition that has no GraceTime; --grace 30s "
        "tries one that has: Slurm then requeues no job that ends within it"
    )
    return (note(text),)


def hashes_apart(where: str) -> Note:
    """Return the note on a script whose data differ with another hash seed."""
    return warning(
        f"with another hash seed the job is given other data ({where}): something goes by the "
        "order of a set of strings or by `hash()`; on a cluster every process has a hash seed "
        "of its own, so that a restart trains on with other data; sort the set, or set "
        "PYTHONHASHSEED for all workers"
    )


def by_the_clock(relied: JobProfile, plan: Plan, repetition: Repetition) -> Iterator[Note]:
    """Yield the note on a job that reports, or saves, at other steps in every run."""
    if not repetition.is_by_steps:
        return
    what = "reports"
    where = (
        "faults are injected where every run comes by, which is among its first "
        f"{plural(len(relied.epochs), 'report')}"
    )
    if plan.job.facts.lacks_part("reports"):
        steps = plan.job.epoch_steps
        length = f"{steps} each (--epoch-steps {steps})" if steps else "as the job declares"
        what, where = "saves", f"its epochs are counted by steps, {length}"
    yield note(
        f"the job {what} by the clock ({repetition.reports_apart}): its losses, inputs and "
        "state are compared step by step; its metrics, the files that it saves, which of "
        f"them it keeps, and how much work a restart repeats are not compared; {where}"
    )


def cannot_start_again(problem: str) -> Note:
    """Return the note on a script that does not reach its `fit()` when it is started again."""
    return warning(
        f"started a second time, {problem.removeprefix('the job ')}; where the machine that "
        "the script runs on is lost, it cannot be started again as it is"
    )


def made_once(paths: Sequence[str]) -> Note:
    """Return the note on a first run that made files, and trained otherwise than all after it."""
    return note(
        f"the first clean run made {_some(paths)} and trained otherwise than later ones, which "
        "found it: all runs are compared with these"
    )


def starts_apart(where: str) -> Note:
    """Return the note on a script whose starts differ, while two runs of one start do not."""
    return warning(
        "the script itself draws something that nothing seeds, before its fit(): two runs of "
        f"one start are alike, two starts are not ({where}); a "
        "script that is started again, after the loss of its machine, trains on with other data"
    )


def in_passing(history: History) -> list[Note]:
    """Return the notes on the job's actions outside its training and its folder."""
    late = ending(history).after_fit
    found = [] if late is None else [note(late)]
    wrote = [event for _, event in history.of(WroteOutside) if event.how not in REFUSED]
    # A name that a file had until it was whole is not one that the job saves.
    moved = {event.path for _, event in history.of(FileRenamed)}
    own = [w.path for w in wrote if w.removed and not any(is_below(w.path, at) for at in moved)]
    kept = [w.path for w in wrote if not w.removed]
    called = next((call.trainer for _, call in history.of(FitCalled)), None)
    if own and FACTS[launcher_named(called)].lacks_part("reports"):
        text = (
            f"the job saves {_some(own)}. What it made there was removed after each run, so that "
            "the next begins anew"
        )
        found.append(note(text))
    elif own:
        text = (
            f"the job saves by absolute paths: {_some(own)}. What it made there was removed after "
            "each run; give it a path of the run's, or two trainings overwrite each other's files"
        )
        found.append(warning(text))
    if kept:
        found.append(note(f"the job also wrote, and it was left: {_some(kept)}"))
    return found + [note(text) for text in (*_unwatched(history), *_unsynced(history))]


def _unwatched(history: History) -> Iterator[str]:
    """Yield in words what no watched process was seen to do."""
    for _, event in history.of(FolderCompared):
        kinds = (("appeared", event.new), ("changed", event.changed), ("went", event.gone))
        for verb, paths in kinds:
            if paths:
                yield (
                    f"in the working folder {_some([*paths])} {verb} while the job trained, and no "
                    "process that is watched was seen to do it: it was left so"
                )
        if event.cut:
            yield (
                "the working folder was looked at in part, as it has so many files: what the job's "
                f"programs leave in {event.cut}, and in folders after it, is not seen"
            )
    children = dict.fromkeys(f"{e.command} ({e.start})" for _, e in history.of(ChildTrained))
    if children and history.count(StepDone):
        yield (
            f"a process that the job starts trains, and is no rank: {_some([*children])}. What it "
            "keeps and saves itself is not compared"
        )


def uncompared(unequal: Mapping[str, Sequence[str]]) -> list[Note]:
    """Return the note on files that two clean runs left in other states."""
    whole = [name for name, entries in unequal.items() if not entries]
    parts = [f"{_some(entries)} in {name}" for name, entries in unequal.items() if entries]
    if not unequal:
        return []
    return [note(f"not compared: two clean runs left another {_some([*whole, *parts])}")]


def one_at_a_time(why: str) -> Note:
    """Return the note that runs do not go side by side, as they would share the job's files."""
    return note(
        "runs go one at a time, as the job's files outside of a run's folder would be another's "
        f"too, and lanes have no view of their own (`chaos doctor`): {why}"
    )


def _unsynced(history: History) -> Iterator[str]:
    """Yield in words the files of saves whose content a loss of power may take."""
    saved = {one.what.path for one in operations_of(history)}
    saved |= {event.to for _, event in history.of(FileRenamed)}
    for _, event in history.of(FilesUnsynced):
        paths = dict.fromkeys(path_pattern(path) for path in event.paths if path in saved)
        if paths:
            yield (
                f"written, and not synced (`os.fsync`): {_some([*paths])}. The loss of a machine's "
                "power may leave such a file empty; a scenario with `kill_node: {lose_unsynced: "
                "true}` shows what the job does then"
            )


def _some(paths: Sequence[str]) -> str:
    more = len(paths) - SHOWN
    return ", ".join(paths[:SHOWN]) + (f" and {more} more" if more > 0 else "")
