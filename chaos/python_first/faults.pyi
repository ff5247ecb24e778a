# What each fault's function takes. Written by `python -m chaos.python_first.signatures`.

from collections.abc import Mapping
from typing import Any, Literal

from chaos.model.fault_entry import FaultEntry
from chaos.model.trigger import AtMoment, AtRecovery, AtStep

def kill_worker(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    signal: Literal["KILL", "TERM"] = "KILL",
    grace_s: float | None = None,
    via: Literal["signal", "ray"] = "signal",
    ranks: Literal["one", "all"] = "one",
) -> FaultEntry: ...
def raise_in_worker(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    message: str = "injected by chaos",
    ranks: Literal["one", "all"] = "one",
    attempts: tuple[int, ...] | None = None,
) -> FaultEntry: ...
def pause_worker(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    for_s: float | None = None,
) -> FaultEntry: ...
def slow_worker(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    factor: float | None = None,
    delay_s: float | None = None,
    steps: int | None = None,
    ranks: Literal["one", "all"] = "one",
) -> FaultEntry: ...
def hang_worker(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    where: Literal["python", "collective"] = "python",
    ranks: Literal["one", "all"] = "one",
) -> FaultEntry: ...
def poison_step(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    by: Literal["kill", "raise"] = "kill",
) -> FaultEntry: ...
def kill_node(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    ranks: tuple[int, ...] = (),
    raylet_only: bool = False,
) -> FaultEntry: ...
def freeze_node(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    for_s: float,
) -> FaultEntry: ...
def preempt_node(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    notice_s: float,
    reclaim: Literal["on_time", "early", "late", "never"] = "on_time",
) -> FaultEntry: ...
def withhold_capacity(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    nodes: int,
    for_s: float | None = None,
) -> FaultEntry: ...
def return_capacity(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    nodes: int,
    after_s: float = 0.0,
) -> FaultEntry: ...
def kill_driver(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
) -> FaultEntry: ...
def kill_controller(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
) -> FaultEntry: ...
def fail_upload(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    times: int = 1,
    error: str = "storage refused the write",
) -> FaultEntry: ...
def slow_upload(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    bytes_per_s: int | None = None,
    delay_s: float | None = None,
    times: int = 1,
) -> FaultEntry: ...
def torn_checkpoint(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    file: str = "*",
    worker_dies: bool = False,
) -> FaultEntry: ...
def disk_full(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    after_bytes: int = 0,
    times: int = 1,
) -> FaultEntry: ...
def delayed_visibility(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    for_s: float,
) -> FaultEntry: ...
def corrupt_snapshot(
    *,
    at: AtStep | AtMoment | AtRecovery | Mapping[str, Any] | None = None,
    epoch: int | None = None,
    step: int | None = None,
    moment: Literal["saving", "upload_begin", "upload_end", "reported", "committed"] | None = None,
    recovering_from: int | None = None,
    rank: int | None = None,
    times: int = 1,
) -> FaultEntry: ...
