"""Workers before they are needed: who is asked for how many, who waited, and when it is left."""

import io
import math
import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
import ray
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from chaos.faults.world import Target
from chaos.launch.backends import open_backend
from chaos.launch.ray import compat, leftovers, prestart
from chaos.launch.ray.leftovers import Leftovers
from chaos.launch.ray.prestart import (
    FORE,
    PrestartOption,
    PrestartPool,
    count_missing,
    explain_refusal,
    may_restart,
)
from chaos.model.event import Leftover, WorkersPrestarted
from chaos.model.plan import Plan
from chaos.report.screen import ConsoleAnnouncer
from chaos.run.clock import SystemClock
from chaos.run.directory import create_run
from chaos.run.journal import Journal, read_journal
from tests.check.story import Story, Strike

STRUCK = Story((Strike(2, 3, 1),)).plan()
LEFT_ALONE = Story().plan()
NODES = st.lists(st.sampled_from("abcd"), min_size=1, max_size=8)


# -- when it is left


@pytest.mark.parametrize(
    ("plan", "facts", "why"),
    [
        (STRUCK, {}, None),
        (STRUCK, {"can_ask": False}, "grpcio is not installed"),
        (STRUCK, {"cores": STRUCK.job.workers + 1}, None),
        (STRUCK, {"cores": STRUCK.job.workers}, "no more than the job's workers"),
        (
            STRUCK.model_copy(
                update={"shape": STRUCK.shape.model_copy(update={"address": "host:1"})}
            ),
            {},
            "not chaos's own",
        ),
        (
            STRUCK.model_copy(update={"job": STRUCK.job.model_copy(update={"trial": 0})}),
            {},
            "Ray Tune",
        ),
    ],
)
def test_it_is_off_by_itself_where_it_does_not_apply(
    plan: Plan, facts: dict[str, Any], why: str | None
) -> None:
    found = explain_refusal(plan, **{"can_ask": True, "cores": 8, **facts})

    assert found is None if why is None else why in str(found)


def test_whoever_turns_it_on_is_told_once_what_it_does_to_recovery_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(compat, "can_prestart", lambda: True)
    monkeypatch.setattr(os, "cpu_count", lambda: 8)
    said: list[str] = []
    prestart = PrestartOption(said.append, is_wanted=True)

    assert [prestart.serves(STRUCK), prestart.serves(STRUCK)] == [True, True]
    assert len(said) == 1
    assert "recoveries are shorter" in said[0]


def test_whoever_cannot_have_it_is_told_once_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compat, "can_prestart", lambda: False)
    said: list[str] = []
    prestart = PrestartOption(said.append, is_wanted=True)

    assert not prestart.serves(STRUCK)
    assert not prestart.serves(STRUCK)
    assert said == [f"{FORE} off, grpcio is not installed (the extra `prestart`)"]


def test_where_nobody_asked_for_it_and_where_nothing_is_struck_nothing_is_said() -> None:
    said: list[str] = []

    assert not PrestartOption(said.append, is_wanted=False).serves(STRUCK)
    assert not PrestartOption(said.append, is_wanted=True).serves(LEFT_ALONE)
    assert said == []


def test_a_raylet_that_refuses_is_told_of_once() -> None:
    said: list[str] = []
    refused = WorkersPrestarted(attempt=0, used_count=0, requested_by_node={}, error="RpcError: no")

    PrestartOption(said.append, is_wanted=True).report_errors([refused, refused])

    assert said == [f"{FORE} RpcError: no"]


def test_the_embedded_backend_has_no_use_for_it_and_says_so() -> None:
    console = Console(file=io.StringIO(), record=True, width=120)

    open_backend("fork", ConsoleAnnouncer(console), prestart=True)

    assert f"{FORE} off, forked workers have their imports done" in console.export_text()


# -- how many


@given(nodes=st.sets(st.sampled_from("abcd")), group=NODES)
def test_every_node_can_hold_as_many_of_the_next_attempt_as_the_fullest_of_this_one(
    nodes: set[str], group: list[str]
) -> None:
    most = max(Counter(group).values())

    assert count_missing(nodes, group, {}) == dict.fromkeys(nodes, most)


@given(group=NODES, idle=st.dictionaries(st.sampled_from("abcd"), st.integers(0, 9)))
def test_who_waits_already_is_not_asked_for_again(group: list[str], idle: dict[str, int]) -> None:
    asked = count_missing("abcd", group, idle)

    assert all(count > 0 for count in asked.values())
    assert count_missing("abcd", group, Counter(idle) + Counter(asked)) == {}


def test_after_the_last_fault_nobody_is_asked_for() -> None:
    assert may_restart(STRUCK, 0)
    assert not may_restart(STRUCK, 1)
    assert not may_restart(LEFT_ALONE, 0)


# -- the pool of a run


class Clock(SystemClock):
    """A clock on which it is as late as a test says."""

    wall_s = 0.0

    def wall_ns(self) -> int:
        return int(self.wall_s * 1e9)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int, dict[str, Any]]]:
    """Stand in for Ray: three raylets, which note what they are asked for."""
    noted: list[tuple[str, int, dict[str, Any]]] = []
    rows = [
        {"NodeID": n, "Alive": n != "d", "NodeManagerAddress": "host", "NodeManagerPort": n}
        for n in "abcd"
    ]
    monkeypatch.setattr(ray, "nodes", lambda: rows)
    monkeypatch.setattr(compat, "draining_nodes", lambda: {"c"})
    monkeypatch.setattr(compat, "get_runtime_env", lambda handle: "{}")
    monkeypatch.setattr(compat, "get_job", lambda handle: handle)
    monkeypatch.setattr(
        compat,
        "prestart_workers",
        lambda raylet, count, **rest: noted.append((raylet, count, rest)),
    )
    return noted


