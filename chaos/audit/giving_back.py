"""The cause of a run that came out otherwise, proven by giving it back.

The plan of the run is executed again, and values of the job that differ at its resumes are set to
what they are in a clean run. If training is the baseline's then, they are halved until none can be
left out (delta debugging: Zeller and Hildebrandt, *Simplifying and isolating failure-inducing
input*, 2002, there `ddmin`).
"""

import json
import math
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeAlias

from chaos.audit.files_put_back import describe_files_put_back, order_files, were_put_back
from chaos.audit.folder import AuditFolder
from chaos.check import census
from chaos.check.analysis import RunAnalysis
from chaos.check.census import Candidate
from chaos.check.evidence import FAULTS_HAPPENED
from chaos.check.files_ahead import files_ahead
from chaos.check.trajectory import TRAJECTORY
from chaos.model.history import Baseline
from chaos.model.places import Place
from chaos.model.plan import Plan
from chaos.probe.state.give_back import FOLDER, GENERATORS, GIVE, GIVEN, KEEP, LOOK
from chaos.probe.written import Confines
from chaos.report.outcome import FinishedRun
from chaos.run.clock import Clock
from chaos.run.directory import RunDirectory, create
from chaos.run.ports import Backend
from chaos.words import listed

NAMED_MAX = 3
ALONE = 2  # the likeliest, each tried alone before all together
Paths: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Explained:
    """The outcome of giving values back to a run."""

    #: what differed at the resume, the likeliest first
    candidates: tuple[Candidate, ...]
    #: of them those without any of which training is not the baseline's; None if it is not with all
    cause: tuple[Candidate, ...] | None
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

    @property
    def is_drawn(self) -> bool:
        """Whether the cause is generators alone."""
        return bool(self.cause) and {one.path for one in self.cause or ()} <= {*self.generators}

    @property
    def sentence(self) -> str:
        """The outcome in words."""
        if self.are_files and self.cause:
            return describe_files_put_back([c.path for c in self.cause], is_exact=self.is_exact)
        if self.is_right_embedded:
            return (
                "The same faults do no harm on the embedded backend, where values are given back: "
                "nothing was tried."
            )
        if not self.candidates:
            return (
                "No plain value that the job's code holds, moves in training and repeats in clean "
                f"runs differs at the resume: nothing could be given back.{self._unread}"
            )
        if self.cause is None:
            named = _few(tuple(one.path for one in self.candidates))
            still = "training still is not the baseline's"
            return f"With {named} set to the baseline's, {still}.{self._unread}"
        named = listed([f"{one.name}{f' set to {one.due}' * bool(one.due)}" for one in self.cause])
        verb = "it did" if len(self.cause) == 1 else "they did"
        how = "to the last bit" if self.is_exact else "within the tolerance"
        why = f": {verb} not come back"
        if all(one.is_copy for one in self.cause):
            why = ": such processes keep what they are started with"
        return (
            f"With {named} at the resume, as in the baseline, training is the baseline's "
            f"{how}{why}.{self._besides}"
        )

    @property
    def _unread(self) -> str:
        if not self.left_out:
            return ""
        return f" Not read, as too large or on an accelerator: {_few(self.left_out)}."

    @property
    def _besides(self) -> str:
        if not self.idle:
            return ""
        named = _few(self.idle)
        return f" {named} did not come back either, without a consequence at this resume."


def _few(names: tuple[str, ...]) -> str:
    more = len(names) - NAMED_MAX
    named = [f"`{name}`" for name in names[:NAMED_MAX]]
    return listed([*named, f"{more} more"] if more > 0 else named)


