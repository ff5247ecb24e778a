"""The runs with a planted loss, below the folder of an audit that passed."""

import pickle
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from chaos.audit.card import Controls, PlantedLoss
from chaos.audit.cause_search import ValueRuns
from chaos.audit.causes import Trials
from chaos.audit.folder import AuditFolder
from chaos.audit.run_row import RunRow
from chaos.check import census
from chaos.check.analysis import RunAnalysis
from chaos.errors import ChaosError
from chaos.extensions.controls.judgement import (
    describe_unplanted,
    judge_loss,
    list_restored_parts,
)
from chaos.extensions.controls.selection import (
    CONTROLS_MAX,
    Control,
    LossSite,
    find_part_controls,
    find_resume,
    find_value_controls,
    list_loop_targets,
    select_lasting,
)
from chaos.model.places import TrainingPlace
from chaos.run.directory import RunDirectory

FOLDER = "controls"
_RUNS_READ_MAX = 16
_TIME_OVER = "no time was left"
_NO_RESUME = "no right run ends with a resume and steps after it"
_ON_RAY = "losses are planted without a cluster alone, and this audit ran on Ray"
_NOTHING_MOVED = "nothing that can be set had moved by the resume, and came back"
_NO_FIRST_VALUE = "it had no value at the start that can be kept"
_UNREPEATED = "the run did not come out right again without a loss"


def plant_losses(trials: Trials) -> Controls:
    """Repeat a right run of an audit, with one loss at its resume each time.

    Nothing remains of these runs, and nothing but the returned controls follows from them.
    """
    folder = AuditFolder(trials.folder.path / FOLDER, trials.folder.env)
    candidates = [*_load_candidates(trials)]
    if not candidates:
        return Controls(reason=_NO_RESUME)
    run = max(candidates, key=lambda candidate: candidate.sort_key)
    if run.analysis.plan.backend != "fork":
        return Controls(reason=_ON_RAY)
    try:
        return ControlRuns(trials, run, folder).plant_all()
    except TimeoutError:
        return Controls(reason=_TIME_OVER)
    except ChaosError as error:
        return Controls(reason=f"the job could not be repeated: {error}")
    finally:
        shutil.rmtree(folder.path, ignore_errors=True)


class RightRun(NamedTuple):
    """A right run as it was recorded, its last resume, and what could be lost there."""

    analysis: RunAnalysis
    site: LossSite
    controls: tuple[Control, ...]

    @property
    def sort_key(self) -> tuple[object, ...]:
        """The key by which the best run comes last: the end of a notice follows the clock."""
        site, plan = self.site, self.analysis.plan
        is_announced = any(op.fault.is_announced for op in plan.ops)
        return (
            not is_announced,
            len(self.controls),
            site.epochs_after > 0,
            -site.attempt,
            site.place,
            site.steps_after,
        )


def _load_candidates(trials: Trials) -> Iterator[RightRun]:
    """Yield right runs with a resume after which nothing was killed, those of few places first."""
    rows_by_run: dict[int, list[RunRow]] = {}
    for row in trials.rows:
        rows_by_run.setdefault(row.number, []).append(row)
    right_runs = [run for run, rows in rows_by_run.items() if all(map(_is_plain, rows))]
    for number in sorted(right_runs, key=lambda run: len(rows_by_run[run]))[:_RUNS_READ_MAX]:
        run = trials.folder.run_directory(number)
        analysis = RunAnalysis(run.load_plan(), run.load_history(), trials.baseline)
        if (site := find_resume(analysis)) is not None:
            controls = find_part_controls(analysis, site), find_value_controls(analysis, site)
            yield RightRun(analysis, site, tuple(chain.from_iterable(controls)))


def _is_plain(row: RunRow) -> bool:
    is_whole = not (row.accepted or row.earlier or row.is_combined)
    return row.is_right and is_whole and row.resumed > 0