def a_pool(folder: Path, plan: Plan = STRUCK) -> PrestartPool:
    clock = Clock()
    return PrestartPool(plan, Journal(folder, "chaos", role="chaos", clock=clock), clock)


def group(attempt: int, *nodes: str, pid: int = 0) -> dict[int, Target]:
    pids = [pid or os.getpid()] * len(nodes)
    return {
        rank: Target(attempt=attempt, rank=rank, pid=pid, node_id=node)
        for rank, (node, pid) in enumerate(zip(nodes, pids, strict=True))
    }


def told(folder: Path) -> list[WorkersPrestarted]:
    entries, _ = read_journal(folder / "chaos.jsonl")
    return [entry.event for entry in entries if isinstance(entry.event, WorkersPrestarted)]


def test_raylets_that_live_and_stay_are_asked_and_the_history_tells_for_how_many(
    asked: list[tuple[str, int, dict[str, Any]]], tmp_path: Path
) -> None:
    mine = a_pool(tmp_path)

    mine.group_started(group(0, "a", "a"), "01")
    mine.finish()

    assert [(raylet, count, rest["job"]) for raylet, count, rest in asked] == [
        ("host:a", 2, "01"),
        ("host:b", 2, "01"),
    ]
    assert told(tmp_path) == [
        WorkersPrestarted(attempt=0, used_count=0, requested_by_node={"a": 2, "b": 2})
    ]


@pytest.mark.usefixtures("asked")
def test_a_worker_that_is_older_than_the_failure_had_been_waiting(tmp_path: Path) -> None:
    mine = a_pool(tmp_path)
    assert isinstance(mine.clock, Clock)
    mine.clock.wall_s = psutil.Process().create_time() + 1

    mine.failure_decided()
    mine.group_started(group(1, "a", "b"), "01")
    mine.finish()
    mine.clock.wall_s -= 2
    mine.failure_decided()
    mine.group_started(group(2, "a", "b"), "01")
    mine.group_started(group(3, "a", pid=2**22 + 1), "01")
    mine.finish()

    assert [event.used_count for event in told(tmp_path)] == [2, 0, 0]


def test_another_drivers_job_begins_with_an_empty_pool(
    asked: list[tuple[str, int, dict[str, Any]]], tmp_path: Path
) -> None:
    mine = a_pool(tmp_path)

    for job in ("01", "01", "02"):
        mine.group_started(group(0, "a"), job)
    mine.finish()

    assert [rest["job"] for _, _, rest in asked] == ["01", "01", "02", "02"]


@pytest.mark.usefixtures("asked")
def test_what_goes_wrong_is_in_the_history_and_nobody_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise ConnectionError("no\nraylet")

    monkeypatch.setattr(compat, "prestart_workers", refuse)
    mine = a_pool(tmp_path)

    mine.group_started(group(0, "a"), "01")
    mine.finish()

    assert [event.error for event in told(tmp_path)] == ["ConnectionError: no raylet"]


# -- who waits when all is over


@pytest.mark.parametrize(
    ("command", "above", "waits"),
    [
        ("ray::IDLE", "raylet", True),
        ("python /site/ray/_private/workers/default_worker.py --node-id 1", "raylet", True),
        ("ray::RayTrainWorker.run_train_fn", "raylet", False),
        ("python forked_by_the_train_function.py", "raylet", False),
        ("ray::IDLE", "bash", False),
    ],
)
def test_only_what_a_raylet_started_and_gave_nothing_to_do_is_waiting(
    monkeypatch: pytest.MonkeyPatch, command: str, above: str, *, waits: bool
) -> None:
    process = SimpleNamespace(
        cmdline=command.split, parent=lambda: SimpleNamespace(name=lambda: above)
    )
    monkeypatch.setattr(psutil, "Process", lambda _: process)

    assert prestart.is_waiting(7) is waits


def test_a_process_that_is_gone_waits_for_nothing() -> None:
    assert not prestart.is_waiting(2**22 + 1)
    assert prestart._find_start_time(2**22 + 1) == math.inf


@pytest.mark.parametrize(("prestarts", "blamed"), [(True, ["8"]), (False, ["7", "8"])])
def test_a_worker_that_waits_is_ended_and_a_real_leftover_is_blamed_all_the_same(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, prestarts: bool, blamed: list[str]
) -> None:
    there, ended = {7: "ray::IDLE", 8: "python child.py"}, list[int]()
    monkeypatch.setattr(leftovers, "find_run_processes", lambda _: list(there.items()))
    monkeypatch.setattr(leftovers, "is_waiting", lambda pid: pid == 7)
    monkeypatch.setattr(leftovers, "_end_process", ended.append)
    monkeypatch.setattr(leftovers, "PATIENCE_S", 0.0)
    monkeypatch.setattr(compat, "live_actors", dict)
    monkeypatch.setattr(compat, "open_placement_groups", list)
    directory = create_run(tmp_path, "run", STRUCK, {})
    journal = Journal(tmp_path, "harness", role="harness", clock=SystemClock())

    found = Leftovers("t", frozenset(), frozenset(), prestarts=prestarts)
    found.search(journal, [], directory, files=False)

    entries, _ = read_journal(tmp_path / "harness.jsonl")
    what = [entry.event.name for entry in entries if isinstance(entry.event, Leftover)]
    assert [text.removeprefix("pid ").partition(":")[0] for text in what] == blamed
    assert {7, 8} == set(ended)
