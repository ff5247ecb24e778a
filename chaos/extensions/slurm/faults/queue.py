"""The faults of a queue that jobs wait in for nodes, with what is the same for all of them."""

from typing import ClassVar

from chaos.faults.base import Fault, SharedCluster


class QueueFault(Fault):
    """A fault that is done to the job as a whole, through the queue that it waited in."""

    family = "control"
    needs = "queue"
    on_shared_cluster = SharedCluster("never", "only an operator of Slurm may do it")
    target_text = "the job"
    rank: ClassVar[None] = None
