"""The cause of a run that came out otherwise, proven by giving it back.

The plan of the run is executed again, and values of the job that differ at its resumes are set to
what they are in a clean run. If training is the baseline's then, they are halved until none can be
left out (delta debugging: Zeller and Hildebrandt, *Simplifying and isolating failure-inducing
input*, 2002, there `ddmin`).
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeAlias

from chaos.audit.folder import TrialRuns
from chaos.check import census
from chaos.check.analysis import RunAnalysis
from chaos.check.census import CensusDifference
from chaos.check.evidence import FAULTS_HAPPENED
from chaos.check.files_ahead import find_files_ahead
from chaos.check.trajectory import TRAJECTORY
from chaos.model.events.state import HOOKS
from chaos.model.history import Baseline
from chaos.model.places import TrainingPlace
from chaos.model.verdict import Verdict
from chaos.probe.state.restored_files import load_restored_files, write_order
from chaos.probe.state.restored_values import FOLDER, GENERATORS, GIVE, GIVEN, KEEP, LOOK
from chaos.report.outcome import FinishedRun
from chaos.run.directory import RunDirectory
from chaos.run.display_path import format_path
from chaos.wording import join_names

CAUSES_MAX = 4  # of more, `NAMED_MAX` are named
NAMED_MAX = 3
GROUP_MAX = 3  # paths to one attribute of which each is tried to be left out
SINGLE_TRIES = 2  # the likeliest, each tried alone before all together
Paths: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class CauseOutcome:
    """The outcome of giving values back to a run."""

    #: what differed at the resume, the likeliest first
    candidates: tuple[CensusDifference, ...]
    #: of them those without any of which training is not the baseline's; None if it is not with all
    cause: tuple[CensusDifference, ...] | None
    #: equal is to the last bit, and not within a tolerance or a band
    is_exact: bool = True
    #: the run was not on the embedded backend, and is not wrong there: nothing was tried
    is_right_embedded: bool = False
    #: what no census could read, as it is too large or on an accelerator
    left_out: tuple[str, ...] = ()
    #: what else differed at the resume, values and parts of the state, where training is the
    #: baseline's without it
    idle: tuple[str, ...] = ()
    #: of the cause, what is a generator; without a cause the shared ones that were given in vain
    generators: tuple[str, ...] = ()

    #: the cause is files that were put back
    are_files: bool = False
    #: time ended before all were tried
    is_cut_short: bool = False

    @property
    def untried(self) -> tuple[str, ...]:
        """The likeliest values that time left untried; some were given alone, and not together."""
        if not self.is_cut_short:
            return ()
        return tuple(
            candidate.name
            for candidate in self.candidates
            if candidate.is_initial and candidate.path not in self.generators
        )[:NAMED_MAX]

    @property
    def is_drawn(self) -> bool:
        """Whether the cause is generators alone."""
        return bool(self.cause) and {candidate.path for candidate in self.cause or ()} <= {
            *self.generators
        }

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        if self.are_files and self.cause:
            return _describe_restored_files([c.path for c in self.cause], is_exact=self.is_exact)
        if self.is_right_embedded:
            return (
                "The same faults do no harm on the embedded backend, where values are given back: "
                "nothing was tried."
            )
        if not self.candidates:
            return (
                "No plain value that the job's code holds, moves in training and repeats in clean "
                f"runs differs at the resume: nothing could be given back.{self._unread_note}"
            )
        if self.cause is None:
            names = _list_names(tuple(candidate.path for candidate in self.candidates))
            consequence = "training still is not the baseline's"
            return f"With {names} set to the baseline's, {consequence}.{self._unread_note}"
        names = _shorten_list(
            [
                candidate.name
                + (f" set to {candidate.baseline_text}" * bool(candidate.baseline_text))
                for candidate in self.cause
            ],
            whole_max=CAUSES_MAX,
        )
        verb = "it did" if len(self.cause) == 1 else "they did"
        accuracy = "to the last bit" if self.is_exact else "within the tolerance"
        reason = f": {verb} not come back"
        if all(candidate.is_copy for candidate in self.cause):
            reason = ": such processes keep what they are started with"
        return (
            f"With {names} at the resume, as in the baseline, training is the baseline's "
            f"{accuracy}{reason}.{self._time_note}{self._idle_note}"
        )

    @property
    def _time_note(self) -> str:
        if not self.is_cut_short:
            return ""
        return " Time ended before it was seen whether fewer of them do."

    @property
    def _unread_note(self) -> str:
        if not self.left_out:
            return ""
        return f" Not read, as too large or on an accelerator: {_list_names(self.left_out)}."

    @property
    def _idle_note(self) -> str:
        if not self.idle:
            return ""
        names = _list_names(self.idle)
        return f" {names} did not come back either, without a consequence at this resume."


def _list_names(names: Sequence[str]) -> str:
    return _shorten_list([f"`{name}`" for name in names])


def _shorten_list(texts: Sequence[str], *, whole_max: int = NAMED_MAX) -> str:
    """Return these in words; of more than `whole_max` the first ones, and the number of others."""
    if len(texts) <= whole_max:
        return join_names(texts)
    return join_names([*texts[:NAMED_MAX], f"{len(texts) - NAMED_MAX} more"])


def _list_idle_paths(
    tried_paths: Paths,
    cause: Paths,
    candidates_by_path: Mapping[str, CensusDifference],
    job_candidates: Sequence[CensusDifference],
) -> Iterator[str]:
    """Yield what differed as well, and is not the cause."""
    # What the job sets again before the model is called did come back.
    later_paths = {candidate.path for candidate in job_candidates} - {*cause}
    for path in tried_paths:
        is_different = candidates_by_path[path].is_lasting and path in later_paths
        same_names = (
            cause_path
            for cause_path in cause
            if cause_path.endswith(f".{path}") or path.endswith(f".{cause_path}")
        )
        text = candidates_by_path[path].baseline_text
        # A variable of a function that another one uses has both names, and one value.
        if is_different and all(candidates_by_path[p].baseline_text != text for p in same_names):
            yield path


def _merge_candidates(
    first_candidates: tuple[CensusDifference, ...], second_candidates: tuple[CensusDifference, ...]
) -> tuple[CensusDifference, ...]:
    """Return both, each path once."""
    by_path: dict[str, CensusDifference] = {}
    for candidate in (*first_candidates, *second_candidates):
        by_path.setdefault(candidate.path, candidate)
    return tuple(by_path.values())


def _order_candidates(
    job_candidates: tuple[CensusDifference, ...], shared_candidates: tuple[CensusDifference, ...]
) -> tuple[CensusDifference, ...]:
    """Return both with the likeliest of each kind first, as they are tried alone; hooks cannot."""
    restorable = [candidate for candidate in job_candidates if not candidate.path.endswith(HOOKS)]
    return (*restorable[:1], *shared_candidates, *restorable[1:])


def has_trained_equally(analysis: RunAnalysis, verdict: Verdict, check: str) -> bool:
    """Return whether a run had its faults, kept `check`, and trained as the baseline did.

    Where the check is of anything but numbers, all losses are to be the baseline's; a metric may
    still be wrong for a reason of its own.
    """
    passed_checks = {r.check for r in verdict.results if r.status == "pass" and r.evidence}
    if not {check, FAULTS_HAPPENED} <= passed_checks or not _has_all_steps(analysis):
        return False
    comparison = analysis.comparison
    return TRAJECTORY in passed_checks or (
        check != TRAJECTORY
        and comparison is not None
        and comparison.losses.compared_count > 0
        and not comparison.losses.differing_pairs
    )


def _has_all_steps(analysis: RunAnalysis) -> bool:
    """Return whether every rank has made as many steps as in the baseline."""
    # A run that hangs after its resume has no step that could differ. A pipeline that was given the
    # counter of what it had sent waited for that batch, and the counter was called the cause.
    reference = analysis.reference
    return reference is None or all(
        analysis.run.lineage.count_rank_steps(rank) >= reference.lineage.count_rank_steps(rank)
        for rank in reference.lineage.ranks
    )


def find_minimal_paths(paths: Paths, is_right: Callable[[Paths], bool]) -> Paths | None:
    """Return a part of the paths that is right, and without any one of which it is not.

    None if all of them together are not right. One attribute of more than `GROUP_MAX` objects is
    taken as a whole.
    """
    single_path = next((path for path in paths[:SINGLE_TRIES] if is_right((path,))), None)
    if single_path is not None:
        return (single_path,)
    if len(paths) <= 1 or not is_right(paths):
        return None
    groups = _group_by_attribute(paths)
    if (group := next(filter(is_right, groups), None)) is not None:
        if len(group) > GROUP_MAX:
            return group
        paths = group
    count = 2
    while len(paths) > 1:
        part_size = -(-len(paths) // count)
        parts = [paths[start : start + part_size] for start in range(0, len(paths), part_size)]
        complements = [tuple(path for path in paths if path not in part) for part in parts]
        right_part = next(
            (part for part in dict.fromkeys([*parts, *complements]) if is_right(part)), None
        )
        if right_part is not None:
            count = 2 if right_part in parts else max(count - 1, 2)
            paths = right_part
        elif count >= len(paths):
            break
        else:
            count = min(2 * count, len(paths))
    return paths


def _group_by_attribute(paths: Paths) -> list[Paths]:
    """Return the paths to one attribute of several objects below the same one, for each of these.

    A flag that each layer of a model has is lost in all of them: of seven layers none is mended
    alone, and to leave out one at a time took longer than there was time for.
    """
    paths_by_name: dict[tuple[str, str], list[str]] = {}
    for path in paths:
        root, _, attribute = path.partition(".")
        paths_by_name.setdefault((root, attribute.rpartition(".")[2]), []).append(path)
    groups = (tuple(group) for group in paths_by_name.values())
    return [group for group in groups if 1 < len(group) < len(paths)]


def find_nearest_cause(
    first_paths: Paths, all_paths: Paths, is_right: Callable[[Paths], bool]
) -> tuple[Paths, Paths | None]:
    """Return the fewest of the first paths, or else of all, and those among which they were."""
    is_right = cache(is_right)  # each try is a run
    cause = find_minimal_paths(first_paths, is_right) if first_paths else None
    if cause is not None or not all_paths or first_paths == all_paths:
        return first_paths, cause
    return all_paths, find_minimal_paths(all_paths, is_right)


class GivenRun(NamedTuple):
    """A run that was given values, and which of them could be set."""

    run: FinishedRun
    paths: frozenset[str]
    #: those of them that are generators
    generators: frozenset[str]


@dataclass
class ValueRuns(TrialRuns):
    """Trial runs that keep values of the job, or are given them."""

    #: the bodies of the job's loops: a file, the first line, the last
    _loops: list[tuple[str, int, int]] = field(default_factory=list, init=False)

    def find_loops(self, analysis: RunAnalysis) -> None:
        """Find the loops in which the model is called: values are kept and given as they begin."""
        self._loops = [
            (loop.file, loop.first, loop.last) for loop in census.find_model_loops(analysis)
        ]

    def record_clean_values(self, paths: Paths, places: Collection[TrainingPlace]) -> Path:
        """Run the job without faults, and return the folder in which it keeps the values."""
        directory = self.create_directory("clean", self.plan.build_baseline_plan())
        values_folder = _write_order(directory, KEEP, self._build_order(paths, places))
        self.execute(directory, None)
        return values_folder

    def give_values(
        self, paths: Paths, places: Mapping[int, TrainingPlace], values_folder: Path
    ) -> GivenRun:
        """Run the plan; each attempt in `places` gets what a clean run has kept at its place."""
        directory = self.create_directory(f"given-{self.run_count}", self.plan)
        order = {
            "paths": paths,
            "attempts": places,
            "from": str(values_folder),
            "loops": self._loops,
        }
        folder = _write_order(directory, GIVE, order)
        run = self.execute(directory, self.baseline)
        # Only of a run in which they were given.
        return GivenRun(run, _load_given(folder, GIVEN), _load_given(folder, GENERATORS))

    def _build_order(self, paths: Paths, places: Collection[TrainingPlace]) -> Mapping[str, object]:
        return {"paths": paths, "places": sorted(places), "loops": self._loops}


@dataclass
class CauseSearch(ValueRuns):
    """The search among values of a recorded run for those that explain it."""

    #: the one that is broken, and is to pass
    check: str = TRAJECTORY
    report: Callable[[str], None] = lambda _: None
    #: of each run that came out right, the parts of the state that did not come back
    _idle_by_paths: dict[Paths, tuple[str, ...]] = field(default_factory=dict, init=False)
    #: what was given in any run that was not right with it, and what was given is a generator
    _failed_paths: set[str] = field(default_factory=set, init=False)
    _generators: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        # What is mended is to be equal, whatever the run was allowed.
        expect = self.plan.expect.replace(accept=(), accept_findings=())
        self.plan = self.plan.replace(expect=expect)

    def find_cause(self, analysis: RunAnalysis) -> CauseOutcome:
        """Return what differs at the resume, and which of it is the cause.

        Raises `TimeoutError` where time ends before that is known, unless generators were given in
        vain by then: they are not the cause.
        """
        if self.plan.backend != "fork":
            embedded_analysis = self._run_embedded()
            if embedded_analysis is None:
                return CauseOutcome((), None, is_right_embedded=True)
            analysis = embedded_analysis
        places, unread_names = (
            census.find_resume_places(analysis),
            census.find_unread_paths(analysis),
        )
        self.find_loops(analysis)
        if (file_outcome := self._find_file_cause(analysis, places)) is not None:
            return file_outcome
        loop_candidates, job_candidates, values_folder = self._list_candidates(analysis, places)
        candidates, loop_paths = (
            _merge_candidates(loop_candidates, job_candidates),
            tuple(candidate.path for candidate in loop_candidates),
        )
        by_path = {candidate.path: candidate for candidate in candidates}
        all_paths = tuple(by_path) if places else ()
        tried_paths, cause, is_cut_short = all_paths, None, False
        try:
            tried_paths, cause = find_nearest_cause(
                loop_paths, all_paths, lambda paths: self._try_paths(paths, places, values_folder)
            )
        except TimeoutError:
            is_cut_short = True
            cause = min(self._idle_by_paths, key=len, default=None)
        if cause is None:
            shared_paths = (c.path for c in census.find_shared_generators(analysis))
            failed_generators = tuple(path for path in shared_paths if path in self._failed_paths)
            if is_cut_short and not failed_generators:
                raise TimeoutError
            return CauseOutcome(
                candidates,
                None,
                left_out=unread_names,
                generators=failed_generators,
                is_cut_short=is_cut_short,
            )
        idle_paths = _list_idle_paths(tried_paths, cause, by_path, job_candidates)
        return CauseOutcome(
            candidates,
            tuple(by_path[path] for path in cause),
            self.plan.expect.is_exact,
            idle=tuple(dict.fromkeys((*idle_paths, *self._idle_by_paths[cause]))),
            generators=tuple(path for path in cause if path in self._generators),
            is_cut_short=is_cut_short,
        )

    def _list_candidates(
        self, analysis: RunAnalysis, places: Mapping[int, TrainingPlace]
    ) -> tuple[tuple[CensusDifference, ...], tuple[CensusDifference, ...], Path]:
        """Return what differs where loops begin, what differs later, and a clean run's values."""
        shared_candidates, job_candidates = (
            census.find_shared_generators(analysis),
            census.find_candidates(analysis),
        )
        close_analysis, values_folder = self._watch_closely(
            analysis, (*job_candidates, *shared_candidates), places
        )
        if close_analysis is not None:
            job_candidates = _merge_candidates(
                census.find_candidates(close_analysis), job_candidates
            )
        loop_candidates = (
            () if close_analysis is None else census.find_loop_candidates(close_analysis)
        )
        # What differs where loops begin first. Of what differs later, some follows from it.
        return (
            _order_candidates(loop_candidates, shared_candidates) if loop_candidates else (),
            _order_candidates(job_candidates, shared_candidates),
            values_folder,
        )

    def find_idle_parts(self, analysis: RunAnalysis, paths: Paths) -> tuple[str, ...] | None:
        """Return what of the state has no consequence in a run with these values given back.

        None where training is not the baseline's with them. Raises `TimeoutError` as above.
        """
        places = census.find_resume_places(analysis)
        self.find_loops(analysis)
        if not places or self.plan.backend != "fork":
            return None
        values_folder = self.record_clean_values(paths, {*places.values()})
        return self._idle_by_paths[paths] if self._try_paths(paths, places, values_folder) else None

    def _watch_closely(
        self,
        analysis: RunAnalysis,
        candidates: tuple[CensusDifference, ...],
        places: Mapping[int, TrainingPlace],
    ) -> tuple[RunAnalysis | None, Path]:
        """Return the run as it is looked at more closely, and the folder of a clean run's values.

        Both look where the bodies of loops begin, and have more time for a census than other runs.
        """
        paths, first_place = (
            tuple(candidate.path for candidate in candidates),
            census.find_first_place(analysis),
        )
        if not places:
            return None, Path()
        watched_places = {*places.values(), *filter(None, (first_place,))}
        directory = self.create_directory("looked-at", self.plan)
        _write_order(directory, LOOK, self._build_order(paths, watched_places))
        watched_run = self.execute(directory, self.baseline)
        values_folder = self.record_clean_values(paths, watched_places)
        clean_baseline = Baseline([RunDirectory(values_folder.parent).load_history()])
        return RunAnalysis(self.plan, watched_run.history, clean_baseline), values_folder

    def _find_file_cause(
        self, analysis: RunAnalysis, places: Mapping[int, TrainingPlace]
    ) -> CauseOutcome | None:
        """Return what putting files back has shown; None if none is the cause."""
        files = find_files_ahead(analysis)
        if not files or not places:
            return None
        clean_directory = self.create_directory("clean-files", self.plan.build_baseline_plan())
        copies_folder = _order_file_copies(
            clean_directory, files, keep=sorted(set(places.values()))
        )
        self.execute(clean_directory, None)

        def is_right(paths: Paths) -> bool:
            directory = self.create_directory(f"files-{self.run_count}", self.plan)
            folder = _order_file_copies(directory, paths, give=places, source=copies_folder)
            run = self.execute(directory, self.baseline)
            is_right = _were_files_restored(folder, paths, places) and has_trained_equally(
                run.analysis, run.verdict, self.check
            )
            self.report(
                f"{join_names(paths)} put back: training {_choose_verb(is_right)} the baseline's"
            )
            return is_right

        cause = find_minimal_paths(files, is_right)
        if cause is None:
            return None
        candidates = tuple(CensusDifference(path, "", "", is_initial=False) for path in cause)
        return CauseOutcome(candidates, candidates, self.plan.expect.is_exact, are_files=True)

    def _run_embedded(self) -> RunAnalysis | None:
        """Return the run as it is on the embedded backend; None if it is not wrong there."""
        clean_run = self.execute(
            self.create_directory("clean-embedded", self.plan.build_baseline_plan()), None
        )
        self.baseline = Baseline([clean_run.history])
        run = self.execute(self.create_directory("embedded", self.plan), self.baseline)
        is_wrong = any(result.check == self.check for result in run.verdict.broken)
        return run.analysis if is_wrong else None

    def _try_paths(
        self, paths: Paths, places: Mapping[int, TrainingPlace], values_folder: Path
    ) -> bool:
        run, restored_paths, generators = self.give_values(paths, places, values_folder)
        self._generators |= generators
        is_right = set(paths) <= restored_paths and has_trained_equally(
            run.analysis, run.verdict, self.check
        )
        if not is_right:
            # A fault that did not come about shows nothing of what was given.
            if FAULTS_HAPPENED in {r.check for r in run.verdict.results if r.status == "pass"}:
                self._failed_paths |= restored_paths
        else:
            parts = [part for resume in run.verdict.diagnosis for part in resume.parts]
            lost_parts = (
                p.component for p in parts if p.standing not in ("restored", "not compared")
            )
            self._idle_by_paths[paths] = tuple(dict.fromkeys(lost_parts))
        path_names = join_names([f"`{path}`" for path in paths])
        self.report(f"{path_names} given back: training {_choose_verb(is_right)} the baseline's")
        return is_right


