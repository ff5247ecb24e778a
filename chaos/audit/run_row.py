"""One run with a fault as a row, which is all that an audit keeps of it in memory."""

from collections.abc import Sequence
from typing import Any, Self

from pydantic import Field

from chaos.audit.chains import join_places
from chaos.audit.site_category import SiteCategory
from chaos.audit.site_groups import FaultSite
from chaos.check.headline import build_headline, describe_faults
from chaos.check.restarts import Restart, count_lost_steps
from chaos.check.resumes import count_restarts, is_resumed
from chaos.check.trajectory import TRAJECTORY
from chaos.model.diagnosis import Standing
from chaos.model.event import FileLoaded, StepDone
from chaos.model.expect import VerdictStatus
from chaos.model.history import History
from chaos.model.places import START, AttemptRank
from chaos.model.plan import Op
from chaos.model.severity import Severity
from chaos.model.verdict import Anomaly, CheckResult, JobLine, ResultName, Verdict
from chaos.record import Record
from chaos.report.outcome import FinishedRun, build_suite_row

_WORSE: tuple[Standing, ...] = (
    "not compared",
    "restored",
    "different",
    "reset",
    "not restored",
)


class DefectKey(Record):
    """A broken promise without its facts, so that it equals the same defect at another place."""

    check: str
    kind: str
    severity: Severity = "wrong result"
    #: what is affected, without ranks: parts of the state, metrics, files
    parts: tuple[str, ...] = ()


class Defect(DefectKey):
    """A broken promise of one run, with what that run shows of it."""

    facts: dict[str, Any] = Field(default_factory=dict)
    #: the end of a sentence that the run's faults begin
    sentence: str = ""
    #: the sentence without what is likely and was not shown; empty where it says no such thing
    sentence_without_guess: str = ""
    #: why it is so was not seen
    is_unexplained: bool = False
    #: why it is accepted, where it is by its kind
    accepted_reasons: tuple[str, ...] = ()

    @property
    def key(self) -> DefectKey:
        """The key that it shares with the same defect of another run."""
        return DefectKey(check=self.check, kind=self.kind, severity=self.severity, parts=self.parts)


class RunRow(Record):
    """The result of one run with a fault.

    Rows of one number share a run, and each has its part of the run's time.
    """

    #: the run's folder below `runs/`
    number: int
    name: str
    group: SiteCategory
    ops: tuple[Op, ...]
    status: VerdictStatus
    headline: str
    #: without what is likely and was not shown; empty where it says no such thing
    headline_without_guess: str = ""
    #: the broken promises, most specific first; those of one check are separate causes, the one
    #: that explains the first difference before the others
    defects: tuple[Defect, ...]
    #: the checks that had evidence
    evidence: tuple[str, ...]
    #: the checks that were inconclusive
    undecided: tuple[str, ...]
    #: the standing of each part of the state at the worst of the run's resumes, on its worst rank
    parts: dict[str, Standing] = Field(default_factory=dict)
    landed: int
    attempts: int
    #: the worst rank's recomputed steps over all restarts, None if no step is seen
    lost_steps: int | None
    seconds: float
    #: the ranks that, after a restart and before their first step there, loaded a file of an
    #: earlier attempt
    loads: tuple[int, ...] = ()
    #: the parts that were lost without a visible consequence
    idle: tuple[str, ...] = ()
    #: the restarts from a checkpoint
    resumed: int = 0
    #: the restarts that began anew
    from_scratch: int = 0
    #: training was over at its restart, so that none was to resume
    had_nothing_left: bool = False
    #: that of the gravest broken promise
    severity: Severity | None = None
    #: the broken promises that `--accept` allows
    accepted: tuple[Defect, ...] = ()
    #: the broken promises that no result bears out
    latent: tuple[Defect, ...] = ()
    #: the results that were compared with the baseline's, and equal
    equal: tuple[ResultName, ...] = ()
    #: those that differ; of a right run they are accepted
    different: tuple[ResultName, ...] = ()
    #: the beginning of a sentence
    faults: str = ""
    #: of the job's code, behind the first of the `defects`
    lines: tuple[JobLine, ...] = ()
    #: whether all its resumes went on within an epoch; None if some did
    within: bool | None = None
    #: it was ended by chaos: it stood still, or was going on at its limit
    is_hung: bool = False
    #: it is of all places of a run at once, of which none is wrong alone
    is_combined: bool = False
    #: whether a later attempt found a file that the job had saved; None if none was saved before
    keeps: bool | None = None
    #: the folder of the audit that it was taken over from, where nothing has changed since
    earlier: str = ""

    @property
    def defect_keys(self) -> tuple[DefectKey, ...]:
        """Its defects as those of other runs, in the same order."""
        return tuple(defect.key for defect in self.defects)

    @property
    def place(self) -> FaultSite:
        """The place of the run, and its ops."""
        return FaultSite(self.name, self.group, self.ops)

    @property
    def is_right(self) -> bool:
        """Whether the job reached the same result, except for accepted differences."""
        return self.status == "pass"

    @property
    def is_wrong(self) -> bool:
        """Whether the job reached another result, or none."""
        return self.status == "fail"

    @property
    def is_from_scratch(self) -> bool:
        """Whether the job came out right, and its restarts tested no resume: they began anew.

        Those that found that nothing was left to do began nothing.
        """
        return self.is_right and not self.resumed and self.from_scratch > 0

    @property
    def is_tried(self) -> bool:
        """Whether it is of one place, and the place was tried."""
        return self.has_all_faults and not self.is_combined

    @property
    def inconclusive_row(self) -> Self:
        """The row of a run that was wrong, and not when it was repeated: that is no evidence."""
        headline = f"wrong, and not when the run was repeated: {self.headline}"
        cleared_fields = {"defects": (), "severity": None}
        return self.model_copy(
            update={"status": "inconclusive", "headline": headline, **cleared_fields}
        )

    @property
    def has_all_faults(self) -> bool:
        """Whether all planned faults were injected; otherwise the place was not tried."""
        return self.status != "inconclusive" or self.landed >= len(self.ops)


