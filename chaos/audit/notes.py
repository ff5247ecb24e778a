"""Notes on a job: facts of interest that runs without faults show."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from chaos.audit.determinism import CleanRunComparison
from chaos.audit.job_profile import JobProfile
from chaos.audit.site_category import (
    SITE_CATEGORIES,
    list_site_categories,
    needs_nodes,
)
from chaos.check.ending import find_ending
from chaos.check.rank_epochs import SteppedEpochs
from chaos.check.save_operations import find_operations
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
from chaos.model.launcher import LAUNCHER_FACTS, find_launcher
from chaos.model.paths import is_in_folder
from chaos.model.plan import Plan
from chaos.model.trigger import build_path_pattern
from chaos.record import Record
from chaos.run.modules import parse_module
from chaos.wording import plural

SHOWN = 3  # paths
# 2026-11-21, 20261121, 1763690000 (seconds since 1970), or the head of a UUID
_STAMP = re.compile(r"20\d\d[-_.]?[01]\d[-_.]?[0-3]\d|\b1[5-9]\d{8}\b|[0-9a-f]{8}-[0-9a-f]{4}-")
# Methods of argparse, click and Typer that declare an option, and options that seem to resume.
_DECLARES = re.compile(r"^(?:add_)?(?:argument|option)$|^Option$")
_RESUMES = re.compile(r"--[\w-]*(?:resume|restore|continue)[\w-]*")


class Note(Record):
    """One fact of interest.

    A `warning` is one that may cost work or money; `accepted` is a difference that was allowed.
    """

    kind: Literal["warning", "note", "accepted"]
    text: str
    #: shown at the end alone, unless all is asked for
    is_aside: bool = False


def warning(text: str) -> Note:
    """Return a note on what may cost work or money."""
    return Note(kind="warning", text=text)


def note(text: str) -> Note:
    """Return a note on what costs nothing."""
    return Note(kind="note", text=text)


def build_aside(text: str) -> Note:
    """Return a note on what a launcher lacks, which the end of an audit names once more."""
    return Note(kind="note", text=text, is_aside=True)


def build_notes(
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
    remarks = (*_find_remarks(profile, names, paths), *habits)
    asides = _describe_omissions(profile)
    return (
        *map(warning, _find_warnings(profile)),
        *map(note, remarks),
        *map(build_aside, asides),
    )


def note_resume_option(source: str, file_name: str, start_words: Iterable[object]) -> Note | None:
    """Return the note on an option of a script that seems to resume, and that no start is given.

    `file_name`: the script's file, to show; `start_words`: the words of its starts.
    """
    words = {str(word).partition("=")[0].replace("_", "-") for word in start_words}
    calls = (node for node in ast.walk(parse_module(source)) if isinstance(node, ast.Call))
    options = [
        (word.lineno, str(word.value))
        for call in calls
        if _DECLARES.search(getattr(call.func, "attr", getattr(call.func, "id", "")))
        for word in call.args
        if isinstance(word, ast.Constant) and _RESUMES.fullmatch(str(word.value))
    ]
    if not options or any(option.replace("_", "-") in words for _, option in options):
        return None
    line, option = options[0]
    return note(
        f"{file_name}:{line} has the option {option}, and no start is given it: if restarts "
        "are, in "
        f"production, add --restart-args='{option} …'"
    )


def _find_warnings(profile: JobProfile) -> Iterator[str]:
    if not profile.has_saves and not profile.unwatched_saves:
        scope = profile.facts.words.save_scope
        yield (
            f"the job saves no checkpoint that could be seen{scope}: unless it keeps "
            "its state in a database, a mapped file or on a server, every fault costs all the "
            "training before it"
        )
    if profile.has_checkpoints and not profile.asks_for_checkpoint:
        yield (
            "the job saves checkpoints and asks for none: no rank called "
            "`ray.train.get_checkpoint()`; unless it finds its files by itself, every restart "
            "begins anew"
        )
    if not profile.evidence:
        yield (
            "no loss, no state and no metric but a counter was seen: a restart that goes wrong "
            "would not be noticed; report a metric of the model, such as its loss"
        )
    if profile.find_setting("max_preemption_failures") == 0:
        yield (
            "`max_preemption_failures` is 0: the first machine that is taken back after a notice "
            "ends `fit()`; left out it is -1, without limit"
        )


def _find_remarks(profile: JobProfile, names: Sequence[str], paths: Sequence[str]) -> Iterator[str]:
    remark = profile.facts.words.own_saves_remark
    if remark and profile.saves and not profile.has_checkpoints:
        yield remark
    if unwatched_paths := dict.fromkeys(map(build_path_pattern, profile.unwatched_saves)):
        yield (
            f"saved by a process that the job starts itself: {_list_some([*unwatched_paths])}. "
            "No fault is injected in the middle of such a save"
        )
    yield from _describe_tiers(profile)
    if {rank for _, rank in profile.uploads} == {0} and len(profile.ranks) > 1:
        other_ranks = plural(len(profile.ranks) - 1, "other rank")
        yield (
            f"only rank 0 uploads: what the {other_ranks} drew, such as random numbers, is in the "
            "checkpoint only if rank 0 gathers it from them"
        )
    score_metric, kept_count = (
        profile.find_setting("checkpoint_score_attribute"),
        profile.find_setting("num_to_keep"),
    )
    if score_metric is not None and kept_count is not None:
        # Ray 2.60: the newest checkpoint is never deleted, so its own restarts find it.
        yield (
            f"the best by `{score_metric}` of all checkpoints are kept ({kept_count}), and the "
            "newest until "
            "the next is there: a restart from the best one goes further back than Ray does"
        )
    unsaved_count = len(profile.epochs) - len(profile.saved_epochs)
    if profile.has_checkpoints and unsaved_count:
        yield f"{unsaved_count} of {plural(len(profile.epochs), 'report')} carried no checkpoint"
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


def _describe_omissions(profile: JobProfile) -> Iterator[str]:
    """Yield in words the places that the job's launcher does not have."""
    facts = profile.facts
    omitted_groups = [
        group for group in list_site_categories(facts) if group in facts.sites.unavailable
    ]
    if omitted_groups:
        yield f"not tried, since it needs Ray Train: {'; '.join(omitted_groups)}"
    yield from facts.describe_untried_sites(
        tuple(group for group in SITE_CATEGORIES if needs_nodes(group)),
        has_remote_ranks=bool(profile.remote_ranks),
    )


