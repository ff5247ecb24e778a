"""The calls of `fit()` before the one that is watched: trained without faults, and not recorded.

The zygote forks a lane for each, with a driver and workers of its own, and the
script continues with the result. Its storage is a folder beside that of the
runs, and stays: the watched training may begin with it.
"""

import os
import select
import socket
from pathlib import Path
from typing import Any, NoReturn

from chaos.errors import RefusalError
from chaos.launch.forked import core
from chaos.launch.forked.lane import Lane
from chaos.launch.forked.messages import StartRun
from chaos.launch.node_disk import remove_disks, reserve_short_folder
from chaos.launch.raytrain import CALLBACK
from chaos.launch.raytrain.compat import CALLBACKS_ENV
from chaos.launch.raytrain.fit import Configure, EarlierFit, Train
from chaos.model.plan import Plan
from chaos.probe.address import RunAddress
from chaos.processes.child import adopt_orphans, die_with_parent
from chaos.processes.forks import ChildExited
from chaos.processes.tree import kill_tree
from chaos.processes.wire import Wire
from chaos.run.directory import RunDirectory, create_run

POLL_S = 0.01


def build_earlier_fit(plan: Plan, directory: RunDirectory) -> EarlierFit:
    """Return the function by which a zygote, started for a run, executes earlier trainings."""
    base_folder = directory.path if plan.confined is None else Path(plan.confined.folder)

    def train(trainer: Any, fit: Train, configure: Configure) -> Any:
        run_directory = create_run(
            base_folder / "earlier", str(os.getpid()), plan.build_baseline_plan(), {}
        )
        address = RunAddress(run_directory.path, os.urandom(4).hex(), "none:")
        reserve_short_folder(address)
        callbacks = os.environ.get(CALLBACKS_ENV, "").split(",")
        other_callbacks = ",".join(name for name in callbacks if name != CALLBACK)
        start = StartRun(address, {**plan.job.env, CALLBACKS_ENV: other_callbacks})
        # By `orders` the lane is asked for a driver, as by the harness; by `result_sender`, which
        # the driver inherits, comes the result. The lane holds `result_sender` open as well, so
        # that a driver that ends without a result shows no end there: `_receive_result` looks at
        # the lane's messages.
        (lane_end, orders), (result_end, result_sender) = socket.socketpair(), socket.socketpair()
        zygote, pid = os.getpid(), os.fork()
        if pid == 0:
            for end in (lane_end, result_end):
                end.close()
            die_with_parent(zygote)
            _live_as_lane(trainer, fit, configure, Wire(orders), Wire(result_sender, core.dumps))
        for end in (orders, result_sender):
            end.close()
        with lane_end, result_end:
            Wire(lane_end).send(start)
            try:
                return _receive_result(Wire(result_end), Wire(lane_end))
            finally:
                kill_tree(pid)
                os.waitpid(pid, 0)
                remove_disks(address)

    return train


def _receive_result(result_wire: Wire, lane: Wire) -> Any:  # Ray Train's Result
    """Wait for the driver's result; raise if the lane reports that the driver ended without one."""
    while not select.select([result_wire.end], [], [], POLL_S)[0]:
        if select.select([lane.end], [], [], 0)[0] and isinstance(lane.receive(), ChildExited):
            raise RefusalError("an earlier fit() of the script ended its process")
    succeeded, value = result_wire.receive()
    if not succeeded:
        raise value
    return value


def _live_as_lane(
    trainer: Any,
    fit: Train,
    configure: Configure,
    orders: Wire,
    results: Wire,
) -> NoReturn:
    """Become the lane; in the driver that it forks, train and send the result."""
    try:
        adopt_orphans()
        part = Lane(orders).serve()
        try:
            configure(trainer, part)
            message = (True, fit(trainer))
        except BaseException as error:  # noqa: BLE001 - the script's to deal with
            message = (False, core.picklable(error))
        results.send(message)
    finally:
        os._exit(0)
