"""The causes of an audit's findings, as shown by giving values back, and what that says of each.

A generator that did not come back is the cause only where training came out right with it given
back. Where it did not, the result is wrong, whatever was drawn. And a part that is still lost in a
run that came out right has no consequence: it is a note, and no finding.
"""

import math
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from chaos.audit.budget import Budget, set_time_limit
from chaos.audit.cause_search import CauseOutcome, CauseSearch
from chaos.audit.finding import Finding, measure_size
from chaos.audit.folder import AuditFolder
from chaos.audit.notes import Note, note
from chaos.audit.run_row import RunRow, build_run_row
from chaos.check.analysis import RunAnalysis
from chaos.check.code_lines import find_value_lines
from chaos.check.judge import judge_analysis
from chaos.check.state import STATE
from chaos.check.trajectory import TRAJECTORY
from chaos.errors import ChaosError
from chaos.model.history import Baseline
from chaos.model.severity import Severity
from chaos.other_packages import load_external_checks
from chaos.report.outcome import FinishedRun
from chaos.run.clock import Clock
from chaos.run.display_path import format_path
from chaos.run.ports import Backend
from chaos.wording import join_names, plural

_TRIALS_FOLDER = "given"
_KNOWN_CAUSE_RUNS = 2  # one keeps the values of a place, and one is given them
#: the checks whose grade rests on a generator that did not come back
_CHANCE_CHECKS = (STATE, TRAJECTORY)


@dataclass
class Trials:
    """The means of one audit's trials, which repeat runs of `rows` in folders below `folder`.

    After `end_ns` (monotonic) only the first `minimum_runs` still begin.
    """

    backend: Backend
    clock: Clock
    folder: AuditFolder
    baseline: Baseline
    rows: tuple[RunRow, ...]
    end_ns: float
    minimum_runs: int = 0
    show: Callable[[int, int], None] = lambda _, __: None


