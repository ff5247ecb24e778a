"""The check of the files that a job leaves, entry by entry."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.check.analysis import RunAnalysis, RunTables
from chaos.check.anomaly import build_anomaly
from chaos.check.divergence import find_unequal_place
from chaos.check.file_contents import EntryPair, WrittenFile, build_file_contents
from chaos.check.kinds.artifacts import (
    EntryFacts,
    EntryValue,
    FileEntryDiffers,
    FileNeverWritten,
    FileWrittenElsewhere,
    FinalTableDiffers,
)
from chaos.check.result import builtin_check, conclude, inconclusive, not_applicable
from chaos.check.values import matches_name
from chaos.model.event import FileSaved, FileTouched, SavedPart
from chaos.model.places import SortablePlace
from chaos.model.severity import Severity
from chaos.model.verdict import Anomaly, CheckResult
from chaos.resume.files import find_outside_files, mask_path_numbers
from chaos.wording import plural

ARTIFACTS = "artifacts"


_BEST_NAMES = re.compile(r"best|top|highest|lowest|champion", re.IGNORECASE)
_CLOCK_NAMES = re.compile(
    r"time|elapsed|duration|second|minute|hour|stamp|throughput|per_s|speed|uptime|_m?s$",
    re.IGNORECASE,
)


@builtin_check(
    ARTIFACTS,
    asks="Is what the job leaves, file by file and entry by entry, what it would have left?",
)
def check_artifacts(analysis: RunAnalysis) -> CheckResult:
    """Require that the files which surviving work wrote hold the baseline's numbers.

    Each entry of a file is compared with the same file's at the same place: files saved with torch,
    pickle, numpy or safetensors, or written as JSON or CSV. Of a table the last version is
    compared, and of a file that keeps the best and was last written elsewhere.

    An entry counts only if it holds numbers with a point, moves in the baseline, and repeats itself
    in the second clean run or before the fault. Up to its place every loss, metric and input must
    be the baseline's. A list that grows from save to save is cosmetic. Texts, flags, whole numbers,
    generators, and what is named after a clock may differ in a right job. They are noted only.
    """
    if not analysis.plan.ops:
        return not_applicable(ARTIFACTS, "no fault was planned, so there is nothing to compare")
    if analysis.reference is None:
        return inconclusive(ARTIFACTS, f"{analysis.no_baseline_reason} to compare with")
    if not analysis.allowance.is_exact:
        return not_applicable(ARTIFACTS, "what the job saves need not be equal to the last bit")
    return _judge_artifacts(_ArtifactComparison.compare_analysis(analysis, analysis.reference))


def describe_harmless_differences(analysis: RunAnalysis) -> tuple[str, ...]:
    """Return notes on the job's files that are no findings, one sentence per file."""
    outside_paths = list(find_outside_files(analysis.run.files))
    more_text = f" and {len(outside_paths) - 1} more" if len(outside_paths) > 1 else ""
    outside_notes = [
        f"a restart went on from {path}{more_text}, outside the run's storage: on a cluster it "
        "must lie on a disk that all nodes share, for a lost node takes its own along"
        for path in outside_paths[:1]
    ]
    is_compared = analysis.plan.ops and analysis.allowance.is_exact and not analysis.is_step_aligned
    if analysis.reference is None or not is_compared:
        return tuple(outside_notes)
    harmless_pairs = [
        p
        for p in _ArtifactComparison.compare_analysis(analysis, analysis.reference).differing_pairs
        if _find_severity(p) is None
    ]
    difference_notes = (
        f"{_describe_entries(name, pairs)} from the baseline's after the fault, which a right "
        f"job may do"
        for name, pairs in _group_pairs(harmless_pairs).items()
    )
    return (*outside_notes, *difference_notes)


