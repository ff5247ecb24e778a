"""The runs of a pytest session, on one backend that is opened when it is first needed."""

import contextlib
import io
import sys
import warnings
from pathlib import Path

import pytest
from _pytest.outcomes import Failed

from chaos.errors import ChaosError, UsageError
from chaos.harness import Harness
from chaos.launch.open import open_backend
from chaos.model.plan import Plan
from chaos.model.scenario import Scenario
from chaos.plan.make import make_plan
from chaos.pytest_plugin.options import (
    FINISHED,
    GROUP,
    RAY_GROUP,
    ROWS,
    Option,
    keep_together,
    would_have_clusters_side_by_side,
)
from chaos.pytest_plugin.result import Undecided, broken_off, could_not_run, report_text
from chaos.pytest_plugin.suite import Suite, reports_folder
from chaos.report.ci import properties
from chaos.report.outcome import FinishedRun, SuiteRow, row_of, without_verdict
from chaos.report.result import Result
from chaos.report.screen import screen
from chaos.report.sections import line_of
from chaos.run.clock import SystemClock, seconds_since
from chaos.run.ports import Backend, OpenBackend
from chaos.run.shown import shown


class UntestedVersionWarning(UserWarning):
    """The installed Ray is not the one that chaos was tested with."""


class Runs:
    """The objects that the tests of one session share: backend, folder of reports, clock."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._clock = SystemClock()
        self._open = contextlib.ExitStack()
        self._backend: OpenBackend | None = None
        self._said = screen(file=io.StringIO(), record=True)  # one that is quiet records nothing

    @property
    def backend(self) -> Backend:
        """The session's backend; it starts processes and clusters only for a plan."""
        if self._backend is None:
            if would_have_clusters_side_by_side(self._config):
                raise UsageError(
                    "pytest-xdist spreads the tests over processes, and each would start a Ray "
                    "cluster",
                    "With --dist loadgroup all tests that need one go to the same process, where "
                    "this pytest-xdist heeds its groups; else run them with -n 0.",
                )
            name = self._config.getoption(Option.BACKEND.dest)
            prestart = self._config.getoption(Option.PRESTART_WORKERS.dest) and name == "ray"
            opened = open_backend(name, self._said, prestart=prestart)
            self._backend = self._open.enter_context(opened)
            if warning := self._said.export_text().strip():
                warnings.warn(warning, UntestedVersionWarning, stacklevel=2)
        return self._backend

    def close(self) -> None:
        self._open.close()
        # The processes that jobs are forked from outlive a backend, for the next one of this
        # process.
        if self._backend is not None and self._config.getoption(Option.BACKEND.dest) == "fork":
            from chaos.launch.forked.roots import end_roots

            end_roots()
        self._backend = None

    def plan(self, scenario: Scenario, *, file: Path, seed: int) -> Plan:
        """Return the plan of a scenario on this session's backend; jobs run in pytest's rootdir."""
        backend = self._config.getoption(Option.BACKEND.dest)
        return make_plan(scenario, file=file, seed=seed, cwd=self._config.rootpath, backend=backend)

    def execute(self, item: pytest.Item, plan: Plan) -> Result:
        """Run a plan for a test, and return its result.

        Raises `NotRun`, `Undecided` for an unexpected inconclusive run, and `BrokenOff`
        for a time-out. Skips the test if its job needs an extra that is not installed.
        The test gets a row and its properties.
        """
        item.stash.setdefault(ROWS, [])
        try:
            run = self._finished(item, plan)
        finally:
            self._pass_on_what_was_said()
        _keep(item, row_of(run))
        item.stash.setdefault(FINISHED, []).append(run)
        if run.verdict.status == "inconclusive" and not run.verdict.as_expected:
            raise Undecided(line_of(run.verdict), report_text(run))
        return Result(run)

    def _finished(self, item: pytest.Item, plan: Plan) -> FinishedRun:
        seen: list[FinishedRun] = []
        start = self._clock.now_ns()
        try:
            return self._harness(seen).run_plan(plan)
        except ChaosError as error:
            seconds = seconds_since(start, self._clock)
            _keep(item, without_verdict(plan, error, duration_s=seconds))
            raise could_not_run(error) from None
        except Failed as ended:  # pytest-timeout's, from its signal
            if seen:
                _keep(item, row_of(seen[-1]))
            where = shown(reports_folder(self._config) / plan.slug)
            raise broken_off(str(ended), seen[-1] if seen else None, where=where) from None
        except KeyboardInterrupt:
            if seen:
                self._suite.interrupted(seen[-1].directory)
            raise

    def _harness(self, seen: list[FinishedRun]) -> Harness:
        config = self._config
        is_live = config.getoption("capture") == "no"
        return Harness(
            reports_folder(config),
            screen(file=sys.stdout, quiet=not is_live),
            config.rootpath,
            self.backend,
            self._clock,
            keep_storage=config.getoption(Option.KEEP_STORAGE.dest),
            tell=seen.append,
        )

    def _pass_on_what_was_said(self) -> None:
        """Show the backend's messages, such as the address of a dashboard, at the very end.

        They are for people, who look there; pytest captures the other output.
        """
        for line in self._said.export_text().splitlines():
            self._suite.note(line)

    @property
    def _suite(self) -> Suite:
        suite = self._config.pluginmanager.get_plugin("chaos-suite")
        assert isinstance(suite, Suite)  # registered as the session was configured
        return suite


_RUNS: pytest.StashKey[Runs] = pytest.StashKey()


def runs_of(config: pytest.Config) -> Runs:
    """Return the session's runs; the first call makes them, and they end with the session."""
    if _RUNS not in config.stash:
        runs = config.stash[_RUNS] = Runs(config)
        config.add_cleanup(runs.close)
    return config.stash[_RUNS]


def _keep(item: pytest.Item, row: SuiteRow) -> None:
    item.stash[ROWS].append(row)
    item.user_properties.extend(properties(row).items())


def tag(item: pytest.Item, plan: Plan) -> None:
    """Mark a test for `-m chaos`, `-k kill_worker`, and the group of xdist that it shares."""
    item.add_marker("chaos")
    item.extra_keyword_matches.update(op.kind for op in plan.ops)
    # Plans that share a warm cluster of one shape, or a loaded job.
    shape, is_on_ray = f"{plan.shape.nodes}x{plan.shape.cpus_per_node}", plan.backend == "ray"
    item.stash[GROUP] = f"chaos-{shape if is_on_ray else plan.job.source}"
    keep_together(item, RAY_GROUP if is_on_ray else item.stash[GROUP])
