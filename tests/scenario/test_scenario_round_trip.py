"""What is written is what is read, and nothing else is ever raised."""

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from chaos.errors import ScenarioError
from chaos.faults.corrupt_snapshot import CorruptSnapshot
from chaos.faults.delayed_visibility import DelayedVisibility
from chaos.faults.disk_full import DiskFull
from chaos.faults.fail_upload import FailUpload
from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.faults.slow_upload import SlowUpload
from chaos.faults.torn_checkpoint import TornCheckpoint
from chaos.model.bounds import Bound, Charges, Tolerance
from chaos.model.expect import Expect
from chaos.model.fault_entry import FaultEntry
from chaos.model.scenario import ClusterShape, FailureBudget, Job, Limits, Retention, Scenario
from chaos.model.trigger import (
    MOMENTS,
    OBJECT_MOMENTS,
    STATES,
    AtMoment,
    AtStart,
    AtState,
    AtStep,
    AtTime,
)
from chaos.scenario_file.load import load_scenario

WORKERS = 3
# The signs that YAML gives a meaning, but for `?`, which ruamel itself cannot read back in a key.
words = st.text("abn01 .:#-_'\"\\é😀\n\t~&*!|>%@`,[]{}<=", max_size=8)
counts = st.integers(0, 9)
positives = st.integers(1, 9)
ranks = st.none() | st.integers(0, WORKERS - 1)
amounts = st.floats(0, 1e6) | st.integers(0, 9).map(float)
whole = st.integers(-(2**63) + 1, 2**63 - 1)
scalars = st.none() | st.booleans() | whole | st.floats(allow_nan=False, allow_infinity=False)
plain = st.recursive(
    scalars | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
attempts = st.none() | counts
triggers = st.one_of(
    st.builds(AtStep, epoch=counts, step=positives, attempt=attempts, rank=ranks),
    st.builds(
        AtMoment, epoch=counts, moment=st.sampled_from(MOMENTS), attempt=attempts, rank=ranks
    ),
    st.builds(AtStart, starting=counts, rank=ranks),
    st.builds(AtState, state=st.sampled_from(STATES), visit=positives, rank=ranks),
    st.builds(AtTime, seconds=st.floats(0.1, 600), rank=ranks),
)
entries = st.one_of(
    st.builds(
        FaultEntry,
        at=triggers,
        kill_worker=st.builds(KillWorker, signal=st.sampled_from(["KILL", "TERM"]), rank=ranks),
    ),
    st.builds(FaultEntry, at=triggers, kill_node=st.builds(KillNode, rank=ranks)),
    st.builds(
        FaultEntry,
        at=triggers,
        preempt_node=st.builds(PreemptNode, notice_s=st.floats(0.1, 600), rank=ranks),
    ),
    st.builds(
        FaultEntry,
        at=triggers,
        fail_upload=st.builds(FailUpload, times=positives, error=words.filter(bool), rank=ranks),
    ),
    st.builds(
        FaultEntry,
        at=triggers,
        slow_upload=st.builds(SlowUpload, bytes_per_s=positives, rank=ranks)
        | st.builds(SlowUpload, delay_s=st.floats(0.1, 600), times=positives),
    ),
    st.builds(
        FaultEntry,
        at=triggers,
        torn_checkpoint=st.builds(
            TornCheckpoint, file=words.filter(bool), worker_dies=st.booleans(), rank=ranks
        ),
    ),
    st.builds(
        FaultEntry,
        at=triggers,
        disk_full=st.builds(DiskFull, after_bytes=counts, times=positives, rank=ranks),
    ),
    st.builds(
        FaultEntry,
        at=triggers,
        delayed_visibility=st.builds(DelayedVisibility, for_s=st.floats(0.1, 600), rank=ranks),
    ),
    st.builds(
        FaultEntry, at=triggers, corrupt_snapshot=st.builds(CorruptSnapshot, times=positives)
    ),
)


def fits_its_place(entry: FaultEntry) -> bool:
    """Return whether a fault of storage is not at an object, or can be done to one."""
    is_at_object = isinstance(entry.at, AtMoment) and entry.at.moment in OBJECT_MOMENTS
    is_other = entry.fault.family != "storage" or not is_at_object
    return is_other or (entry.is_own_object_fault and entry.fault.fits_objects)


jobs = st.builds(
    Job,
    script=st.just("job.py"),
    args=st.dictionaries(words, plain, max_size=3)
    | st.lists(words | st.integers(-9, 9), min_size=1, max_size=3).map(tuple),
    workers=st.just(WORKERS),
    failure=st.none() | st.builds(FailureBudget, max_failures=st.integers(-1, 3)),
    checkpoint=st.none() | st.builds(Retention, num_to_keep=st.none() | positives),
    env=st.dictionaries(words, words, max_size=2),
    needs_env=st.lists(words, max_size=2).map(tuple),
    needs_modules=st.lists(words, max_size=2).map(tuple),
    needs_backend=st.sampled_from([None, "ray", "fork"]),
    inputs=st.just(()) | st.just(("job.py", ".")),
    trial=st.none() | st.integers(0, 3),
    epoch_metric=st.none() | words,
) | st.builds(Job, train_loop=st.just("a.b:c"), workers=st.just(WORKERS))
scenarios = st.builds(
    Scenario,
    scenario=words.filter(bool),
    marks=st.lists(st.sampled_from(["slow", "gpu"]), max_size=2).map(tuple),
    job=jobs,
    cluster=st.builds(ClusterShape, nodes=st.none() | st.integers(WORKERS + 3, 12)),
    faults=st.lists(entries.filter(fits_its_place), max_size=3).map(tuple),
    expect=st.builds(
        Expect,
        outcome=st.sampled_from(["finished", "error"]),
        attempts=st.none() | positives,
        charges=st.none() | st.builds(Charges, failures=counts),
        lost_steps=st.none() | st.builds(Bound, max=amounts),
        loss_tolerance=st.none() | st.builds(Tolerance, relative=amounts),
        ignore_metrics=st.lists(words, max_size=2).map(tuple),
    ),
    limits=st.builds(Limits, run_s=st.floats(0.1, 1e4)),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scenarios")
    (folder / "job.py").touch()
    return folder


def loaded(folder: Path, text: str) -> Scenario:
    file = folder / "x.chaos.yaml"
    file.write_text(text, encoding="utf-8", newline="")
    return load_scenario(file)


def dumped(value: object) -> str:
    stream = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.dump(value, stream)
    return stream.getvalue()


@settings(deadline=None)
@given(scenarios, st.booleans())
def test_a_scenario_written_as_yaml_is_read_as_itself(
    folder: Path, scenario: Scenario, with_defaults: bool
) -> None:
    value = scenario.model_dump(mode="json", exclude_unset=not with_defaults)

    assert loaded(folder, dumped(value)) == scenario


@settings(deadline=None)
@given(scenarios, st.text(st.characters(codec="utf-8"), min_size=1))
def test_json_is_yaml(folder: Path, scenario: Scenario, text: str) -> None:
    value = {**scenario.model_dump(mode="json"), "scenario": text}

    assert loaded(folder, json.dumps(value)) == scenario.model_copy(update={"scenario": text})


@settings(deadline=None)
@given(
    st.text(st.characters(codec="utf-8")) | st.text("ab01 :-[]{}'\"!&*|>%#?,<.\n\t~", max_size=30)
)
def test_garbage_is_a_scenario_error_and_nothing_else(folder: Path, text: str) -> None:
    with pytest.raises(ScenarioError):
        loaded(folder, text)


KEYS = ["scenario", "job", "script", "workers", "faults", "at", "epoch", "step", "moment", "rank"]
mappings = st.recursive(
    scalars | words | st.sampled_from(["job.py", "a:b", "reported"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([*KEYS, "kill_node", "expect", "check"]), inner, max_size=6
        )
    ),
    max_leaves=12,
)
records = st.fixed_dictionaries(
    {"scenario": words, "job": mappings},
    optional={
        "faults": st.lists(
            st.dictionaries(st.sampled_from(["at", "kill_node", "kill_worker"]), mappings)
        )
        | mappings,
        "cluster": mappings,
        "expect": mappings,
    },
)


@settings(deadline=None)
@given(records | mappings)
def test_any_mapping_is_a_scenario_or_a_scenario_error(folder: Path, value: Any) -> None:
    with contextlib.suppress(ScenarioError):
        loaded(folder, dumped(value))


@settings(deadline=None)
@given(scenarios, st.data())
def test_one_broken_value_is_found_at_its_line(
    folder: Path, scenario: Scenario, data: st.DataObject
) -> None:
    value = scenario.model_dump(mode="json", exclude_unset=True)
    key = data.draw(st.sampled_from(sorted({"job", "cluster", "expect", "limits"} & set(value))))
    value[key] = {**value[key], "zzz": 1}
    text = json.dumps(value, indent=0)

    with pytest.raises(ScenarioError) as caught:
        loaded(folder, text)

    assert text.splitlines()[caught.value.line - 1].startswith('"zzz"')