def _choose_verb(is_right: bool) -> str:  # noqa: FBT001 - its only argument
    return "is" if is_right else "is not"


def _load_given(folder: Path, name: str) -> frozenset[str]:
    """Return what all ranks were given, by their lists of this name."""
    lists = (json.loads(file.read_text("utf-8")) for file in folder.glob(f"{name}-*.json"))
    return frozenset().union(*lists)


def _write_order(directory: RunDirectory, name: str, order: Mapping[str, object]) -> Path:
    folder = directory.path / FOLDER
    folder.mkdir()
    (folder / name).write_text(json.dumps(order), encoding="utf-8")
    return folder


def _order_file_copies(
    directory: RunDirectory,
    files: Sequence[str],
    *,
    keep: Sequence[TrainingPlace] = (),
    give: Mapping[int, TrainingPlace] | None = None,
    source: Path | None = None,
) -> Path:
    """Order a run to copy files at places, or to put them back in attempts; return the folder."""
    order = {"files": files, "keep": keep, "give": give or {}, "from": str(source or "")}
    return write_order(directory.path / FOLDER, order)


def _were_files_restored(folder: Path, files: Collection[str], attempts: Collection[int]) -> bool:
    """Return whether each of the attempts was given all files."""
    files_by_attempt = load_restored_files(folder)
    return all(set(files) <= set(files_by_attempt.get(attempt, ())) for attempt in attempts)


def _describe_restored_files(files: Sequence[str], *, is_exact: bool) -> str:
    """Return in words that files were shown to be the cause."""
    file_names = join_names([f"`{format_path(Path(file))}`" for file in files])
    accuracy = "to the last bit" if is_exact else "within the tolerance"
    verb = "it was" if len(files) == 1 else "they were"
    return (
        f"With {file_names} put back as in a clean run at the place of the resume, training is the "
        f"baseline's {accuracy}: {verb} ahead of what the job resumed from."
    )