def _describe_tiers(profile: JobProfile) -> Iterator[str]:
    """Yield in words which saves are lost with their node, where others are not."""
    surviving_paths = dict.fromkeys(
        operation.path for operation in profile.operations if operation.outlives_node
    )
    if surviving_paths:
        lost_paths = dict.fromkeys(
            operation.path for operation in profile.operations if not operation.outlives_node
        )
        yield (
            f"on the node's own disk, and lost with it: {', '.join(lost_paths)}; not on it: "
            f"{', '.join(surviving_paths)}"
        )


def note_missing_grace(profile: JobProfile) -> tuple[Note, ...]:
    """Return the note on a job that is preempted, and given no time before its end."""
    text = profile.facts.words.missing_grace
    return (note(text),) if text and not profile.grace_s else ()


def note_hash_seed(difference: str) -> Note:
    """Return the note on a script whose data differ with another hash seed."""
    return warning(
        f"with another hash seed the job is given other data ({difference}): something goes by the "
        "order of a set of strings or by `hash()`; on a cluster every process has a hash seed "
        "of its own, so that a restart trains on with other data; sort the set, or set "
        "PYTHONHASHSEED for all workers"
    )


def note_clock_reports(
    shared_profile: JobProfile, plan: Plan, repetition: CleanRunComparison
) -> Iterator[Note]:
    """Yield the note on a job that reports, or saves, at other steps in every run."""
    if not repetition.is_by_steps:
        return
    events, consequence = plan.job.launcher_facts.describe_clock_epochs(
        plural(len(shared_profile.epochs), "report"), plan.job.epoch_steps
    )
    yield note(
        f"the job {events} by the clock ({repetition.reports_apart}): its losses, inputs and "
        "state are compared step by step; its metrics, the files that it saves, which of "
        f"them it keeps, and how much work a restart repeats are not compared; {consequence}"
    )


def note_stepped_epochs(stepped_epochs: SteppedEpochs) -> Note:
    """Return the note on a job whose ranks end an epoch at different steps."""
    steps = stepped_epochs.steps
    return note(
        f"{stepped_epochs.describe_ends()}: epochs are counted by steps, {steps} each "
        f"(--epoch-steps {steps})"
    )


def note_failed_start(problem: str) -> Note:
    """Return the note on a script that does not reach its `fit()` when it is started again."""
    return warning(
        f"started a second time, {problem.removeprefix('the job ')}; where the machine that "
        "the script runs on is lost, it cannot be started again as it is"
    )


