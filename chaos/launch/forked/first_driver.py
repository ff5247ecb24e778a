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
from chaos.launch.node_disk import make_room, remove_disks
from chaos.launch.raytrain import CALLBACK
from chaos.launch.raytrain.compat import CALLBACKS_ENV
from chaos.launch.raytrain.fit import Configure, EarlierFit, Train
from chaos.model.plan import Plan
from chaos.probe.address import RunAddress
from chaos.processes.child import adopt_orphans, die_with_parent
from chaos.processes.forks import Exited
from chaos.processes.tree import end_all
from chaos.processes.wire import Wire
from chaos.run.directory import RunDirectory, create

POLL_S = 0.01


def earlier_fits(plan: Plan, directory: RunDirectory) -> EarlierFit:
    """Return the function by which a zygote, started for a run, executes earlier trainings."""
    held = directory.path if plan.confined is None else Path(plan.confined.folder)

    def train(trainer: Any, fit: Train, configure: Configure) -> Any:
        place = create(held / "earlier", str(os.getpid()), plan.baseline(), {})
        address = RunAddress(place.path, os.urandom(4).hex(), "none:")
        make_room(address)
        callbacks = os.environ.get(CALLBACKS_ENV, "").split(",")
        theirs = ",".join(name for name in callbacks if name != CALLBACK)
        start = StartRun(address, {**plan.job.env, CALLBACKS_ENV: theirs})
        # By `orders` the lane is asked for a driver, as by the harness; by `tells`, which the
        # driver inherits, comes the result. The lane holds `tells` open as well, so that a driver
        # that ends without a result shows no end there: `_result` looks at the lane's messages.
        (ours, orders), (told, tells) = socket.socketpair(), socket.socketpair()
        zygote, pid = os.getpid(), os.fork()
        if pid == 0:
            for end in (ours, told):
                end.close()
            die_with_parent(zygote)
            _live(trainer, fit, configure, Wire(orders), Wire(tells, core.dumps))
        for end in (orders, tells):
            end.close()
        with ours, told:
            Wire(ours).send(start)
            try:
                return _result(Wire(told), Wire(ours))
            finally:
                end_all(pid)
                os.waitpid(pid, 0)
                remove_disks(address)

    return train


def _result(told: Wire, lane: Wire) -> Any:  # Ray Train's Result
    """Wait for the driver's result; raise if the lane reports that the driver ended without one."""
    while not select.select([told.end], [], [], POLL_S)[0]:
        if select.select([lane.end], [], [], 0)[0] and isinstance(lane.receive(), Exited):
            raise RefusalError("an earlier fit() of the script ended its process")
    succeeded, value = told.receive()
    if not succeeded:
        raise value
    return value


def _live(
    trainer: Any,
    fit: Train,
    configure: Configure,
    orders: Wire,
    tells: Wire,
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
        tells.send(message)
    finally:
        os._exit(0)
