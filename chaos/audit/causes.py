"""The causes of an audit's findings, as shown by giving values back, and what that says of each.

A generator that did not come back is the cause only where training came out right with it given
back. Where it did not, the result is wrong, whatever was drawn. And a part that is still lost in a
run that came out right has no consequence: it is a note, and no finding.
"""

import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from chaos.audit.finding import Finding
from chaos.audit.folder import AuditFolder
from chaos.audit.giving_back import Explained, GivingBack
from chaos.audit.notes import Note, note
from chaos.audit.run_row import RunRow
from chaos.check.analysis import RunAnalysis
from chaos.check.code_lines import lines_of_values
from chaos.check.state import STATE
from chaos.check.trajectory import TRAJECTORY
from chaos.errors import ChaosError
from chaos.model.history import Baseline
from chaos.run.clock import Clock
from chaos.run.ports import Backend
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
    rows: Sequence[RunRow]
    ends_ns: float
    least: int
    show: Callable[[int], None] = lambda _: None
    #: by the name of the finding, what was shown of it
    _shown: dict[str, Explained] = field(default_factory=dict, init=False)

    def judge(self, findings: Sequence[Finding]) -> tuple[list[Finding], tuple[Note, ...]]:
        """Return the findings with what was shown of them, and notes of those that are none."""
        judged = []
        for number, finding in enumerate(findings):
            if finding.is_open:
                self.show(number)
                finding = self._explained(finding)  # noqa: PLW2901
            judged.append(finding)
        idle = {f.name: by for f in judged if (by := self._proven_without(f, judged)) is not None}
        shutil.rmtree(self.folder.path / _GIVEN, ignore_errors=True)
        kept = [finding for finding in judged if finding.name not in idle]
        return kept, tuple(_note(f, idle[f.name]) for f in judged if f.name in idle)

    def _explained(self, finding: Finding) -> Finding:
        giving, analysis = self._giving(finding, finding.smallest.number, finding.name)
        with suppress(TimeoutError, ChaosError):  # the finding stands without it
            shown = self._shown[finding.name] = giving.explained(analysis)
            finding = _with(finding, shown, analysis)
        self.least = max(0, self.least - giving.runs)
        return finding

    def _giving(self, finding: Finding, number: int, name: str) -> tuple[GivingBack, RunAnalysis]:
        run = self.folder.run(number)
        plan = run.load_plan()
        analysis = RunAnalysis(plan, run.load_history(), self.baseline)
        folder = AuditFolder(self.folder.path / _GIVEN / name, self.folder.env)
        check = TRAJECTORY if finding.defect.check == STATE else finding.defect.check
        means = self.backend, self.clock, folder, plan, self.baseline, check
        return GivingBack(*means, ends_ns=self.ends_ns, least=self.least), analysis

    def _proven_without(self, finding: Finding, all_of: Sequence[Finding]) -> Finding | None:
        """Return another finding by whose cause alone every run of this one is wrong."""
        parts = {*finding.defect.parts}
        if finding.defect.check != STATE or finding.cause or not parts:
            return None
        for other in all_of:
            shown = self._shown.get(other.name)
            if other is finding or shown is None or not other.cause:
                continue
            if parts <= {*shown.idle} and {*finding.runs} <= {*other.runs}:
                return other if self._is_idle_elsewhere(finding, other) else None
        return None

    def _is_idle_elsewhere(self, finding: Finding, other: Finding) -> bool:
        """Try it at the places of one more run: at a resume a schedule may be right by chance."""
        rows = [
            row
            for row in self.rows
            if row.number in finding.runs
            and row.number != other.smallest.number
            and not row.earlier
        ]
        if not rows:
            return True
        row = max(rows, key=lambda row: (row.resumed, -row.number))
        giving, analysis = self._giving(other, row.number, f"{finding.name}-elsewhere")
        try:
            idle = giving.idle_with(analysis, other.cause)
        except (TimeoutError, ChaosError):
            return False  # it stays a finding
        self.least = max(0, self.least - giving.runs)
        return idle is not None and {*finding.defect.parts} <= {*idle}


def _with(finding: Finding, shown: Explained, analysis: RunAnalysis) -> Finding:
    """Return a finding with what giving back has shown of its cause, and of its severity."""
    is_by_chance = finding.defect.check in _BY_CHANCE
    if shown.cause:
        lines = lines_of_values(analysis, shown.cause, finding.lines)
        proven = finding.proven(shown.sentence, lines, [one.path for one in shown.cause])
        grade = "not reproducible" if shown.is_drawn else "wrong result"
        return proven.model_copy(update={"graded": grade}) if is_by_chance else proven
    if not shown.generators or not is_by_chance:
        return finding
    named = listed([f"`{path}`" for path in shown.generators])
    it = "it" if len(shown.generators) == 1 else "them"
    trial = f"{named} did not come back, and giving {it} back did not mend training."
    return finding.not_mended(trial)


def _note(finding: Finding, other: Finding) -> Note:
    parts = listed([f"`{part}`" for part in finding.defect.parts])
    cause = listed([f"`{path}`" for path in other.cause])
    return note(
        f"{parts} did not come back at {plural(finding.count, 'place')}, without a consequence: "
        f"with {cause} alone given back, training is the baseline's"
    )