@dataclass(frozen=True)
class _ArtifactComparison:
    """The pairs that were compared, and the files that are missing."""

    analysis: RunAnalysis
    pairs: Sequence[EntryPair]
    missing_files: Sequence[WrittenFile]
    has_evidence: bool

    @classmethod
    def compare_analysis(cls, analysis: RunAnalysis, reference: RunTables) -> "_ArtifactComparison":
        """Compare what was written up to where the run leaves its baseline."""
        contents, divergence = build_file_contents(analysis), find_unequal_place(analysis)
        pairs = [
            pair
            for pair in contents.find_pairs()
            if pair.run_file.number < contents.repeat_start
            and not _can_explain(divergence, pair.run_file)
        ]
        missing_files: list[WrittenFile] = []
        # Of the last version of a file, and of one that is missing, no place says whether it comes
        # before the runs part. So the whole run must be the baseline's.
        if (
            divergence is None
            and contents.repeat_start == math.inf
            and _has_equal_epochs(analysis.run, reference)
        ):
            pairs += (
                pair
                for pair in contents.find_final_pairs()
                # A job that opens its table of epochs for writing at every start keeps the lines of
                # its last attempt alone; only the last version shows that. And a file that keeps
                # the best is written where the best was, at no place that a baseline shares.
                if pair.run_file.is_table or _BEST_NAMES.search(pair.run_file.name)
            )
            missing_parts = (
                (missing_file, missing_file.event.parts)
                for missing_file in contents.find_missing_files()
            )
            missing_files += (
                missing_file
                for missing_file, parts in missing_parts
                if any(p.kind == "numbers" for p in parts)
            )
        has_evidence = (
            bool(pairs) or divergence is not None or not _lacks_saves(analysis, reference)
        )
        return cls(analysis, pairs, missing_files, has_evidence)

    @property
    def differing_pairs(self) -> list[EntryPair]:
        """The pairs that differ, apart from those to be ignored."""
        ignored_names = self.analysis.plan.expect.ignore_metrics
        return [
            p
            for p in self.pairs
            if p.is_different and not matches_name(p.run_part.name, ignored_names)
        ]


def _judge_artifacts(comparison: _ArtifactComparison) -> CheckResult:
    wrong_pairs = [pair for pair in comparison.differing_pairs if _find_severity(pair) is not None]
    anomalies = [
        _build_entry_anomaly(comparison.analysis, pairs)
        for pairs in _group_pairs(wrong_pairs).values()
    ]
    anomalies += [
        build_anomaly(
            FileNeverWritten(
                missing_file.name, missing_file.event.rank, missing_file.training_place
            ),
            comparison.analysis.launcher_words,
            events=(len(comparison.analysis.history) - 1,),
            parts=(mask_path_numbers(missing_file.name),),
        )
        for missing_file in comparison.missing_files
    ]
    if not comparison.has_evidence:
        return inconclusive(ARTIFACTS, "nothing was seen of what the job saved")
    if not comparison.pairs and not anomalies:
        return not_applicable(ARTIFACTS, "nothing was saved after the fault that can be compared")
    harmless_count = len(comparison.differing_pairs) - len(wrong_pairs)
    harmless_text = (
        f"; {plural(harmless_count, 'entry', 'entries')} differ as a right job's may"
        if harmless_count
        else ""
    )
    return conclude(
        ARTIFACTS,
        anomalies=sorted(anomalies, key=lambda a: a.severity == "cosmetic"),
        evidence=len(comparison.pairs),
        summary=f"{plural(len(comparison.pairs), 'entry', 'entries')} of what was saved after the "
        f"fault, each as in the baseline{harmless_text}",
        measures={
            "entries_compared": len(comparison.pairs),
            "entries_differing": len(comparison.differing_pairs),
        },
    )


def _can_explain(divergence: SortablePlace | None, written_file: WrittenFile) -> bool:
    """Return whether a file was written so late that the divergence explains a difference.

    A loss that differs at a step follows from a model that differed after the step before.
    """
    epoch, step = written_file.training_place
    return divergence is not None and (epoch, step + 1) >= divergence


def _has_equal_epochs(run: RunTables, reference: RunTables) -> bool:
    run_epochs, baseline_epochs = (
        [c.epoch for c in tables.lineage.commits] for tables in (run, reference)
    )
    return run.ending.is_finished and run_epochs == baseline_epochs