def note_first_run_files(paths: Sequence[str]) -> Note:
    """Return the note on a first run that made files, and trained otherwise than all after it."""
    return note(
        f"the first clean run made {_list_some(paths)} and trained otherwise than later ones, "
        "which "
        "found it: all runs are compared with these"
    )


def note_start_difference(difference: str) -> Note:
    """Return the note on a script whose starts differ, while two runs of one start do not."""
    return warning(
        "the script itself draws something that nothing seeds, before its fit(): two runs of "
        f"one start are alike, two starts are not ({difference}); a "
        "script that is started again, after the loss of its machine, trains on with other data"
    )


def note_side_effects(history: History) -> list[Note]:
    """Return the notes on the job's actions outside its training and its folder."""
    ending_text = find_ending(history).late_failure
    side_notes = [] if ending_text is None else [note(ending_text)]
    writes = [
        event for _, event in history.select_events(WroteOutside) if event.operation not in REFUSED
    ]
    # A name that a file had until it was whole is not one that the job saves.
    old_paths = {event.path for _, event in history.select_events(FileRenamed)}
    saved_paths = [
        write.path
        for write in writes
        if write.removed and not any(is_in_folder(write.path, old_path) for old_path in old_paths)
    ]
    left_paths = [write.path for write in writes if not write.removed]
    trainer = next((call.trainer for _, call in history.select_events(FitCalled)), None)
    if saved_paths:
        facts = LAUNCHER_FACTS[find_launcher(trainer)]
        text, is_warning = facts.describe_saves_outside(_list_some(saved_paths))
        side_notes.append(warning(text) if is_warning else note(text))
    if left_paths:
        side_notes.append(note(f"the job also wrote, and it was left: {_list_some(left_paths)}"))
    return side_notes + [
        note(text) for text in (*_describe_unwatched(history), *_describe_unsynced(history))
    ]


def _describe_unwatched(history: History) -> Iterator[str]:
    """Yield in words what no watched process was seen to do."""
    for _, event in history.select_events(FolderCompared):
        kinds = (("appeared", event.new), ("changed", event.changed), ("went", event.gone))
        for verb, paths in kinds:
            if paths:
                yield (
                    f"in the working folder {_list_some([*paths])} {verb} while the job "
                    "trained, and no "
                    "process that is watched was seen to do it: it was left so"
                )
        if event.cut:
            yield (
                "the working folder was looked at in part, as it has so many files: what the job's "
                f"programs leave in {event.cut}, and in folders after it, is not seen"
            )
    children = dict.fromkeys(
        f"{e.command} ({e.start})" for _, e in history.select_events(ChildTrained)
    )
    if children and history.count(StepDone):
        yield (
            f"a process that the job starts trains, and is no rank: {_list_some([*children])}. "
            "What it "
            "keeps and saves itself is not compared"
        )


def note_uncompared_files(unequal: Mapping[str, Sequence[str]]) -> list[Note]:
    """Return the note on files that two clean runs left in other states."""
    whole_files = [name for name, entries in unequal.items() if not entries]
    parts = [f"{_list_some(entries)} in {name}" for name, entries in unequal.items() if entries]
    if not unequal:
        return []
    return [note(f"not compared: two clean runs left another {_list_some([*whole_files, *parts])}")]


def note_single_lane(reason: str) -> Note:
    """Return the note that runs do not go side by side, as they would share the job's files."""
    return note(
        "runs go one at a time, as the job's files outside of a run's folder would be another's "
        f"too, and lanes have no view of their own (`chaos doctor`): {reason}"
    )


def _describe_unsynced(history: History) -> Iterator[str]:
    """Yield in words the files of saves whose content a loss of power may take."""
    saved_paths = {operation.event.path for operation in find_operations(history)}
    saved_paths |= {event.to for _, event in history.select_events(FileRenamed)}
    for _, event in history.select_events(FilesUnsynced):
        paths = dict.fromkeys(
            build_path_pattern(path) for path in event.paths if path in saved_paths
        )
        if paths:
            yield (
                f"written, and not synced (`os.fsync`): {_list_some([*paths])}. The loss of a "
                "machine's "
                "power may leave such a file empty; a scenario with `kill_node: {lose_unsynced: "
                "true}` shows what the job does then"
            )


def _list_some(paths: Sequence[str]) -> str:
    extra_count = len(paths) - SHOWN
    return ", ".join(paths[:SHOWN]) + (f" and {extra_count} more" if extra_count > 0 else "")
