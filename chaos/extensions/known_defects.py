"""Defects of installed packages that matter where nodes are lost, each as it was seen here.

A row says what a scenario, or a job of the corpus, has shown of one version. Of other versions it
says nothing.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from chaos.run.machine import find_version


class KnownDefect(NamedTuple):
    """A defect of a package."""

    package: str
    #: the one in which it was seen
    version: str
    description: str
    #: a report, or what shows it: a scenario, a job, a page of the documents
    source: str
    #: what to do until it is mended; empty where nothing was tried
    workaround: str = ""

    def __str__(self) -> str:
        advice = f"; {self.workaround}" if self.workaround else ""
        return f"{self.package} {self.version}: {self.description} ({self.source}){advice}"


_RAY, _DEFECTS = "2.60.0", "scenarios/ray-defects"
_ACCELERATE, _TRANSFORMERS, _TORCHDATA = "1.15.0", "5.23.0", "0.11.0"

KNOWN = (
    KnownDefect(
        "ray",
        _RAY,
        "a worker that dies as its train function is launched ends the job, whatever max_failures",
        f"{_DEFECTS}/death_at_launch_not_retried.chaos.yaml",
        "let the platform start the script again",
    ),
    KnownDefect(
        "ray",
        _RAY,
        "a worker that Ray's memory monitor ends is not tried again",
        f"{_DEFECTS}/out_of_memory_not_retried.chaos.yaml",
        "let the platform start the script again",
    ),
    KnownDefect(
        "ray",
        _RAY,
        "half a checkpoint that is reported is committed, and handed out again until the budget is "
        "gone",
        f"{_DEFECTS}/torn_checkpoint_handed_out_again.chaos.yaml",
        "check a checkpoint as it is loaded, and go on from the one before",
    ),
    KnownDefect(
        "ray",
        _RAY,
        "a driver that dies as Ray's list of checkpoints is written leaves a run that no other can "
        "continue",
        f"{_DEFECTS}/snapshot_overwritten_in_place.chaos.yaml",
    ),
    KnownDefect(
        "ray",
        _RAY,
        "what report() has returned for on every rank is lost if a worker dies before the "
        "controller's next poll, every 2 s",
        f"{_DEFECTS}/reported_and_lost.chaos.yaml",
    ),
    KnownDefect(
        "ray",
        _RAY,
        "by the defaults of Kubernetes, Ray and Ray Train an evicted pod can end the job",
        f"{_DEFECTS}/evicted_with_defaults.chaos.yaml",
        "max_failures above 0; docs/notes/0023-an-evicted-pod-is-charged-as-a-failure.md",
    ),
    KnownDefect(
        "ray",
        _RAY,
        "a loss while a worker group is set up may leave its placement group behind for good",
        "docs/validation.md",
        "hold nodes for a second group",
    ),
    KnownDefect(
        "ray",
        _RAY,
        "a controller that is killed makes fit() raise, and without a dashboard leaves its "
        "placement group behind",
        "scenarios/control/controller_killed.chaos.yaml",
        "let the platform start the script again",
    ),
    KnownDefect(
        "torch",
        "2.13.0",
        "a restarted worker of torchrun may read the address of a dead one, and its round fails "
        "with `Gloo connectFullMesh failed`",
        "pytorch#135712",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1",
    ),
    KnownDefect(
        "torch",
        "2.13.0",
        "a node that is lost as torchrun's agents meet is waited for 60 s, and ends the job with "
        "DistStoreError, restarts left or not",
        "docs/validation.md",
        "let the platform start the command again",
    ),
    KnownDefect(
        "accelerate",
        _ACCELERATE,
        "a stateful loader comes back in the order of the first epoch",
        "huggingface/accelerate#4195",
    ),
    KnownDefect(
        "accelerate",
        _ACCELERATE,
        "save_state stores nothing of the loaders: shuffling begins anew after a resume",
        "huggingface/accelerate#3996",
        "call set_epoch before each epoch",
    ),
    KnownDefect(
        "accelerate",
        _ACCELERATE,
        "after skip_first_batches later epochs are trained in the order of the one before",
        "huggingface/accelerate#4233",
        "call set_epoch before each epoch",
    ),
    KnownDefect(
        "accelerate",
        _ACCELERATE,
        "a death within save_state leaves a folder that load_state takes for the newest",
        "docs/found.md",
    ),
    KnownDefect(
        "transformers",
        _TRANSFORMERS,
        "a stream that ended before the save is not read again while batches are skipped",
        "huggingface/transformers#26413",
    ),
    KnownDefect(
        "transformers",
        _TRANSFORMERS,
        "within an epoch the first samples after a resume are augmented by other random numbers",
        "huggingface/transformers#46628",
    ),
    KnownDefect(
        "transformers",
        _TRANSFORMERS,
        "a death within a save leaves a folder that get_last_checkpoint takes for the newest",
        "docs/found.md",
    ),
    KnownDefect(
        "datasets",
        "5.2.0",
        "loading processes that live on have in each later epoch what was left of the resumed one",
        "huggingface/datasets#7447",
    ),
    KnownDefect(
        "torchdata",
        _TORCHDATA,
        "SamplerWrapper does not tell a stateful sampler the epoch as a state is loaded",
        "meta-pytorch/data#1513",
    ),
    KnownDefect(
        "torchdata",
        _TORCHDATA,
        "a stateful loader that is loaded with the state of an epoch's end has nothing left",
        "verl-project/verl#7401",
    ),
    KnownDefect(
        "lightning",
        "2.6.6",
        "estimated_stepping_batches makes the loader before the checkpoint is loaded, and the "
        "saved state of it is never set",
        "Lightning-AI/pytorch-lightning#20550",
    ),
    KnownDefect(
        "lightning",
        "2.6.6",
        'save_last="link" removes the old link before the new one is made',
        "docs/found.md",
        "save_last=True",
    ),
    KnownDefect(
        "litdata",
        "0.2.76",
        "a state of mixed data sets is loaded with other batches than it was saved with",
        "Lightning-AI/litData#363",
    ),
)


def find_installed_defects(
    version: Callable[[str], str | None] = lambda package: find_version([[package]]),
) -> Iterator[KnownDefect]:
    """Yield the defects that were seen in the very versions that are installed."""
    for defect in KNOWN:
        if (version(defect.package) or "").partition("+")[0] == defect.version:
            yield defect
