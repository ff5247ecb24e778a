"""Sentences of findings about the files that a job leaves, entry by entry."""

from chaos.check.kinds.artifacts import (
    EntryFacts,
    EntryValue,
    FileEntryDiffers,
    FileNeverWritten,
    FileWrittenElsewhere,
    FinalTableDiffers,
)
from chaos.check.prose.places import describe_place
from chaos.check.prose.registry import describes
from chaos.model.launcher_facts import LauncherWords


@describes(
    FileEntryDiffers,
    usual_cause="An average, best value or history is kept beside training, and begins anew.",
    remedy="Save that value in the checkpoint, and load it before the loop goes on.",
)
def _describe_file_entry_differs(facts: FileEntryDiffers, _: LauncherWords) -> str:
    place_text = describe_place(facts.written_at)
    return _describe_entry(facts, f"from {place_text} on {_name_entry(facts)} differs")


@describes(
    FinalTableDiffers,
    usual_cause="The table is opened for writing at each start, or lines are written twice.",
    remedy="Open it to append, and at a resume drop the lines after the save.",
)
def _describe_final_table_differs(facts: FinalTableDiffers, _: LauncherWords) -> str:
    return _describe_entry(facts, f"{_name_entry(facts)}, as it was left at the end, differs")


@describes(
    FileWrittenElsewhere,
    usual_cause="The best value so far begins anew with the process.",
    remedy="Save the best value with the model, and load it.",
)
def _describe_file_written_elsewhere(facts: FileWrittenElsewhere, _: LauncherWords) -> str:
    return _describe_entry(
        facts,
        f"{_name_entry(facts)} was written last at {describe_place(facts.written_at)}, in the "
        f"baseline at {describe_place(facts.expected_at)}",
    )


@describes(
    FileNeverWritten,
    usual_cause=(
        "The file is written at one moment that the restart passed over, or under a process's name."
    ),
    remedy="Write the file whenever it is not there, or at the end of training.",
)
def _describe_file_never_written(facts: FileNeverWritten, _: LauncherWords) -> str:
    return (
        f"{facts.file} was never written; the baseline's rank {facts.rank} leaves one at "
        f"{describe_place(facts.expected_at)}"
    )


def _name_entry(facts: EntryFacts) -> str:
    return f"`{facts.entry}` in {facts.file}" if facts.entry else facts.file


def _describe_entry(facts: EntryFacts, text: str) -> str:
    names_text = ", ".join(f"`{name}`" for name in facts.other_entries)
    more_text = f", and so do {names_text}" if names_text else ""
    return (
        f"{text} (rank {facts.rank}): {_describe_difference(facts)}{more_text}; every loss and "
        "metric before it is the baseline's"
    )


def _describe_difference(facts: EntryFacts) -> str:
    value, expected_value = facts.value, facts.expected_value
    if facts.is_growing and value.item_count != expected_value.item_count:
        return f"{value.item_count} entries instead of {expected_value.item_count}"
    if value.size == expected_value.size and value.first_name != expected_value.first_name:
        return f"its names begin with `{value.first_name}` instead of `{expected_value.first_name}`"
    if value.size == expected_value.size:
        return "it is not the same to the last bit"
    return f"{_describe_size(value)} instead of {_describe_size(expected_value)}"


def _describe_size(value: EntryValue) -> str:
    return f"{value.size:.4g}" if isinstance(value.size, int | float) else str(value.size)
