"""The runs of a pytest session, on one backend that is opened when it is first needed."""

import contextlib
import io
import sys
import warnings
from pathlib import Path

import pytest
from _pytest.outcomes import Failed

from chaos.errors import ChaosError, UsageError
from chaos.extensions.pytest_plugin.options import (
    FINISHED,
    GROUP,
    RAY_GROUP,
    ROWS,
    Option,
    group_test,
    has_parallel_clusters,
)
from chaos.extensions.pytest_plugin.result import (
    Undecided,
    build_interruption_error,
    build_run_error,
    render_finding,
)
from chaos.extensions.pytest_plugin.suite import Suite, find_reports_folder
from chaos.harness import Harness
from chaos.launch.backends import open_backend
from chaos.model.plan import Plan
from chaos.model.scenario import Scenario
from chaos.plan.make import make_plan
from chaos.report.ci import collect_properties
from chaos.report.outcome import FinishedRun, SuiteRow, build_error_row, build_suite_row
from chaos.report.result import Result
from chaos.report.screen import ConsoleAnnouncer, build_console
from chaos.report.sections import describe_finding
from chaos.run.clock import SystemClock, elapsed_seconds
from chaos.run.display_path import format_path
from chaos.run.ports import Backend, OpenBackend


class UntestedVersionWarning(UserWarning):
    """The installed Ray is not the one that chaos was tested with."""


class Runs:
    """The objects that the tests of one session share: backend, folder of reports, clock."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._clock = SystemClock()
        self._exit_stack = contextlib.ExitStack()
        self._backend: OpenBackend | None = None
        self._message_console = build_console(
            file=io.StringIO(), record=True
        )  # one that is quiet records nothing

    @property
    def backend(self) -> Backend:
        """The session's backend; it starts processes and clusters only for a plan."""
        if self._backend is None:
            if has_parallel_clusters(self._config):
                raise UsageError(
                    "pytest-xdist spreads the tests over processes, and each would start a Ray "
                    "cluster",
                    "With --dist loadgroup all tests that need one go to the same process, where "
                    "this pytest-xdist heeds its groups; else run them with -n 0.",
                )
            name = self._config.getoption(Option.BACKEND.dest)
            open_context = open_backend(name, ConsoleAnnouncer(self._message_console))
            self._backend = self._exit_stack.enter_context(open_context)
            if warning := self._message_console.export_text().strip():
                warnings.warn(warning, UntestedVersionWarning, stacklevel=2)
        return self._backend

    def close(self) -> None:
        self._exit_stack.close()
        # The processes that jobs are forked from outlive a backend, for the next one of this
        # process.
        if self._backend is not None and self._config.getoption(Option.BACKEND.dest) == "fork":
            from chaos.launch.forked.handles import end_roots

            end_roots()
        self._backend = None

    def build_plan(self, scenario: Scenario, *, file: Path, seed: int) -> Plan:
        """Return the plan of a scenario on this session's backend; jobs run in pytest's rootdir."""
        backend = self._config.getoption(Option.BACKEND.dest)
        return make_plan(scenario, file=file, seed=seed, cwd=self._config.rootpath, backend=backend)

    def execute(self, item: pytest.Item, plan: Plan) -> Result:
        """Run a plan for a test, and return its result.

        Raises `NotRun`, `Undecided` for an unexpected inconclusive run, and `TimedOut` for
        a time-out. Skips the test if its job needs an extra that is not installed.
        The test gets a row and its properties.
        """
        item.stash.setdefault(ROWS, [])
        try:
            run = self._run_plan(item, plan)
        finally:
            self._forward_messages()
        _attach_row(item, build_suite_row(run))
        item.stash.setdefault(FINISHED, []).append(run)
        if run.verdict.status == "inconclusive" and not run.verdict.as_expected:
            raise Undecided(describe_finding(run.verdict), render_finding(run))
        return Result(run)

    def _run_plan(self, item: pytest.Item, plan: Plan) -> FinishedRun:
        finished_runs: list[FinishedRun] = []
        start = self._clock.now_ns()
        try:
            return self._build_harness(finished_runs).run_plan(plan)
        except ChaosError as error:
            seconds = elapsed_seconds(start, self._clock)
            _attach_row(item, build_error_row(plan, error, duration_s=seconds))
            raise build_run_error(error) from None
        except Failed as failure:  # pytest-timeout's, from its signal
            if finished_runs:
                _attach_row(item, build_suite_row(finished_runs[-1]))
            folder_text = format_path(find_reports_folder(self._config) / plan.slug)
            raise build_interruption_error(
                str(failure), finished_runs[-1] if finished_runs else None, folder_text=folder_text
            ) from None
        except KeyboardInterrupt:
            if finished_runs:
                self._suite.record_interruption(finished_runs[-1].directory)
            raise

    def _build_harness(self, finished_runs: list[FinishedRun]) -> Harness:
        config = self._config
        is_live = config.getoption("capture") == "no"
        return Harness(
            find_reports_folder(config),
            build_console(file=sys.stdout, quiet=not is_live),
            config.rootpath,
            self.backend,
            self._clock,
            keep_storage=config.getoption(Option.KEEP_STORAGE.dest),
            run_listener=finished_runs.append,
        )

    def _forward_messages(self) -> None:
        """Show the backend's messages, such as the address of a dashboard, at the very end.

        They are for people, who look there; pytest captures the other output.
        """
        for line in self._message_console.export_text().splitlines():
            self._suite.add_note(line)

    @property
    def _suite(self) -> Suite:
        suite = self._config.pluginmanager.get_plugin("chaos-suite")
        assert isinstance(suite, Suite)  # registered as the session was configured
        return suite


_RUNS: pytest.StashKey[Runs] = pytest.StashKey()


def find_runs(config: pytest.Config) -> Runs:
    """Return the session's runs; the first call makes them, and they end with the session."""
    if _RUNS not in config.stash:
        runs = config.stash[_RUNS] = Runs(config)
        config.add_cleanup(runs.close)
    return config.stash[_RUNS]


def _attach_row(item: pytest.Item, row: SuiteRow) -> None:
    item.stash[ROWS].append(row)
    item.user_properties.extend(collect_properties(row).items())


def tag_item(item: pytest.Item, plan: Plan) -> None:
    """Mark a test for `-m chaos`, `-k kill_worker`, and the group of xdist that it shares."""
    item.add_marker("chaos")
    item.extra_keyword_matches.update(op.kind for op in plan.ops)
    # Plans that share a warm cluster of one shape, or a loaded job.
    shape, is_on_ray = f"{plan.shape.nodes}x{plan.shape.cpus_per_node}", plan.backend == "ray"
    item.stash[GROUP] = f"chaos-{shape if is_on_ray else plan.job.source}"
    group_test(item, RAY_GROUP if is_on_ray else item.stash[GROUP])
