"""The rules by which a file is a save that training could go on from.

A job writes many files that are no checkpoint: logs, tables, pictures, caches. So each list of
rules is tried in order, and the first rule with an answer decides. Its name is kept with the save.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath
from typing import NamedTuple, TypeAlias, TypeVar

from chaos.model.event import FileLoaded
from chaos.model.paths import TEMPFILE_NAME
from chaos.resume.files import CHECKPOINT_SAVERS, RunFiles, SavedFile, mask_path_numbers
from chaos.resume.save_evidence import SaveCopies, find_model_files, mask_name_numbers

TRAINED_SHARE_MIN = 0.5  # of the numbers that are trained

Evidence = TypeVar("Evidence")
#: True: the file counts as a save. False: it does not. None: the rule does not apply.
Rule: TypeAlias = Callable[[Evidence, SavedFile], bool | None]


class RuleAnswer(NamedTuple):
    """Whether a file counts as a save, and the rule that says so."""

    rule: str
    counts: bool


def apply_rules(rules: Sequence[Rule[Evidence]], evidence: Evidence, save: SavedFile) -> RuleAnswer:
    """Return the answer of the first rule that applies; the last rule of a list always does."""
    return next(
        RuleAnswer(rule.__name__.replace("_", "-"), counts)
        for rule in rules
        if (counts := rule(evidence, save)) is not None
    )


# -- an attempt that read nothing: any save may have been one to go on from ------------------------


@dataclass(frozen=True)
class JobEvidence:
    """The evidence of a job's files when an attempt starts."""

    files: RunFiles
    copies: SaveCopies
    #: the job's working directory
    cwd: str

    @cached_property
    def loaded_series(self) -> frozenset[str]:
        """The series of the run's own files that any attempt has read."""
        return frozenset(map(mask_path_numbers, self.files.loaded_paths))

    @cached_property
    def model_file_names(self) -> frozenset[str]:
        """The names of files in which the model was seen: they hold numbers of its very norm.

        Where some hold more than the model, the others are exports: no training goes on from a
        model alone, if it is kept with its optimizer as well.
        """
        all_files = self.copies.run_and_baseline_files
        model_files = {file for files in all_files for file in find_model_files(files)}
        richer_names = {name for name, is_alone in model_files if not is_alone}
        # What is in shards is not seen. Where a model that is seen stands alone, they have more.
        sharded_names = {
            mask_name_numbers(save.final_path)
            for files in all_files
            for save in files.saves
            if save.is_shard_index and model_files
        }
        return frozenset(richer_names or sharded_names or {name for name, _ in model_files})


def was_read(job: JobEvidence, save: SavedFile) -> bool | None:
    """Once any file was read, count its series, and copies of it that outlive their node.

    What a job reads after a restart is a checkpoint by definition. One that was set aside was in
    use: a job that begins anew beside `last.pt.old` has lost it. So was a copy whose original was
    read on the node: a job that emptied its bucket before the next save was in it once passed.
    """
    if not job.loaded_series:
        return None
    names = {mask_path_numbers(name) for name in save.all_names}
    return not job.loaded_series.isdisjoint(names) or job.copies.is_durable_copy(
        job.loaded_series, save
    )


def has_unknown_format(job: JobEvidence, save: SavedFile) -> bool | None:
    """Leave out tables and pictures: nothing shows that they are checkpoints.

    The model was seen in no file, and no library for checkpoints wrote this one.
    """
    is_known = job.model_file_names or save.saver in CHECKPOINT_SAVERS or save.is_shard_index
    return None if is_known else False


def is_too_small(job: JobEvidence, save: SavedFile) -> bool | None:
    """Leave out files with less than half as many numbers as are trained, such as a schedule's.

    The files that a rank wrote into one folder at one place count together.
    """
    folder = PurePath(save.final_path).parent
    shares = [
        other_save.trained_share
        for other_save in job.files.saves
        if (other_save.attempt, other_save.write_place) == (save.attempt, save.write_place)
        and PurePath(other_save.final_path).parent == folder
    ]
    if None in shares or save.is_shard_index:
        return None
    return False if sum(filter(None, shares)) < TRAINED_SHARE_MIN else None


def is_draft(job: JobEvidence, save: SavedFile) -> bool | None:
    """Leave out a file that is yet to be copied elsewhere, or to get another name.

    A thread mirrored each save (copy to `round-0.pkl.part`, then rename). A job that was killed
    between the two began anew, rightly, and was blamed.
    """
    return False if save.final_series in job.copies.draft_series else None


def lacks_model(job: JobEvidence, save: SavedFile) -> bool | None:
    """Leave out a file without the model, where other files have it.

    An export of the weights alone is none: to begin anew beside it is no loss.
    """
    equal_saves = (s for s in job.files.saves if s.digest == save.digest)
    names = {mask_name_numbers(equal_save.final_path) for equal_save in equal_saves}
    return False if job.model_file_names and names.isdisjoint(job.model_file_names) else None


def has_drawn_name(job: JobEvidence, save: SavedFile) -> bool | None:
    """Leave out a file under a name that was drawn at random: no restart can find it.

    The working directory may have such a name itself, as that of a test does.
    """
    return False if TEMPFILE_NAME.search(save.final_path.removeprefix(job.cwd)) else None


def looks_like_checkpoint(_job: JobEvidence, _save: SavedFile) -> bool | None:
    """Count what is left."""
    return True


UNREAD_RULES: Sequence[Rule[JobEvidence]] = (
    was_read,
    has_unknown_format,
    is_too_small,
    is_draft,
    lacks_model,
    has_drawn_name,
    looks_like_checkpoint,
)


def awaits_copy(job: JobEvidence, save: SavedFile) -> bool | None:
    """Leave out a save that waited on its node to be copied elsewhere.

    With the node it is lost by the job's own choice: the job goes on from the newest copy.
    """
    return False if job.copies.is_awaiting_copy(save) else None


LOST_RULES: Sequence[Rule[JobEvidence]] = (awaits_copy, *UNREAD_RULES)


# -- an attempt that read a file: a newer one of the same series -----------------------------------


@dataclass(frozen=True)
class SeriesEvidence:
    """The names of the saves that are of one kind with a file that a rank read."""

    #: its own, and that by which it was written
    names: frozenset[str]
    #: those that its saves give up
    draft_names: frozenset[str]


def find_series(files: RunFiles, load: FileLoaded) -> SeriesEvidence:
    """Return the names of the series that was read; of a copy, not those of the original."""
    load_name, origin = mask_path_numbers(load.path), files.find_origin(load)
    if origin is None or (
        load.attempt in files.present_files_by_attempt and origin.final_path != load.path
    ):
        return SeriesEvidence(frozenset({load_name}), frozenset())
    final_names = {load_name, origin.final_series}
    return SeriesEvidence(
        frozenset({load_name, origin.series}), frozenset({origin.series} - final_names)
    )


def is_unnamed_draft(series: SeriesEvidence, save: SavedFile) -> bool | None:
    """Leave out a file that still has the name which the file that was read has given up.

    A rank that was killed between writing and renaming left a whole draft. With it the parts of
    all ranks looked whole, and ranks that rightly agreed on an older step were blamed.
    """
    return False if save.final_series in series.draft_names else None


def is_of_same_series(series: SeriesEvidence, save: SavedFile) -> bool | None:
    """Count a save by its name. To take the newest of any series would mix two checkpoints."""
    return not series.names.isdisjoint((save.final_series, save.series))


SERIES_RULES: Sequence[Rule[SeriesEvidence]] = (is_unnamed_draft, is_of_same_series)
