"""Facts of findings about the size of each batch."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from chaos.check.kinds.base import Facts
from chaos.model.places import TrainingPlace


class RankTotal(NamedTuple):
    """A number over all ranks for which both runs have it; `unknown_ranks` are the others."""

    run_total: int
    baseline_total: int
    rank_count: int
    unknown_ranks: tuple[int, ...]


@dataclass(frozen=True)
class BatchSizeDiffers(Facts):
    """An optimizer step saw more or fewer samples, or micro-batches, than in the baseline."""

    kind: ClassVar[str] = "batch-size-differs"
    check: ClassVar[str] = "batch"
    #: the first such step
    place: TrainingPlace
    samples: RankTotal
    micro_batches: RankTotal
