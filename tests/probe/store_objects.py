"""A rank that puts objects into a store."""

import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from chaos.faults.base import Fault
from chaos.faults.fail_upload import FailUpload
from chaos.faults.lose_answer import LoseAnswer
from chaos.faults.slow_upload import SlowUpload
from chaos.model.event import (
    StorageFaulted,
)
from chaos.model.plan import Op
from chaos.model.trigger import AtMoment
from chaos.probe import write_ledger
from chaos.probe.job_objects import JobObjects
from chaos.probe.storage_faults import StorageInjector, StorageSettings
from chaos.run.armed_faults import ArmedFaults
from chaos.run.directory import RunDirectory
from chaos.run.journal import read_history
from tests.objects.store import BUCKET, client_of, coast, empty
from tests.probe.opening_rank import own as own  # noqa: PLC0414 - a fixture
from tests.probe.opening_rank import stepped
from tests.probe.saving_rank import New, Rank
from tests.probe.saving_rank import new as new  # noqa: PLC0414 - a fixture
from tests.s3 import S3


@pytest.fixture(scope="module")
def s3() -> Iterator[S3]:
    with coast() as server:
        yield server


@pytest.fixture
def store(s3: S3) -> Iterator[Any]:
    empty(s3)
    yield client_of(s3)
    write_ledger._around.clear()


def in_training(new: New, tmp_path: Path, *faults: Fault, **given: Any) -> Rank:
    """Return a rank whose objects are followed, after a step; `faults` are armed for it."""
    rank = new(**given)
    (tmp_path / "journals").mkdir(exist_ok=True)
    (tmp_path / "storage-faults").mkdir(exist_ok=True)
    at = AtMoment(epoch=0, moment="putting", rank=0)
    ops = tuple(
        Op.model_validate({"index": n, "at": at, _name(fault): fault})
        for n, fault in enumerate(faults)
    )
    injector = StorageInjector(StorageSettings(tmp_path, ops))
    for op in ops:
        ArmedFaults(RunDirectory(tmp_path).storage_faults).arm(op.index, 0)
    rank.listener.answer(is_hidden=injector.is_hidden)
    rank.files.watch_opened()
    JobObjects(rank.files, rank.cursor, injector, rank.files._report_failure).watch()
    if not given:
        rank.files.enter_step()
        stepped(rank, 3)
    return rank


def _name(fault: Fault) -> str:
    names = {LoseAnswer: "lose_answer", FailUpload: "fail_upload", SlowUpload: "slow_upload"}
    return names.get(type(fault), "delayed_visibility")


def state(value: float = 1.0) -> bytes:
    buffer = io.BytesIO()
    torch.save({"epoch": 4, "w": torch.full((3,), value)}, buffer)
    return buffer.getvalue()


def read(store: Any, key: str) -> bytes:
    content: bytes = store.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    return content


def effects(tmp_path: Path) -> list[str]:
    return [e.effect for _, e in read_history(tmp_path / "journals").select_events(StorageFaulted)]
