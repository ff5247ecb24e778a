"""The files that a rank writes: each as an event, and as a record for later attempts to find."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from chaos.model.event import (
    CodeLine,
    FileCopied,
    FileRenamed,
    FileSaveBegun,
    FileSaved,
    FileTouched,
    FileWritten,
)
from chaos.model.places import START, TrainingPlace
from chaos.model.trigger import PARTS_MAX, build_path_pattern
from chaos.probe.cursor import Recorder
from chaos.probe.epoch_ends import EpochEnds
from chaos.probe.file_facts import (
    FileContent,
    Stored,
    digest_file,
    extract_content,
    resolve_folder,
    resolve_links,
)
from chaos.probe.open_watch import OpenedFile, OpenedFiles
from chaos.probe.saves import SaveFolder, SaveRecord
from chaos.probe.state.gradients import count_trained
from chaos.probe.state.readable import is_text, load_content
from chaos.probe.thread_place import ThreadPlaces
from chaos.probe.training_listener import FileOperation, TrainingQuestions
from chaos.run.file_digest import file_digest

# Kinds of operations at one place that are recorded: a job may write files with names of its own.
KINDS_MAX = 32
_EVENTS = "events.out."  # how TensorBoard's files of events begin


class SaveRecorder:
    """The saves of one rank, and what it does to their names."""

    def __init__(
        self,
        record: Recorder,
        saves: SaveFolder,
        epoch_ends: EpochEnds,
        opened_files: OpenedFiles,
        thread_places: ThreadPlaces,
        questions: TrainingQuestions,
    ) -> None:
        self._cursor, self._write = record.cursor, record.write
        self._saves, self._epoch_ends = saves, epoch_ends
        self._opened_files, self._thread_places = opened_files, thread_places
        self._questions = questions
        self._contents: dict[str, FileContent] = {}  # by path, or by the digest of the bytes
        self._text_files: dict[str, FileWritten] = {}
        self._background_folders: dict[str, TrainingPlace] = {}  # that are written beside training
        self._temporary_folder = os.path.realpath(tempfile.gettempdir())
        self._place_operations: tuple[TrainingPlace, set[tuple[str, str]]] = START, set()
        self.has_saved = False

    def add_content(self, name: str, value: Any) -> None:  # whatever is pickled
        """Remember the content of a file that is not closed yet, or of bytes by their digest."""
        self._contents[name] = extract_content(value)

    def add_background_folder(self, folder: Path) -> None:
        """Mark the place of a save that is written later, while training goes on.

        By another process perhaps, whose files are not seen until they are uploaded.
        """
        self._background_folders[str(folder)] = place = self._cursor.training_place
        self._saves.set_mark("place", self._cursor.attempt, *place)

    def record_begin(
        self, path: Path | str, place: TrainingPlace, saver: str, *, thread: int | None = None
    ) -> None:
        """Record a save that begins, or that was begun by the `thread` that opened its file."""
        self.report_operations()  # those before it
        fields = {**self._build_fields(place), "path": str(path), "saver": saver}
        self._write(FileSaveBegun(**fields, is_beside=self._thread_places.is_background(thread)))
        if saver == "torch":  # the others are recorded once they are written
            self._saves.record_begin(self.build_save(path, place, digest=""))

    def record_saved_file(
        self,
        path: Path | str,
        place: TrainingPlace,
        content: FileContent,
        stored_digest: Stored,
        code: CodeLine | None,
    ) -> None:
        digest, size = stored_digest
        self._write(
            FileSaved(
                **self._build_fields(place),
                path=str(path),
                digest=digest,
                bytes=size,
                code=code,
                parts=content.parts,
                counts=dict(content.counts),
                share=self._measure_share(content),
            )
        )
        self._keep_save(path, place, digest, size=size)
        self._saves.set_mark("place", self._cursor.attempt, *place)
        self.has_saved = True

    def _measure_share(self, content: FileContent) -> float | None:
        trained = count_trained(self._questions.list_optimizers() or ())
        return content.elements / trained if trained and content.elements is not None else None

    def _keep_save(
        self,
        path: Path | str,
        place: TrainingPlace,
        digest: str,
        *,
        size: int,
        is_log: bool = False,
    ) -> None:
        save = self.build_save(path, place, digest, is_log=is_log)
        self._saves.record_copy(path, digest, size=size, tmp=self._temporary_folder)
        if save.is_before_training and self._saves.find_save(digest) is not None:
            return  # what was saved in training stays so, though a new process writes it again
        self._saves.record_save(save, size=size)
        self._epoch_ends.add_save(save)

    def build_save(
        self, path: Path | str, place: TrainingPlace, digest: str, *, is_log: bool = False
    ) -> SaveRecord:
        cursor, is_epoch_end = self._cursor, self._epoch_ends.is_end(place)
        is_data = self._epoch_ends.is_before_training
        return SaveRecord(
            digest, cursor.attempt, cursor.rank, *place, str(path), is_epoch_end, is_log, is_data
        )

    def record_part(self, checkpoint: str, folder: Path, files: Mapping[str, str]) -> None:
        """Record the place of the youngest file, if this run is known to have saved all files."""
        digests = [
            file_digest(folder / name) if digest.startswith("size:") else digest
            for name, digest in files.items()
        ]
        place = self._background_folders.pop(os.path.abspath(folder), None)  # noqa: PTH100 - links stay links
        if place is not None:
            for name, digest in zip(files, digests, strict=True):
                if self._saves.find_save(digest) is None:
                    path = folder / name
                    content, size = extract_content(load_content(path)), path.stat().st_size
                    self.record_saved_file(path, place, content, (digest, size), None)
        known_saves = [save for save in map(self._saves.find_save, digests) if save is not None]
        places = [save.find_resume_place() for save in known_saves if not save.is_text]
        # In an epoch without a step it is unknown whether a save is of its end.
        is_known = bool(places) and len(known_saves) == len(digests) and self._cursor.step > 0
        self._saves.record_part(checkpoint, self._cursor.rank, max(places) if is_known else None)

    def report_operations(self) -> None:
        for operation in self._opened_files.take_operations():
            fields = self._build_fields(operation.place)
            fields |= {"path": operation.path, "to": operation.other_path}
            if operation.moment == "renaming":
                self._write(FileRenamed(**fields))
            elif self._is_new_kind(operation):
                self._write(FileTouched(**fields, operation=operation.moment))

    def _is_new_kind(self, operation: FileOperation) -> bool:
        """Return whether an operation is the first of its kind at its place: there may be many."""
        place, known_kinds = self._place_operations
        if place != operation.place:
            self._place_operations = place, known_kinds = operation.place, set()
        kind = operation.moment, build_path_pattern(operation.path, PARTS_MAX)
        is_first = kind not in known_kinds and len(known_kinds) < KINDS_MAX
        known_kinds.add(kind)
        return is_first

    def record_written_file(self, opening: OpenedFile) -> None:
        """Record a file that was opened and closed: as a save, if it may be one.

        A text file may hold a job's place, but mostly is a log of it.
        """
        path = resolve_links(opening.path)
        content = self._contents.pop(opening.path, None)
        if opening.is_append or path.name.startswith(_EVENTS):  # a log, and no state
            return
        if opening.is_kept_open and not is_text(path):
            return  # it is of many steps, and says of none what was in it
        self.record_bytes(opening, str(path), path, content)

    def record_bytes(
        self, opening: OpenedFile, name: str, path: Path, content: FileContent | None
    ) -> None:
        """Record bytes that lie in a file, or in an object of which the file is a copy of ours."""
        digest, size = digest_file(path)
        earlier_save = self._saves.find_save(digest)
        if earlier_save is not None and self._is_copy(earlier_save, opening, name):
            self._record_copy(name, earlier_save, size)
            return
        content = content or self._contents.pop(digest, None) or extract_content(load_content(path))
        if not is_text(path):
            self.record_begin(name, opening.place, path.suffix.lstrip("."), thread=opening.thread)
            self.record_saved_file(name, opening.place, content, (digest, size), opening.code)
            return
        self._keep_save(name, opening.place, digest, size=size, is_log=True)
        if content.parts:
            fields = self._build_fields(opening.place)
            fields |= {"path": opening.path, "digest": digest, "bytes": size}
            self._text_files[opening.path] = FileWritten(**fields, parts=content.parts)

    def _is_copy(self, earlier_save: SaveRecord, opening: OpenedFile, name: str) -> bool:
        """Return whether a file holds what was saved elsewhere.

        What another thread copies may be done before training goes on, or after it.
        """
        is_beside = earlier_save.path != name and self._thread_places.is_background(opening.thread)
        return is_beside or (earlier_save.epoch, earlier_save.step) != opening.place

    def _record_copy(self, path: str, earlier_save: SaveRecord, size: int) -> None:
        """Record a copy of a file that was saved elsewhere, now that it is whole."""
        self._saves.record_copy(path, earlier_save.digest, size=size, tmp=self._temporary_folder)
        if earlier_save.path != path:  # else it is written again, with the same bytes
            place_fields = self._build_fields(TrainingPlace(earlier_save.epoch, earlier_save.step))
            self._write(FileCopied(**place_fields, path=path, digest=earlier_save.digest))

    def record_move(self, path: str, new_path: str | None) -> None:
        """Follow a file that is renamed or removed, by whomever it was saved."""
        if new_path is None:
            self._saves.record_removal(resolve_folder(path))
        else:
            self._saves.record_renaming(resolve_folder(path), resolve_folder(new_path))

    def take_texts(self) -> list[FileWritten]:
        """Return the text files that were written since, as they were last."""
        texts, self._text_files = self._text_files, {}
        return [*texts.values()]

    def _build_fields(self, place: TrainingPlace) -> dict[str, Any]:
        return {**self._cursor.rank_fields(), "epoch": place[0], "step": place[1]}
