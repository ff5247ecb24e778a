"""What a story tells of: a job, how it is shaped, and what is done to it."""

import math
from dataclasses import dataclass
from typing import Literal

from chaos.faults.kill_node import KillNode
from chaos.faults.kill_worker import KillWorker
from chaos.faults.preempt_node import PreemptNode
from chaos.model.plan import Op
from chaos.model.trigger import AtMoment, AtRecovery, AtStep

MS = 1_000_000


@dataclass(frozen=True)
class Strike:
    """What is done, and where. `drift`: steps from a notice to the loss of the node.

    `recovering`: before the first step of the attempt after the one that the
    strike before it ended.
    """

    epoch: int
    step: int = 0
    rank: int = 0
    kind: Literal["kill_worker", "kill_node", "preempt_node"] = "kill_worker"
    moment: Literal["reported", "committed", "recovering"] | None = None
    drift: int = 2

    def op(self, index: int) -> Op:
        at: AtStep | AtMoment | AtRecovery
        if self.moment == "recovering":
            at = AtRecovery(recovering_from=index - 1, rank=self.rank)
        elif self.moment is None:
            at = AtStep(epoch=self.epoch, step=self.step, rank=self.rank)
        else:
            at = AtMoment(epoch=self.epoch, moment=self.moment, rank=self.rank)
        match self.kind:
            case "kill_worker":
                return Op(index=index, at=at, kill_worker=KillWorker())
            case "kill_node":
                return Op(index=index, at=at, kill_node=KillNode())
            case "preempt_node":
                return Op(index=index, at=at, preempt_node=PreemptNode(notice_s=1.0))


@dataclass(frozen=True)
class Script:
    """`surplus`: steps too many in the first epoch after a restart; `extra`: epochs too many.

    `budget`: how many retries Ray allows; `wall`: a metric that never repeats.
    `watch`: state, inputs and storage are recorded. `files`: the job keeps
    files of its own, one per rank and epoch, and gives Ray no checkpoint.
    `keep`: how many checkpoints Ray keeps. `best`: the best accuracy is
    reported. `least`: with how few ranks the job goes on, if it is elastic.
    `others`: the trials of the experiment beside this one.
    """

    strikes: tuple[Strike, ...] = ()
    ranks: int = 2
    epochs: int = 4
    steps: int = 6
    every: int = 1
    surplus: int = 0
    extra: int = 0
    budget: int = 9
    wall: bool = False
    sync: bool = True
    watch: bool = True
    files: bool = False
    keep: int | None = None
    best: bool = False
    least: int | None = None
    others: int = 0


def loss(rank: int, epoch: int, step: int) -> float:
    return 2.3 / (1 + epoch + step / 16) + math.sin(rank * 3 + epoch * 7 + step) / 50
