"""Sentences of findings about the saves that a restart could have resumed from."""

from chaos.check.kinds.saves import (
    Cost,
    NewerSaveRemoved,
    NewestSave,
    OlderSave,
    ResumedFile,
    SavesGone,
    SavesIgnored,
)
from chaos.check.prose.places import describe_place
from chaos.check.prose.registry import describes
from chaos.model.launcher_facts import LauncherWords
from chaos.wording import plural


@describes(
    OlderSave,
    usual_cause="The newest is chosen by name or time, or the best one is taken.",
    remedy="Choose the save by the epoch and step that it holds; keep the best one apart.",
)
def _describe_older_save(facts: OlderSave, _: LauncherWords) -> str:
    return (
        f"rank {facts.rank} resumed from {_describe_file(facts.file)}; "
        f"{_describe_save(facts.newest)} was there{_describe_cost(facts.cost)}"
    )


@describes(
    NewerSaveRemoved,
    usual_cause="A rule removes old saves, and takes the newest one too.",
    remedy="Remove a save only once a newer one is whole.",
)
def _describe_newer_save_removed(facts: NewerSaveRemoved, _: LauncherWords) -> str:
    return (
        f"rank {facts.rank} resumed from {_describe_file(facts.file)}; "
        f"{_describe_save(facts.newest)} had been saved, and the job removed it at "
        f"{describe_place(facts.removed_at)}{_describe_cost(facts.cost)}"
    )


@describes(
    SavesIgnored,
    usual_cause="The script does not look for a save when it starts, or looks elsewhere.",
    remedy="At the start, look for the newest whole save and load it.",
)
def _describe_saves_ignored(facts: SavesIgnored, _: LauncherWords) -> str:
    return (
        f"attempt {facts.attempt} started from scratch, although {_describe_save(facts.newest)} "
        f"was there: no rank read it{_describe_cost(facts.cost)}"
    )


@describes(
    SavesGone,
    usual_cause="A save is removed before the next is whole, or lies on a lost node's disk.",
    remedy=(
        "Remove a save only once the next is whole, and keep saves on storage that outlives "
        "the node."
    ),
)
def _describe_saves_gone(facts: SavesGone, _: LauncherWords) -> str:
    return (
        f"attempt {facts.attempt} started from scratch: {_describe_save(facts.newest)} "
        f"{_describe_loss(facts)}{_describe_cost(facts.cost)}"
    )


def _describe_loss(facts: SavesGone) -> str:
    removal_place = "" if facts.removed_at is None else describe_place(facts.removed_at)
    match facts.loss:
        case "in another node's temporary folder":
            return "lay in the temporary folder of another node, on which no rank runs now"
        case "on a lost node's disk":
            return "lay on the disk of the node that was lost"
        case "removed before the next was whole":
            return (
                f"was removed at {removal_place}, before the next one was whole: remove it only "
                "then"
            )
        case "removed":
            return f"was removed at {removal_place}, and no other one was there"
        case "not there":
            return "was not there any more, and nothing else was"


def _describe_file(file: ResumedFile) -> str:
    written_at = describe_place(file.written_at)
    if file.content_place < file.written_at:
        return (
            f"{file.path}, written at {written_at} with the model of "
            f"{describe_place(file.content_place)}"
        )
    text = f"{file.path}, saved at {written_at}"
    if file.earlier_resume is None:
        return text
    return f"{text}, and trained on from {describe_place(file.earlier_resume)}"


def _describe_save(save: NewestSave) -> str:
    return f"{save.path} of {describe_place(save.place)}"


def _describe_cost(cost: Cost | None) -> str:
    """Return, as the end of a sentence, the steps trained again, and those from the newest save."""
    if cost is None:
        return ""
    text = f"; it cost {plural(cost.steps, 'finished step')}"
    if cost.steps_from_newest is None:
        return text
    return f"{text}, and would have cost {cost.steps_from_newest} from that save"
