"""Of every fault a run in which it does no harm: the verdict is inconclusive, and says why."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from chaos.extensions.slurm.faults.reach_time_limit import ReachTimeLimit
from chaos.extensions.slurm.faults.requeue_job import RequeueJob
from chaos.extensions.slurm.faults.restart_slurmctld import RestartSlurmctld
from chaos.extensions.slurm.faults.signal_job import SignalJob
from chaos.extensions.slurm.faults.suspend_job import SuspendJob
from chaos.faults import kill_worker
from chaos.faults.corrupt_snapshot import CorruptSnapshot
from chaos.faults.corrupt_tensor import CorruptTensor
from chaos.faults.delayed_visibility import DelayedVisibility
from chaos.faults.disk_full import DiskFull
from chaos.faults.evict_node import EvictNode
from chaos.faults.exhaust_memory import ExhaustMemory
from chaos.faults.fail_save import FailSave
from chaos.faults.fail_upload import FailUpload
from chaos.faults.freeze_node import FreezeNode
from chaos.faults.hang_worker import HangWorker
from chaos.faults.kill_controller import KillController
from chaos.faults.kill_driver import KillDriver
from chaos.faults.kill_gcs import KillGcs
from chaos.faults.kill_loader import KillLoader
from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.lose_answer import LoseAnswer
from chaos.faults.partition_node import PartitionNode
from chaos.faults.pause_worker import PauseWorker
from chaos.faults.poison_step import PoisonStep
from chaos.faults.preempt_node import PreemptNode
from chaos.faults.raise_in_worker import RaiseInWorker
from chaos.faults.return_capacity import ReturnCapacity
from chaos.faults.slow_upload import SlowUpload
from chaos.faults.slow_worker import SlowWorker
from chaos.faults.start_second_driver import StartSecondDriver
from chaos.faults.torn_checkpoint import TornCheckpoint
from chaos.faults.withhold_capacity import WithholdCapacity
from chaos.model.fault_entry import FAULTS, FaultEntry
from chaos.model.trigger import AtMoment, AtStep, Trigger
from tests.forked.conftest import TINY, RunJob

pytestmark = pytest.mark.timeout(60)

STUBBORN = Path(__file__).parent / "jobs/stubborn.py"
EARLY, LAST = AtStep(epoch=1, step=2, rank=0), AtStep(epoch=2, step=4, rank=0)
OVER = AtStep(epoch=3, step=1, rank=0)
NO_MORE_UPLOADS = AtMoment(epoch=2, moment="committed", rank=0)
AN_OBJECT = AtMoment(epoch=1, moment="putting", rank=0)
NO_RANK_1 = "no worker holds rank 1"
UNUSED = "storage was not used so"


@dataclass(frozen=True)
class Case:
    """A fault at a place of a job with one worker, and what is said of it."""

    fault: str
    record: Any
    why: str
    at: Trigger = EARLY
    job: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.fault}: {self.why}"


def stubborn(fault: str, record: Any, why: str) -> Case:
    """Return a case of a job that catches what its steps raise, and ignores SIGTERM."""
    return Case(fault, record, why, job={"script": STUBBORN})


CASES = (
    # it is let go, and finishes
    stubborn("kill_worker", KillWorker(signal="TERM"), "training was over before it took effect"),
    Case("kill_worker", KillWorker(rank=1), NO_RANK_1),
    stubborn("raise_in_worker", RaiseInWorker(), "was the exception caught?"),
    Case("pause_worker", PauseWorker(for_s=1, rank=1), NO_RANK_1),
    Case("slow_worker", SlowWorker(delay_s=0.01), "made no step that could be delayed", LAST),
    Case("corrupt_tensor", CorruptTensor(), "made no further step with such a tensor", LAST),
    stubborn("hang_worker", HangWorker(where="collective"), "and did not"),
    stubborn("poison_step", PoisonStep(by="raise"), "was the exception caught?"),
    Case("kill_loader", KillLoader(), "rank 0 has no loader process there"),
    Case("fail_save", FailSave(), "never happened", AtMoment(epoch=7, moment="saving", rank=0)),
    Case("exhaust_memory", ExhaustMemory(bytes=2**36), "not twice 65,536 MiB"),
    Case("kill_node", KillNode(rank=1), NO_RANK_1),
    Case("kill_node", KillNode(ranks=(0, 1)), NO_RANK_1),
    Case("freeze_node", FreezeNode(for_s=1, rank=1), NO_RANK_1),
    Case("partition_node", PartitionNode(for_s=1), "no network between them"),
    Case("evict_node", EvictNode(), "the embedded backend has no `ray start`"),
    Case("preempt_node", PreemptNode(notice_s=60), "ended before the node's deadline"),
    Case("preempt_node", PreemptNode(notice_s=60, reclaim="never"), "before the node's deadline"),
    Case(
        "withhold_capacity",
        WithholdCapacity(nodes=1),
        "0 of 1 nodes hold no worker",
        job={"spares": 0},
    ),
    Case("return_capacity", ReturnCapacity(nodes=1, after_s=60), "ended before the nodes"),
    Case("kill_driver", KillDriver(), "never reached epoch 3, step 1", OVER),
    Case("start_second_driver", StartSecondDriver(), "never reached epoch 3, step 1", OVER),
    Case("kill_controller", KillController(), "lives in the driver"),
    Case("kill_gcs", KillGcs(), "the embedded backend has no GCS"),
    Case("reach_time_limit", ReachTimeLimit(), "the job waits in no queue"),
    Case("requeue_job", RequeueJob(), "the job waits in no queue"),
    Case("restart_slurmctld", RestartSlurmctld(), "the job waits in no queue"),
    Case("signal_job", SignalJob(), "the job waits in no queue"),
    Case("suspend_job", SuspendJob(), "the job waits in no queue"),
    Case("fail_upload", FailUpload(), UNUSED, NO_MORE_UPLOADS),
    Case("slow_upload", SlowUpload(delay_s=0.1), UNUSED, NO_MORE_UPLOADS),
    Case("torn_checkpoint", TornCheckpoint(file="*.ckpt"), UNUSED),
    Case("disk_full", DiskFull(after_bytes=10**9), UNUSED),
    Case("delayed_visibility", DelayedVisibility(for_s=1.0), UNUSED),
    Case("lose_answer", LoseAnswer(), "never came to the putting of an object", AN_OBJECT),
    Case("corrupt_snapshot", CorruptSnapshot(), UNUSED, NO_MORE_UPLOADS),
)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_fault_that_did_no_harm_leaves_the_verdict_unknown(
    run: RunJob, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kill_worker, "PROOF_WITHIN_S", 0.2)

    judged = run(
        **{"script": TINY, **case.job}, ops=(FaultEntry(at=case.at, **{case.fault: case.record}),)
    )

    assert judged.result("faults-happened") == "inconclusive"
    assert judged.verdict.status == "inconclusive", judged.verdict.headline
    assert case.why in judged.verdict.headline


def test_every_fault_is_seen_to_fail() -> None:
    assert {case.fault for case in CASES} == set(FAULTS)