def _merged(first: tuple[Candidate, ...], more: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Return both, each path once."""
    by_path: dict[str, Candidate] = {}
    for one in (*first, *more):
        by_path.setdefault(one.path, one)
    return tuple(by_path.values())


def _in_order(own: tuple[Candidate, ...], shared: tuple[Candidate, ...]) -> tuple[Candidate, ...]:
    """Return both with the likeliest of each kind first, as they are tried alone."""
    return (*own[:1], *shared, *own[1:])


def fewest(paths: Paths, is_right: Callable[[Paths], bool]) -> Paths | None:
    """Return a part of the paths that is right, and without any one of which it is not.

    None if all of them together are not right.
    """
    alone = next((path for path in paths[:ALONE] if is_right((path,))), None)
    if alone is not None:
        return (alone,)
    if len(paths) <= 1 or not is_right(paths):
        return None
    count = 2
    while len(paths) > 1:
        size = -(-len(paths) // count)
        parts = [paths[at : at + size] for at in range(0, len(paths), size)]
        rests = [tuple(path for path in paths if path not in part) for part in parts]
        found = next((part for part in dict.fromkeys([*parts, *rests]) if is_right(part)), None)
        if found is not None:
            count = 2 if found in parts else max(count - 1, 2)
            paths = found
        elif count >= len(paths):
            break
        else:
            count = min(2 * count, len(paths))
    return paths


def nearest_cause(
    first: Paths, every: Paths, is_right: Callable[[Paths], bool]
) -> tuple[Paths, Paths | None]:
    """Return the fewest of the first paths, or else of all, and those among which they were."""
    is_right = cache(is_right)  # each try is a run
    cause = fewest(first, is_right) if first else None
    if cause is not None or not every or first == every:
        return first, cause
    return every, fewest(every, is_right)


@dataclass
class GivingBack:
    """The runs by which a recorded run is explained, in folders below `folder`.

    They are on the embedded backend, whatever that of the recorded run, since a plan comes out the
    same each time there. After `ends_ns` (monotonic) none begins, but for the first `least`.
    """

    backend: Backend
    clock: Clock
    folder: AuditFolder
    plan: Plan
    baseline: Baseline
    #: the one that is broken, and is to pass
    check: str = TRAJECTORY
    ends_ns: float = math.inf
    least: int = 0
    tell: Callable[[str], None] = lambda _: None
    runs: int = field(default=0, init=False)
    #: the bodies of the job's loops: a file, the first line, the last
    _loops: list[tuple[str, int, int]] = field(default_factory=list, init=False)
    #: of each run that came out right, the parts of the state that did not come back
    _idle: dict[Paths, tuple[str, ...]] = field(default_factory=dict, init=False)
    #: what was given in any run, and what of it is a generator
    _given: set[str] = field(default_factory=set, init=False)
    _generators: set[str] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        # What is mended is to be equal, whatever the run was allowed.
        expect = self.plan.expect.model_copy(update={"accept": ()})
        self.plan = self.plan.model_copy(update={"expect": expect})

    def explained(self, analysis: RunAnalysis) -> Explained:
        """Return what differs at the resume, and which of it is the cause.

        Raises `TimeoutError` where time ends before that is known.
        """
        if self.plan.backend != "fork":
            embedded = self._embedded()
            if embedded is None:
                return Explained((), None, is_right_embedded=True)
            analysis = embedded
        places, unread = census.resumes(analysis), census.left_out(analysis)
        self._loops = [(loop.file, loop.first, loop.last) for loop in census.loops(analysis)]
        if (by_files := self._explained_by_files(analysis, places)) is not None:
            return by_files
        shared, own = census.shared_generators(analysis), census.candidates(analysis)
        looked, kept = self._looked_at(analysis, (*own, *shared), places)
        if looked is not None:
            own = _merged(census.candidates(looked), own)
        near = () if looked is None else census.candidates_at_loops(looked)
        # What differs where loops begin first. Of what differs later, some follows from it.
        near, own = _in_order(near, shared) if near else (), _in_order(own, shared)
        found, likely = _merged(near, own), tuple(one.path for one in near)
        by_path = {one.path: one for one in found}
        every = tuple(by_path) if places else ()
        tried, cause = nearest_cause(
            likely, every, lambda paths: self._is_right(paths, places, kept)
        )
        if cause is None:
            in_vain = tuple(one.path for one in shared if one.path in self._given)
            return Explained(found, None, left_out=unread, generators=in_vain)
        # What the job sets again before the model is called did come back.
        late = {one.path for one in own} - {*cause}
        others = (path for path in tried if by_path[path].lasts and path in late)
        return Explained(
            found,
            tuple(by_path[path] for path in cause),
            self.plan.expect.is_exact,
            idle=tuple(dict.fromkeys((*others, *self._idle[cause]))),
            generators=tuple(path for path in cause if path in self._generators),
        )

    def idle_with(self, analysis: RunAnalysis, paths: Paths) -> tuple[str, ...] | None:
        """Return what of the state has no consequence in a run with these values given back.

        None where training is not the baseline's with them. Raises `TimeoutError` as above.
        """
        places = census.resumes(analysis)
        self._loops = [(loop.file, loop.first, loop.last) for loop in census.loops(analysis)]
        if not places or self.plan.backend != "fork":
            return None
        kept = self._keep(paths, {*places.values()})
        return self._idle[paths] if self._is_right(paths, places, kept) else None

    def _looked_at(
        self, analysis: RunAnalysis, found: tuple[Candidate, ...], places: Mapping[int, Place]
    ) -> tuple[RunAnalysis | None, Path]:
        """Return the run as it is looked at more closely, and the folder of a clean run's values.

        Both look where the bodies of loops begin, and have more time for a census than other runs.
        """
        paths, first = tuple(one.path for one in found), census.first_place(analysis)
        if not places:
            return None, Path()
        at = {*places.values(), *filter(None, (first,))}
        directory = self._directory("looked-at", self.plan)
        _ordered(directory, LOOK, self._order(paths, at))
        looked = self._execute(directory, self.baseline)
        kept = self._keep(paths, at)
        clean = Baseline([RunDirectory(kept.parent).load_history()])
        return RunAnalysis(self.plan, looked.history, clean), kept

    def _keep(self, paths: Paths, places: Collection[Place]) -> Path:
        """Run the job without faults, and return the folder in which it keeps the values."""
        directory = self._directory("clean", self.plan.baseline())
        kept = _ordered(directory, KEEP, self._order(paths, places))
        self._execute(directory, None)
        return kept

    def _order(self, paths: Paths, places: Collection[Place]) -> Mapping[str, object]:
        return {"paths": paths, "places": sorted(places), "loops": self._loops}

    def _explained_by_files(
        self, analysis: RunAnalysis, places: Mapping[int, Place]
    ) -> Explained | None:
        """Return what putting files back has shown; None if none is the cause."""
        files = files_ahead(analysis)
        if not files or not places:
            return None
        clean = self._directory("clean-files", self.plan.baseline())
        kept = order_files(clean, files, keep=sorted(set(places.values())))
        self._execute(clean, None)

        def is_right(paths: Paths) -> bool:
            directory = self._directory(f"files-{self.runs}", self.plan)
            folder = order_files(directory, paths, give=places, source=kept)
            run = self._execute(directory, self.baseline)
            is_right = were_put_back(folder, paths, places) and self._shows_baseline(run)
            self.tell(f"{listed(paths)} put back: training {_is(is_right)} the baseline's")
            return is_right

        cause = fewest(files, is_right)
        if cause is None:
            return None
        named = tuple(Candidate(path, "", "", is_first=False) for path in cause)
        return Explained(named, named, self.plan.expect.is_exact, are_files=True)

    def _shows_baseline(self, run: FinishedRun) -> bool:
        """Return whether a run had its faults, and came out as the baseline."""
        shown = {r.check for r in run.verdict.results if r.status == "pass" and r.evidence}
        return {TRAJECTORY, self.check, FAULTS_HAPPENED} <= shown

    def _embedded(self) -> RunAnalysis | None:
        """Return the run as it is on the embedded backend; None if it is not wrong there."""
        clean = self._execute(self._directory("clean-embedded", self.plan.baseline()), None)
        self.baseline = Baseline([clean.history])
        run = self._execute(self._directory("embedded", self.plan), self.baseline)
        is_wrong = any(result.check == self.check for result in run.verdict.broken)
        return run.analysis if is_wrong else None

    def _is_right(self, paths: Paths, places: Mapping[int, Place], kept: Path) -> bool:
        directory = self._directory(f"given-{self.runs}", self.plan)
        order = {
            "paths": paths,
            "attempts": places,
            "from": str(kept),
            "loops": self._loops,
        }
        folder = _ordered(directory, GIVE, order)
        run = self._execute(directory, self.baseline)
        # Only of a run in which they were given.
        lists = (json.loads(file.read_text("utf-8")) for file in folder.glob(f"{GIVEN}-*.json"))
        given = set[str]().union(*lists)
        drawn = (
            json.loads(file.read_text("utf-8")) for file in folder.glob(f"{GENERATORS}-*.json")
        )
        self._generators |= set[str]().union(*drawn)
        self._given |= given
        is_given = set(paths) <= given
        is_right = is_given and self._shows_baseline(run)
        if is_right:
            parts = [part for resume in run.verdict.diagnosis for part in resume.parts]
            lost = (p.component for p in parts if p.standing not in ("restored", "not compared"))
            self._idle[paths] = tuple(dict.fromkeys(lost))
        named = listed([f"`{path}`" for path in paths])
        self.tell(f"{named} given back: training {_is(is_right)} the baseline's")
        return is_right

    def _directory(self, name: str, plan: Plan) -> RunDirectory:
        if self.runs >= self.least and self.clock.now_ns() > self.ends_ns:
            raise TimeoutError
        self.runs += 1
        return create(self.folder.path, name, self._confined(plan), self.folder.env)

    def _confined(self, plan: Plan) -> Plan:
        """Return an embedded plan that writes to `folder`, and to what its audit made elsewhere."""
        plan = plan.model_copy(update={"backend": "fork"})
        limits, folder = plan.confined, self.folder.path
        if limits is None or folder.is_relative_to(limits.folder):
            return plan
        before = Confines(Path(limits.folder)).created
        if before.is_file():
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy(before, Confines(folder).created)
        limits = limits.model_copy(update={"folder": str(folder)})
        return plan.model_copy(update={"confined": limits})

    def _execute(self, directory: RunDirectory, baseline: Baseline | None) -> FinishedRun:
        plan = directory.load_plan()
        run = self.folder.execute(self.backend, plan, directory, baseline, self.clock)
        directory.remove_storage()
        return run


def _is(is_right: bool) -> str:  # noqa: FBT001 - its only argument
    return "is" if is_right else "is not"


def _ordered(directory: RunDirectory, name: str, order: Mapping[str, object]) -> Path:
    folder = directory.path / FOLDER
    folder.mkdir()
    (folder / name).write_text(json.dumps(order), encoding="utf-8")
    return folder
