"""The causes of an audit's findings, as shown by giving values back, and what that says of each.

A generator that did not come back is the cause only where training came out right with it given
back. Where it did not, the result is wrong, whatever was drawn. And a part that is still lost in a
run that came out right has no consequence: it is a note, and no finding.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from chaos.audit.finding import Finding, size
from chaos.audit.folder import AuditFolder
from chaos.audit.giving_back import Explained, GivingBack
from chaos.audit.notes import Note, note
from chaos.audit.run_row import RunRow, run_row
from chaos.check.analysis import RunAnalysis
from chaos.check.code_lines import lines_of_values
from chaos.check.judge import judge_analysis
from chaos.check.state import STATE
from chaos.check.trajectory import TRAJECTORY
from chaos.errors import ChaosError
from chaos.extensions import other_checks
from chaos.model.history import Baseline
from chaos.model.severity import Severity
from chaos.report.outcome import FinishedRun
from chaos.run.clock import Clock
from chaos.run.ports import Backend
from chaos.run.shown import shown
from chaos.words import listed, plural

_GIVEN = "given"
#: the checks whose grade rests on a generator that did not come back
_BY_CHANCE = (STATE, TRAJECTORY)


@dataclass
class CauseTrials:
    """The trials of one audit, below `folder`.

    After `ends_ns` (monotonic) none begins, but for the first `least` runs.
    """

    backend: Backend
    clock: Clock
    folder: AuditFolder
    baseline: Baseline
    rows: tuple[RunRow, ...]
    ends_ns: float
    least: int
    show: Callable[[int], None] = lambda _: None
    #: the trials that time ended before they had an outcome
    untried: int = field(default=0, init=False)
    #: by the name of the finding, what was shown of it
    _shown: dict[str, Explained] = field(default_factory=dict, init=False)
    _outcomes: dict[tuple[int, str], Explained | None] = field(default_factory=dict, init=False)

    def judge(self, findings: Sequence[Finding]) -> tuple[list[Finding], tuple[Note, ...]]:
        """Return the findings with what was shown of them, and notes of those that are none."""
        judged = []
        self.untried = 0  # what was tried before is of no finding
        for number, finding in enumerate(findings):
            if finding.is_open:
                self.show(number)
                finding = self._explained(finding)  # noqa: PLW2901
            judged.append(finding)
        idle = {f.name: by for f in judged if (by := self._proven_without(f, judged)) is not None}
        shutil.rmtree(self.folder.path / _GIVEN, ignore_errors=True)
        kept = [finding for finding in judged if finding.name not in idle]
        return kept, tuple(_note(f, idle[f.name]) for f in judged if f.name in idle)

    def no_longer_accepted(self) -> tuple[RunRow, ...]:
        """Return the rows; wrong are those accepted as drawn where that is not what happened.

        That only a generator makes the difference is tried at one of them, and holds for all.
        """
        drawn = [run for row in self.rows if (run := self._accepted_as_drawn(row)) is not None]
        if not drawn:
            return self.rows
        first = min(drawn, key=size)
        outcome = self._tried(first.number, TRAJECTORY)
        if outcome is None or outcome.is_drawn or not (outcome.cause or outcome.generators):
            return self.rows
        for row in drawn:
            self.folder.run(row.number).save_verdict(self._judged(row).verdict)
        by_number = {row.number: row for row in drawn}
        self.rows = tuple(by_number.get(row.number, row) for row in self.rows)
        return self.rows

    def _accepted_as_drawn(self, row: RunRow) -> RunRow | None:
        """Return a row as it is where nothing is accepted, if chance is all that is wrong there."""
        if not row.accepted or not row.is_right or row.earlier:
            return None
        run = self._judged(row)
        is_drawn = all(
            result.check in _BY_CHANCE and result.severity == "not reproducible"
            for result in run.verdict.broken
        )
        wrong = run_row(row.number, row.place, run)
        wrong = wrong.model_copy(update={"is_combined": row.is_combined})
        return wrong if is_drawn and wrong.is_wrong else None

    def _judged(self, row: RunRow) -> FinishedRun:
        """Judge a run again, with nothing accepted."""
        run, analysis = self.folder.run(row.number), self._analysis(row.number)
        verdict = judge_analysis(analysis, other_checks())
        means = analysis.plan, self.folder.env, analysis.history, self.baseline, verdict
        return FinishedRun(*means, shown(run.path), row.seconds, analysis)

    def _explained(self, finding: Finding) -> Finding:
        check = TRAJECTORY if finding.defect.check == STATE else finding.defect.check
        outcome = self._tried(finding.smallest.number, check)
        if outcome is None:
            return finding
        self._shown[finding.name] = outcome
        analysis = self._analysis(finding.smallest.number)
        if outcome.cause:
            lines = lines_of_values(analysis, outcome.cause, finding.lines)
            proven = finding.proven(outcome.sentence, lines, [one.path for one in outcome.cause])
            grade = self._grade(proven, outcome)
            return proven.model_copy(update={"graded": grade})
        if not outcome.generators or finding.defect.check not in _BY_CHANCE:
            return finding
        named = listed([f"`{path}`" for path in outcome.generators])
        it = "it" if len(outcome.generators) == 1 else "them"
        trial = f"{named} did not come back, and giving {it} back did not mend training."
        return finding.not_mended(trial)

    def _grade(self, finding: Finding, outcome: Explained) -> Severity | None:
        """Return the severity by a cause that was shown; None for that of the runs."""
        if not outcome.is_drawn:
            # Whatever looks drawn, such as another order, came of a value that was lost.
            return "wrong result"
        if finding.defect.check not in _BY_CHANCE:
            return None
        if finding.defect.severity == "not reproducible":
            return None
        is_drawn = self._idle_elsewhere(finding, finding) is not None
        return "not reproducible" if is_drawn else None

    def _tried(self, number: int, check: str) -> Explained | None:
        """Return what giving values back to a run has shown; None without time for it."""
        if (number, check) not in self._outcomes:
            giving = self._giving(number, check, f"{number}-{check}")
            outcome = None
            try:
                outcome = giving.explained(self._analysis(number))
            except TimeoutError:
                self.untried += 1
            except ChaosError:
                pass  # what was found stands without it
            self._outcomes[number, check] = outcome
            self.least = max(0, self.least - giving.runs)
        return self._outcomes[number, check]

    def _giving(self, number: int, check: str, name: str) -> GivingBack:
        folder = AuditFolder(self.folder.path / _GIVEN / name, self.folder.env)
        plan = self._analysis(number).plan
        means = self.backend, self.clock, folder, plan, self.baseline, check
        return GivingBack(*means, ends_ns=self.ends_ns, least=self.least)

    def _analysis(self, number: int) -> RunAnalysis:
        """Return the tables of a run, with nothing accepted: what is mended is to be equal."""
        run = self.folder.run(number)
        plan = run.load_plan()
        expect = plan.expect.model_copy(update={"accept": ()})
        plan = plan.model_copy(update={"expect": expect})
        return RunAnalysis(plan, run.load_history(), self.baseline)

    def _proven_without(self, finding: Finding, all_of: Sequence[Finding]) -> Finding | None:
        """Return another finding by whose cause alone every run of this one is wrong."""
        parts = {*finding.defect.parts}
        if finding.defect.check != STATE or finding.cause or not parts:
            return None
        for other in all_of:
            outcome = self._shown.get(other.name)
            if other is finding or outcome is None or not other.cause:
                continue
            if parts <= {*outcome.idle} and {*finding.runs} <= {*other.runs}:
                idle = self._idle_elsewhere(finding, other)
                return other if idle is not None and parts <= {*idle} else None
        return None

    def _idle_elsewhere(self, finding: Finding, other: Finding) -> tuple[str, ...] | None:
        """Return what has no consequence at the places of one more run, with a cause given back.

        At a resume a schedule may be right by chance. None where training is not right with it.
        """
        others = [row for row in self.rows if row.number in finding.runs and not row.earlier]
        others = [row for row in others if row.number != other.smallest.number]
        if not others:
            return self._shown[other.name].idle
        row = max(others, key=lambda row: (row.resumed, -row.number))
        giving = self._giving(row.number, TRAJECTORY, f"{finding.name}-elsewhere")
        idle = None
        with suppress(TimeoutError, ChaosError):  # it stays what it is
            idle = giving.idle_with(self._analysis(row.number), other.cause)
        self.least = max(0, self.least - giving.runs)
        return idle


def _note(finding: Finding, other: Finding) -> Note:
    parts = listed([f"`{part}`" for part in finding.defect.parts])
    cause = listed([f"`{path}`" for path in other.cause])
    return note(
        f"{parts} did not come back at {plural(finding.count, 'place')}, without a consequence: "
        f"with {cause} alone given back, training is the baseline's"
    )