@dataclass
class CauseTrials(Trials):
    """The trials that look for the causes of an audit's findings."""

    #: how many runs each trial of a known cause may take, whatever the search for it took
    _known_cause_runs: int = field(init=False)
    #: the trials that time ended before they had an outcome
    untried_count: int = field(default=0, init=False)
    #: by the name of the finding, what was shown of it
    _outcome_by_finding: dict[str, CauseOutcome] = field(default_factory=dict, init=False)
    _outcomes: dict[tuple[int, str], CauseOutcome | None] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._known_cause_runs = min(_KNOWN_CAUSE_RUNS, self.minimum_runs)

    def judge(self, findings: Sequence[Finding]) -> tuple[list[Finding], tuple[Note, ...]]:
        """Return the findings with what was shown of them, and notes of those that are none."""
        judged_findings = []
        self.untried_count = 0  # what was tried before is of no finding
        for number, finding in enumerate(findings):
            if finding.is_open:
                self.show(number, len(findings))
                finding = self._explain_finding(finding)  # noqa: PLW2901
            judged_findings.append(finding)
        judged_findings = [self._try_known_causes(finding) for finding in judged_findings]
        main_by_name = {
            f.name: main_finding
            for f in judged_findings
            if (main_finding := self._find_main_finding(f, judged_findings)) is not None
        }
        shutil.rmtree(self.folder.path / _TRIALS_FOLDER, ignore_errors=True)
        real_findings = [finding for finding in judged_findings if finding.name not in main_by_name]
        return real_findings, tuple(
            _note_idle_finding(f, main_by_name[f.name])
            for f in judged_findings
            if f.name in main_by_name
        )

    def _try_known_causes(self, finding: Finding) -> Finding:
        """Return a finding as one of another's cause, if its run is right with that given back.

        Its own sign has no consequence then. Ranks that read files of different ages, as those of a
        right job may, were called a second cause of a job that had lost a queue. The finding's own
        check is to pass as well: a process that is left over is wrong beside equal numbers, too.
        """
        if finding.is_open or finding.cause or finding.defect.check == STATE:
            return finding
        self.minimum_runs = max(self.minimum_runs, self._known_cause_runs)
        outcome = self._repeat_cause(finding.smallest.number, finding.defect.check)
        if outcome is None or outcome.is_drawn:
            return finding
        proven_finding = self._add_proof(finding, outcome)
        return proven_finding.name_numbers().replace(graded="wrong result")

    def _add_proof(self, finding: Finding, outcome: CauseOutcome) -> Finding:
        """Return the finding with the cause of an outcome, and the lines that made its values."""
        cause = outcome.cause or ()
        analysis = self._load_analysis(finding.smallest.number)
        lines = find_value_lines(analysis, cause, finding.lines)
        return finding.add_proof(outcome.sentence, lines, [candidate.path for candidate in cause])

    def recheck_accepted(self) -> tuple[RunRow, ...]:
        """Return the rows; wrong are those accepted as drawn where that is not what happened.

        That only a generator makes the difference is tried at one of them, and holds for all.
        """
        drawn_rows = [run for row in self.rows if (run := self._judge_drawn_row(row)) is not None]
        if not drawn_rows:
            return self.rows
        smallest_row = min(drawn_rows, key=measure_size)
        outcome = self._search_cause(smallest_row.number, TRAJECTORY)
        if outcome is None or outcome.is_drawn or not (outcome.cause or outcome.generators):
            return self.rows
        for row in drawn_rows:
            self.folder.run_directory(row.number).save_verdict(self._judge_strictly(row).verdict)
        by_number = {row.number: row for row in drawn_rows}
        self.rows = tuple(by_number.get(row.number, row) for row in self.rows)
        return self.rows

    def _judge_drawn_row(self, row: RunRow) -> RunRow | None:
        """Return a row as it is where nothing is accepted, if chance is all that is wrong there."""
        is_meant = any(defect.accepted_reasons for defect in row.accepted)
        if not row.accepted or is_meant or not row.is_right or row.earlier:
            return None
        run = self._judge_strictly(row)
        is_drawn = all(
            result.check in _CHANCE_CHECKS and result.severity == "not reproducible"
            for result in run.verdict.broken
        )
        wrong_row = build_run_row(row.number, row.place, run)
        wrong_row = wrong_row.replace(is_combined=row.is_combined)
        return wrong_row if is_drawn and wrong_row.is_wrong else None

    def _judge_strictly(self, row: RunRow) -> FinishedRun:
        """Judge a run again, with nothing accepted."""
        run, analysis = self.folder.run_directory(row.number), self._load_analysis(row.number)
        verdict = judge_analysis(analysis, load_external_checks())
        arguments = analysis.plan, self.folder.env, analysis.history, self.baseline, verdict
        return FinishedRun(*arguments, format_path(run.path), row.seconds, analysis)

    def _explain_finding(self, finding: Finding) -> Finding:
        check = TRAJECTORY if finding.defect.check == STATE else finding.defect.check
        number = finding.smallest.number
        # A part of the state that is idle with a known cause is a note: see `_find_main_finding`.
        is_state = finding.defect.check == STATE
        known_outcome = None if is_state else self._repeat_cause(number, check)
        outcome = known_outcome or self._search_cause(number, check)
        if outcome is None:
            return finding
        self._outcome_by_finding[finding.name] = outcome
        if outcome.cause:
            proven_finding = self._add_proof(finding, outcome)
            grade = self._find_severity(proven_finding, outcome)
            return proven_finding.replace(graded=grade)
        if not outcome.generators or finding.defect.check not in _CHANCE_CHECKS:
            return finding
        generators = join_names([f"`{path}`" for path in outcome.generators])
        pronoun = "it" if len(outcome.generators) == 1 else "them"
        trial = f"{generators} did not come back, and giving {pronoun} back did not mend training."
        if outcome.untried:
            trial = f"{trial} Time ended before {join_names(outcome.untried)} could be given back."
        return finding.add_failed_trial(trial)

    def _find_severity(self, finding: Finding, outcome: CauseOutcome) -> Severity | None:
        """Return the severity by a cause that was shown; None for that of the runs."""
        if outcome.is_cut_short and outcome.generators:
            return None  # what else is among the values may be idle
        if not outcome.is_drawn:
            # Whatever looks drawn, such as another order, came of a value that was lost.
            return "wrong result"
        if finding.defect.check not in _CHANCE_CHECKS:
            return None
        if finding.defect.severity == "not reproducible":
            return None
        is_drawn = self._find_idle_parts(finding, finding) is not None
        return "not reproducible" if is_drawn else None

    def _repeat_cause(self, number: int, check: str) -> CauseOutcome | None:
        """Return the cause of another finding, if the same values given back mend this run too."""
        # One lost window of an augmentation moved the samples in seven runs, and in the eighth the
        # losses alone: two findings, of which time left the second without its cause.
        proven_outcomes = {
            tuple(value.path for value in outcome.cause): outcome
            for outcome in self._outcome_by_finding.values()
            if outcome.cause and not outcome.are_files and not outcome.is_cut_short
        }
        for index, (paths, outcome) in enumerate(proven_outcomes.items()):
            cause_search = self._create_search(number, check, f"{number}-{check}-known-{index}")
            idle_parts = None
            with suppress(TimeoutError, ChaosError):  # it is searched for as others are
                idle_parts = cause_search.find_idle_parts(self._load_analysis(number), paths)
            self.minimum_runs = max(0, self.minimum_runs - cause_search.run_count)
            if idle_parts is not None:
                # The values are those of another resume: at this one they are others.
                cause = tuple(value._replace(baseline_text="") for value in outcome.cause or ())
                return replace(outcome, cause=cause, idle=idle_parts)
        return None

    def _search_cause(self, number: int, check: str) -> CauseOutcome | None:
        """Return what giving values back to a run has shown; None without time for it."""
        if (number, check) not in self._outcomes:
            cause_search = self._create_search(number, check, f"{number}-{check}")
            outcome = None
            try:
                outcome = cause_search.find_cause(self._load_analysis(number))
                self.untried_count += outcome.is_cut_short
            except TimeoutError:
                self.untried_count += 1
            except ChaosError:
                pass  # what was found stands without it
            self._outcomes[number, check] = outcome
            self.minimum_runs = max(0, self.minimum_runs - cause_search.run_count)
        return self._outcomes[number, check]

    def _create_search(self, number: int, check: str, name: str) -> CauseSearch:
        folder = AuditFolder(self.folder.path / _TRIALS_FOLDER / name, self.folder.env)
        plan = self._load_analysis(number).plan
        arguments = self.backend, self.clock, folder, plan, self.baseline, check
        return CauseSearch(*arguments, end_ns=self.end_ns, minimum_runs=self.minimum_runs)

    def _load_analysis(self, number: int) -> RunAnalysis:
        """Return the tables of a run, with nothing accepted: what is mended is to be equal."""
        run = self.folder.run_directory(number)
        plan = run.load_plan()
        expect = plan.expect.replace(accept=(), accept_findings=())
        plan = plan.replace(expect=expect)
        return RunAnalysis(plan, run.load_history(), self.baseline)

    def _find_main_finding(
        self, finding: Finding, all_findings: Sequence[Finding]
    ) -> Finding | None:
        """Return another finding by whose cause alone every run of this one is wrong."""
        parts = {*finding.defect.parts}
        if finding.defect.check != STATE or finding.cause or not parts:
            return None
        for other_finding in all_findings:
            outcome = self._outcome_by_finding.get(other_finding.name)
            if other_finding is finding or outcome is None or not other_finding.cause:
                continue
            if parts <= {*outcome.idle} and {*finding.runs} <= {*other_finding.runs}:
                idle_parts = self._find_idle_parts(finding, other_finding)
                return other_finding if idle_parts is not None and parts <= {*idle_parts} else None
        return None

    def _find_idle_parts(self, finding: Finding, proven_finding: Finding) -> tuple[str, ...] | None:
        """Return what has no consequence at the places of one more run, with a cause given back.

        At a resume a schedule may be right by chance. None where training is not right with it.
        """
        other_rows = [row for row in self.rows if row.number in finding.runs and not row.earlier]
        other_rows = [row for row in other_rows if row.number != proven_finding.smallest.number]
        if not other_rows:
            return self._outcome_by_finding[proven_finding.name].idle
        row = max(other_rows, key=lambda row: (row.resumed, -row.number))
        cause_search = self._create_search(row.number, TRAJECTORY, f"{finding.name}-elsewhere")
        idle_parts = None
        with suppress(TimeoutError, ChaosError):  # it stays what it is
            idle_parts = cause_search.find_idle_parts(
                self._load_analysis(row.number), proven_finding.cause
            )
        self.minimum_runs = max(0, self.minimum_runs - cause_search.run_count)
        return idle_parts


def note_time_shortage(untried: int, command: str, budget: Budget) -> Note:
    """Describe the findings whose cause was not proven before the time limit."""
    longer_command = set_time_limit(command, 2 * math.ceil(budget.seconds or 0))
    return note(
        f"the time limit ended before the cause of {plural(untried, 'finding')} could be "
        f"proven; with twice the time: `{longer_command}`"
    )


def _note_idle_finding(finding: Finding, main_finding: Finding) -> Note:
    parts = join_names([f"`{part}`" for part in finding.defect.parts])
    cause = join_names([f"`{path}`" for path in main_finding.cause])
    return note(
        f"{parts} did not come back at {plural(finding.count, 'place')}, without a consequence: "
        f"with {cause} alone given back, training is the baseline's"
    )