def build_run_rows(
    number: int, places: Sequence[FaultSite], run: FinishedRun
) -> tuple[RunRow, ...]:
    """Return the rows of a judged run: one per place if it answers them all, else one in all.

    A run of several places answers them if nothing is wrong with it, every fault was injected,
    and every restart follows from the faults of one place.
    """
    whole_row = build_run_row(number, join_places(places), run)
    if len(places) == 1:
        return (whole_row,)
    combined_row = whole_row.replace(is_combined=True)
    if not whole_row.is_right or whole_row.accepted or whole_row.landed < len(whole_row.ops):
        return (combined_row,)
    place_numbers = [number for number, place in enumerate(places) for _ in place.ops]  # by op
    restarts_by_place: list[list[Restart]] = [[] for _ in places]
    for restart in run.analysis.restarts:
        owners = {place_numbers[injection.op.index] for injection in restart.injections}
        # Two faults may end one attempt together, and a restart may follow from none: whose resume
        # it was is then not known, and a place is not counted by another's.
        if len(owners) != 1:
            return (combined_row,)
        restarts_by_place[owners.pop()].append(restart)
    if not all(restarts_by_place):
        return (combined_row,)
    shared_row = whole_row.replace(seconds=whole_row.seconds / len(places))
    return tuple(
        _build_place_row(shared_row, place, restarts, run)
        for place, restarts in zip(places, restarts_by_place, strict=True)
    )


def _build_place_row(
    shared_row: RunRow, place: FaultSite, restarts: Sequence[Restart], run: FinishedRun
) -> RunRow:
    """Return the row of one place of a run without a difference."""
    counts = count_restarts(run.analysis, restarts)
    parts, idle = _summarize_parts(restarts, run)
    return shared_row.replace(
        name=place.name,
        group=place.group,
        ops=place.ops,
        parts=parts,
        idle=idle,
        landed=len(place.ops),
        attempts=1 + len(restarts),
        lost_steps=None if shared_row.lost_steps is None else count_lost_steps(restarts),
        resumed=counts.resumed,
        from_scratch=counts.from_scratch,
    )


def build_run_row(number: int, place: FaultSite, run: FinishedRun) -> RunRow:
    """Return the row of a judged run."""
    row, verdict = build_suite_row(run), run.verdict
    parts, idle = _summarize_parts(run.analysis.restarts, run)
    defects: dict[DefectKey, Defect] = {}
    for result in verdict.broken:
        for anomaly in result.anomalies:
            defect = _build_defect(result, anomaly)
            defects.setdefault(defect.key, defect)
    return RunRow(
        number=number,
        name=place.name,
        group=place.group,
        ops=place.ops,
        status=verdict.status,
        headline=verdict.headline,
        headline_without_guess=_build_headline_without_guess(run),
        defects=tuple(defects.values()),
        faults=describe_faults(run.analysis),
        lines=verdict.lines,
        within=_resumes_within_epoch(run),
        keeps=_keeps_saves(run),
        is_hung=verdict.status == "fail" and run.analysis.run.ending.deadline is not None,
        evidence=tuple(
            r.check for r in verdict.results if r.evidence and r.status != "inconclusive"
        ),
        undecided=tuple(result.check for result in verdict.undecided),
        parts=parts,
        idle=idle,
        landed=sum(injection.has_effect for injection in run.analysis.injections),
        attempts=row.attempts or 0,
        lost_steps=row.lost_steps,
        seconds=run.duration_s,
        loads=_find_loading_ranks(run.history),
        resumed=verdict.restarts.resumed,
        from_scratch=verdict.restarts.from_scratch,
        had_nothing_left=verdict.restarts.idle > 0,
        severity=verdict.severity,
        accepted=tuple(_build_defect(r, r.accepted[0]) for r in verdict.results if r.accepted),
        latent=tuple(_build_defect(r, anomaly) for r in verdict.results for anomaly in r.latent),
        equal=tuple(result.name for result in verdict.compared if result.status == "equal"),
        different=tuple(result.name for result in verdict.compared if result.status == "different"),
    )


