"""The one class that Ray Train loads from `RAY_TRAIN_CALLBACKS`.

Ray makes it in the driver, pickles it into the controller, and from there
into every worker. In the controller it holds an observer, in a worker a probe.
Nothing here may raise: a raising callback would fail the user's run. Errors are
recorded instead, and a run that was not fully watched never passes.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from chaos.errors import InjectedError
from chaos.launch.raytrain import compat
from chaos.launch.raytrain.observer import Observer, find_start_place
from chaos.probe.address import RunAddress
from chaos.probe.probe import Probe, Worker

_BASES: Any = compat.callback_bases()


class ChaosCallback(*_BASES):  # type: ignore[misc]
    """The hooks of Ray Train, passed on to an `Observer` or a `Probe`."""

    def __init__(self) -> None:
        self._address = RunAddress.from_env()
        self._observer: Observer | None = None
        self._probe: Probe | None = None
        self._lineage: dict[str, Any] = {"attempt": 0, "epochs": {}, "places": {}}

    def __getstate__(self) -> dict[str, Any]:
        """Return the address and the lineage only: open files cannot be pickled."""
        # Ray pickles the callback anew for each worker group, from the controller's: what a probe
        # must know of the attempts before travels here, and no process is asked for it.
        lineage = self._lineage
        if self._observer is not None:
            try:
                lineage = self._observer.lineage()
            except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's run
                self._observer.record_failure("numbering", error)
        return {
            "_address": self._address,
            "_observer": None,
            "_probe": None,
            "_lineage": lineage,
        }

    # -- in the controller -------------------------------------------------------------------

    def after_controller_start(self, train_run_context: Any) -> None:
        try:
            folder = compat.run_folder(train_run_context.run_config)
            self._observer = Observer.start(self._address, folder)
        except Exception as error:  # noqa: BLE001 - the run goes on; it is judged inconclusive
            _report_problem(f"the observer could not start: {error}")

    def after_controller_state_update(self, previous_state: Any, current_state: Any) -> None:
        self._call_observer("state", lambda o: o.state_changed(previous_state, current_state))

    def after_worker_group_start(self, worker_group: Any) -> None:
        self._call_observer("worker group", lambda o: o.group_started(worker_group))

    def after_worker_group_training_start(self, worker_group: Any) -> None:  # noqa: ARG002
        self._call_observer("launch", lambda o: o.group_launched())

    def after_report(self, training_report: Any, metrics: Any) -> None:
        self._call_observer("commit", lambda o: o.committed(training_report.checkpoint, metrics))

    def after_worker_group_poll_status(self, worker_group_status: Any) -> None:  # noqa: ARG002
        """Let the chaos controller hold the next poll, if an op needs it."""
        self._call_observer("poll", lambda o: o.await_poll())

    # -- in a worker ---------------------------------------------------------------------------

    def after_init_train_context(self) -> None:
        try:
            self._probe = _start_probe(self._address, self._lineage)
        except Exception as error:  # noqa: BLE001 - the run goes on; it is judged inconclusive
            _report_problem(f"the probe could not start: {error}")

    def on_report(self) -> AbstractContextManager[None]:
        return self._watch_operation(
            "report", Probe.record_report_start, Probe.record_report_return
        )

    def on_checkpoint_transfer(self) -> AbstractContextManager[None]:
        return self._watch_operation("upload", Probe.record_upload_start, Probe.record_upload_end)

    # -- inside ----------------------------------------------------------------------------------

    @contextmanager
    def _watch_operation(
        self,
        operation: str,
        begin: Callable[[Probe], None],
        end: Callable[[Probe, BaseException | None], None],
    ) -> Iterator[None]:
        # Ray 2.60 enters the context before its own work and leaves it after it: an error of the
        # upload, or of `report()`, passes through, is recorded, and goes on to the train function.
        self._call_probe(operation, begin)
        error: BaseException | None = None
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            self._call_probe(operation, lambda probe: end(probe, error))

    def _call_observer(self, operation: str, act: Callable[[Observer], None]) -> None:
        if self._observer is None:
            return
        try:
            act(self._observer)
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's run
            self._observer.record_failure(operation, error)

    def _call_probe(self, operation: str, act: Callable[[Probe], None]) -> None:
        if self._probe is None:
            return
        try:
            act(self._probe)
        except InjectedError:
            raise  # an injected error is meant for the user's run
        except Exception as error:  # noqa: BLE001 - recorded; must not fail the user's run
            self._probe.report_failure(operation, error)


def _start_probe(address: RunAddress, lineage: dict[str, Any]) -> Probe:
    """Open this worker's journal, record its start, and hook into Ray Train and torch."""
    context = compat.train_context()
    checkpoint = compat.starting_checkpoint()
    worker = Worker(
        attempt=lineage["attempt"],
        rank=context.get_world_rank(),
        world_size=context.get_world_size(),
        node_id=compat.current_node_id(),
        checkpoint=checkpoint,
        training_place=find_start_place(lineage, checkpoint),
        accelerators=compat.current_accelerators(),
    )
    directory = address.run_directory()
    probe = Probe.create_probe(worker, directory, address)
    compat.watch_get_checkpoint(probe.record_checkpoint_read)
    compat.watch_uploads(probe.record_uploaded_part)
    compat.wrap_async_uploads(probe.wrap_background_upload)
    compat.wrap_train_fn(
        probe.record_train_fn_launch, probe.record_train_fn_start, probe.record_train_fn_end
    )
    reported = None if checkpoint is None else lineage["epochs"].get(checkpoint)
    probe.install(
        directory, ranks=worker.world_size, checkpoint=checkpoint, reported_epoch=reported
    )
    return probe


def _report_problem(problem: str) -> None:
    os.write(2, f"chaos: {problem}\n".encode())