@dataclass
class ControlRuns:
    """The repetitions of one run, in `folder`, each with another loss."""

    trials: Trials
    run: RightRun
    folder: AuditFolder
    _runs: ValueRuns = field(init=False)
    _first_place: TrainingPlace | None = field(init=False)
    #: of the clean run that keeps the values at the start
    _values_folder: Path = field(default=Path(), init=False)

    def __post_init__(self) -> None:
        trials, analysis = self.trials, self.run.analysis
        self._first_place = census.find_first_place(analysis)
        self._runs = ValueRuns(
            trials.backend,
            trials.clock,
            self.folder,
            analysis.plan,
            trials.baseline,
            end_ns=trials.end_ns,
            minimum_runs=trials.minimum_runs,
        )

    def plant_all(self) -> Controls:
        """Return what came of each loss; raises `TimeoutError` if there was time for none."""
        site = self.run.site
        if self._first_place is None or not self.run.controls:
            return Controls(reason=_NOTHING_MOVED)
        chosen = self._keep_first_values(self._first_place)
        kept_paths = _load_kept_paths(self._values_folder)
        settable = [control for control in chosen if control.path in kept_paths]
        planted = []
        for number, control in enumerate(tried := settable[:CONTROLS_MAX]):
            self.trials.show(number, len(tried))
            planted.append(self._plant(control, self._first_place))
        unplanted = [
            *(describe_unplanted(c, _NO_FIRST_VALUE) for c in chosen if c not in settable),
            *(
                describe_unplanted(c, f"{CONTROLS_MAX} others came before it")
                for c in settable[CONTROLS_MAX:]
            ),
        ]
        losses = (*self._recheck_nameless(planted, self._first_place), *unplanted)
        return Controls(place=f"attempt {site.attempt}, resumed at {site.place}", losses=losses)

    def _keep_first_values(self, first_place: TrainingPlace) -> list[Control]:
        """Run the job without faults, and return the controls that this run bears out."""
        analysis, controls = self.run.analysis, self.run.controls
        self._runs.find_loops(analysis)
        paths = tuple(control.path for control in controls)
        self._values_folder = self._runs.record_clean_values(paths, {first_place})
        clean_run = RunDirectory(self._values_folder.parent).load_history()
        return select_lasting(controls, clean_run, first_place, _find_targets(analysis))

    def _plant(self, control: Control, first_place: TrainingPlace) -> PlantedLoss:
        attempt = self.run.site.attempt
        try:
            outcome = self._runs.give_values(
                (control.path,), {attempt: first_place}, self._values_folder
            )
        except TimeoutError:
            return describe_unplanted(control, _TIME_OVER)
        except ChaosError as error:
            return describe_unplanted(control, f"its run could not be carried out: {error}")
        restored_parts = list_restored_parts(outcome.run.analysis, attempt)
        return judge_loss(control, outcome.run.verdict, outcome.paths, restored_parts)

    def _recheck_nameless(
        self, losses: Sequence[PlantedLoss], first_place: TrainingPlace
    ) -> list[PlantedLoss]:
        """Return the losses; none is found without a name if the run fails without a loss, too."""
        nameless = [loss for loss in losses if loss.result == "found" and not loss.is_named]
        if not nameless:
            return [*losses]
        try:
            attempts = {self.run.site.attempt: first_place}
            outcome = self._runs.give_values((), attempts, self._values_folder)
            is_right = outcome.run.verdict.status == "pass"
        except (TimeoutError, ChaosError):
            is_right = False
        return [
            loss
            if is_right or loss not in nameless
            else loss.replace(result="not planted", reason=_UNREPEATED)
            for loss in losses
        ]


def _load_kept_paths(values_folder: Path) -> set[str]:
    """Return the paths of the values that a clean run has kept, on any rank."""
    kept_paths = set[str]()
    for file in values_folder.glob("kept-*.pkl"):
        # The file is one that chaos has let the same job write; the values stay pickled.
        values_by_moment: dict[int | None, dict[str, bytes]] = pickle.loads(file.read_bytes())  # noqa: S301
        kept_paths.update(*values_by_moment.values())
    return kept_paths


def _find_targets(analysis: RunAnalysis) -> set[str]:
    """Return the variables of the loops in which the model is called."""
    targets = set[str]()
    for loop in census.find_model_loops(analysis):
        try:
            targets.update(list_loop_targets(Path(loop.file).read_text("utf-8"), loop.first))
        except (OSError, ValueError, SyntaxError):
            continue
    return targets