def _build_headline_without_guess(run: FinishedRun) -> str:
    anomalies = [anomaly for result in run.verdict.broken for anomaly in result.anomalies]
    if run.verdict.status != "fail" or not any(a.message_without_guess for a in anomalies):
        return ""
    results = [
        result.replace(
            anomalies=tuple(
                anomaly.replace(message=anomaly.message_without_guess or anomaly.message)
                for anomaly in result.anomalies
            )
        )
        for result in run.verdict.results
    ]
    return build_headline(run.analysis, results, run.verdict.status)


def _resumes_within_epoch(run: FinishedRun) -> bool | None:
    """Return whether all resumes of a run went on within an epoch, or none; None if neither."""
    resumed_restarts = (r for r in run.analysis.restarts if is_resumed(run.analysis, r))
    steps = {(restart.attempt.training_place or START).step > 0 for restart in resumed_restarts}
    return steps.pop() if len(steps) == 1 else None


def _keeps_saves(run: FinishedRun) -> bool | None:
    """Return whether a later attempt found what the job had saved; None without such an attempt."""
    files, survival_flags = run.analysis.run.files, list[bool]()
    for restart in run.analysis.restarts:
        first_number = min((start.number for start in restart.attempt.starts.values()), default=0)
        if restart.attempt.index in files.present_files_by_attempt and any(
            files.find_confirmed_saves(end_number=first_number)
        ):
            survival_flags.append(
                any(
                    file.state == "there"
                    for file in files.list_expected_files(restart.attempt.index)
                )
            )
    return any(survival_flags) if survival_flags else None


def _find_loading_ranks(history: History) -> tuple[int, ...]:
    first_steps: dict[AttemptRank, int] = {}
    for number, step in history.select_events(StepDone):
        first_steps.setdefault(AttemptRank(step.attempt, step.rank), number)
    return tuple(
        sorted(
            {
                load.rank
                for number, load in history.select_events(FileLoaded)
                if load.error is None
                and load.saved_attempt is not None
                and load.saved_attempt < load.attempt
                and number < first_steps.get(AttemptRank(load.attempt, load.rank), len(history))
            }
        )
    )


def _summarize_parts(
    restarts: Sequence[Restart], run: FinishedRun
) -> tuple[dict[str, Standing], tuple[str, ...]]:
    """Return the worst standing of each part, and the parts whose difference changed nothing."""
    resumed_attempts = {r.attempt.index for r in restarts if is_resumed(run.analysis, r)}
    diagnosis = [resume for resume in run.verdict.diagnosis if resume.attempt in resumed_attempts]
    standings: dict[str, Standing] = {}
    important_parts: set[str] = set()
    for part in (part for resume in diagnosis for part in resume.parts):
        earlier_standing = standings.get(part.component, part.standing)
        standings[part.component] = max(earlier_standing, part.standing, key=_WORSE.index)
        if part.matters and part.standing not in ("restored", "not compared"):
            important_parts.add(part.component)
    broken_parts = (
        name for name, standing in standings.items() if standing not in ("restored", "not compared")
    )
    return standings, tuple(name for name in broken_parts if name not in important_parts)


def find_first_defect(verdict: Verdict) -> DefectKey | None:
    """Return the most specific broken promise of a verdict; None without one."""
    anomalies = ((result, anomaly) for result in verdict.broken for anomaly in result.anomalies)
    return next((_build_defect(*pair).key for pair in anomalies), None)


def _build_defect(result: CheckResult, anomaly: Anomaly) -> Defect:
    return Defect(
        check=result.check,
        kind=anomaly.kind,
        severity=anomaly.severity,
        # Which numbers differ first depends on the place.
        parts=() if result.check == TRAJECTORY else anomaly.parts,
        facts=anomaly.facts,
        sentence=anomaly.message,
        sentence_without_guess=anomaly.message_without_guess,
        is_unexplained=anomaly.is_unexplained,
        accepted_reasons=result.accepted_reasons,
    )