def _lacks_saves(analysis: RunAnalysis, reference: RunTables) -> bool:
    """Return whether the baseline saved where a restart trained, and no save was seen there."""
    saves = analysis.history.select_events(FileSaved)
    if analysis.resized_attempts or any(
        number >= analysis.fault_start and saved.parts for number, saved in saves
    ):
        return False
    restart_places = [
        r.attempt.training_place
        for r in analysis.restarts
        if r.attempt.steps and r.attempt.training_place
    ]
    # A file that is there already, by a name that stands for its content, is not written again.
    present_digests = _find_present_digests(analysis)
    save_places = [
        (saved.epoch, saved.step)
        for _, saved in reference.history.select_events(FileSaved)
        if saved.parts and saved.digest not in present_digests
    ]
    return analysis.run.ending.is_finished and any(
        save_place > restart_place for save_place in save_places for restart_place in restart_places
    )


def _find_present_digests(analysis: RunAnalysis) -> set[str]:
    """Return the contents of files that were written whole, and were not seen to be removed."""
    removed_paths = {
        e.path for _, e in analysis.history.select_events(FileTouched) if e.operation == "removing"
    }
    saves = (save for save in analysis.run.files.saves if save.final_path not in removed_paths)
    return {save.digest for save in saves if save.digest is not None}


def _find_severity(pair: EntryPair) -> Severity | None:
    """Return the severity of a difference; None where a right job may show it."""
    run_part, baseline_part = pair.run_part, pair.baseline_part
    if (run_part.kind, baseline_part.kind) != ("numbers", "numbers"):
        return None
    # A number that never moves is a setting, and one that is named after a clock may differ in any
    # right job.
    if (
        baseline_part.size == 0
        or not pair.is_changing
        or _CLOCK_NAMES.search(baseline_part.name.rpartition(".")[2])
    ):
        return None
    if not pair.is_growing:
        return "wrong result"
    # A table with lines of both attempts is what a right job leaves that writes an epoch again
    # after a restart.
    return None if run_part.count > baseline_part.count else "cosmetic"


def _group_pairs(pairs: Sequence[EntryPair]) -> Mapping[str, list[EntryPair]]:
    pairs_by_file: dict[str, list[EntryPair]] = {}
    for pair in pairs:
        pairs_by_file.setdefault(pair.baseline_file.file[1], []).append(pair)
    return pairs_by_file


def _build_entry_anomaly(analysis: RunAnalysis, pairs: Sequence[EntryPair]) -> Anomaly:
    """Return the anomaly of one file: its first entry that differs, worst first."""
    worst_pairs = [pair for pair in pairs if _find_severity(pair) == "wrong result"] or list(pairs)
    first_pair = min(worst_pairs, key=lambda pair: (pair.is_last, pair.run_file.training_place))
    severity = _find_severity(first_pair)
    assert severity is not None
    return build_anomaly(
        _build_entry_facts(first_pair, pairs),
        analysis.launcher_words,
        events=(first_pair.run_file.number,),
        parts=(mask_path_numbers(first_pair.run_file.name),),
        severity=severity,
    )


def _build_entry_facts(pair: EntryPair, file_pairs: Sequence[EntryPair]) -> EntryFacts:
    run_file, entry_name = pair.run_file, pair.baseline_part.name
    other_names = {file_pair.baseline_part.name for file_pair in file_pairs} - {entry_name}
    shared_facts = (
        run_file.name,
        entry_name,
        run_file.file.rank,
        run_file.training_place,
        _build_entry_value(pair.run_part),
        _build_entry_value(pair.baseline_part),
        pair.is_growing,
        tuple(sorted(other_names)),
    )
    if not pair.is_last:
        return FileEntryDiffers(*shared_facts)
    if run_file.is_table:
        return FinalTableDiffers(*shared_facts)
    return FileWrittenElsewhere(*shared_facts, pair.baseline_file.training_place)


def _build_entry_value(part: SavedPart) -> EntryValue:
    return EntryValue(part.count, part.size, part.first)


def _describe_entries(file_name: str, pairs: Sequence[EntryPair]) -> str:
    entry_names = sorted(
        {f"`{p.baseline_part.name}`" if p.baseline_part.name else "the content" for p in pairs}
    )
    more_text = f" and {len(entry_names) - 5} more" if len(entry_names) > 5 else ""  # noqa: PLR2004
    entry_text = ", ".join(entry_names[:5]) + more_text
    return f"{entry_text} in {file_name} {'differ' if len(entry_names) > 1 else 'differs'}"
