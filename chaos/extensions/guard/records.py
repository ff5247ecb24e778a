"""The records that a rank of a guarded training keeps, as JSON."""

from typing import Literal, TypeAlias

import msgspec

from chaos.model.event import Component

Level: TypeAlias = Literal["mismatch", "notice", "accepted"]
#: a file's bytes and the time of its content (unix, ns), by its path
Files: TypeAlias = dict[str, tuple[int, int]]


class RankSave(msgspec.Struct, frozen=True, kw_only=True):
    """One save of a rank, with the state that went into it."""

    start: int
    rank: int
    ranks: int
    #: optimizer steps of the training, over all its starts
    step: int
    at_s: float
    files: Files
    #: it was seen to hold the optimizer's state
    has_optimizer: bool
    #: it was seen to hold the model that was trained then; else nothing is compared with it
    is_live: bool
    #: a hash of a sample of each trained tensor, sorted
    tensors: tuple[str, ...]
    #: the state as the save began
    made: tuple[Component, ...]
    #: as the next step of the same process began; empty if it did not come to it
    entered: tuple[Component, ...] = ()
    #: its process came to its next step, or ended in order: nothing was due of the save any more
    is_past: bool = False
    #: the losses of the steps before it, the last one last
    losses: tuple[float, ...] = ()


class RankStep(msgspec.Struct, frozen=True, array_like=True):
    """One optimizer step of a rank."""

    number: int
    #: of the last `backward()` before it; None if there was none, or it was no finite number
    loss: float | None
    #: a digest of all inputs of the step, keyed (see `steps.salt_step`); empty if there were none
    inputs: str
    #: eight digits for each sample
    samples: str
    #: its batch is the first one of an iteration over a data loader
    begins: bool = False


class GuardFinding(msgspec.Struct, frozen=True):
    """One thing that a restart did not bring back, in words."""

    level: Level
    #: `state`, `began-anew`, `older`, `data`, `loss`, `generators`, `unknown`; `latent` is a part
    #: of the state that is another one, and moved no loss of the steps that were made again
    kind: str
    text: str
    #: of a `state`, the group of its parts
    group: str | None = None

    @property
    def subject(self) -> str:
        """The word by which it is accepted."""
        return (self.group or self.kind).replace(" ", "-")


class RestartAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer for one rank of one start; a later line of the same rank has more of it."""

    start: int
    rank: int
    ranks: int
    at_s: float
    #: the step after which it went on, None if that is not known
    step: int | None
    #: the state shows it; else a file of that save was read, and the state is another
    is_by_state: bool = False
    #: the start that had made the save, and the files
    of_start: int | None = None
    files: tuple[str, ...] = ()
    #: steps that an earlier start had made after the save
    lost: int | None = None
    #: seconds from the start of the process to its first step
    first_step_s: float | None = None
    #: parts of the state that were compared
    compared: tuple[str, ...] = ()
    #: of those, the parts that are other than at the save
    differing: tuple[str, ...] = ()
    #: steps of an earlier start that were made again
    replayed: int = 0
    #: of those, with the same inputs, and with the same loss to the last bit
    same_inputs: int = 0
    same_losses: int = 0
    #: with the same loss, rounding apart
    equal_losses: int = 0
    #: its generators stand where they stood, and its inputs are those that were next
    continues: bool = False
    #: no part could be compared, and its steps that were made again show that its state came back
    is_by_steps: bool = False
    findings: tuple[GuardFinding, ...] = ()
    #: it has seen all that it can see
    is_done: bool = False

    @property
    def is_wrong(self) -> bool:
        """Whether something that was saved did not come back."""
        return any(finding.level == "mismatch" for finding in self.findings)

    @property
    def has_come_back(self) -> bool:
        """Whether the state was compared, and is the save's but for what is accepted."""
        state = [finding for finding in self.findings if finding.kind == "state"]
        differs = any(finding.level != "accepted" for finding in state)
        is_any = self.is_by_steps or bool({*self.compared}.difference(self.differing))
        return self.step is not None and is_any and not differs

    @property
    def has_continued(self) -> bool:
        """Whether training was seen to go on as before: by a step made again, or by generators."""
        levels = [
            finding.level
            for finding in self.findings
            if finding.kind in ("data", "generators", "loss")
        ]
        is_seen = self.equal_losses or self.same_losses or self.continues or "accepted" in levels
        return bool(is_seen) and "notice" not in levels


class Startup(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a rank that has made no step: its record is removed at the first one."""

    rank: int
    began_s: float
    host: str
    pid: int
    #: files of saves that it has begun to read, the last one last
    files: tuple[str, ...] = ()
    #: the process ended in order, or by an exception
    is_over: bool = False
    #: the name of the exception
    error: str = ""


class GuardedStart(msgspec.Struct, frozen=True, kw_only=True):
    """One start of a rank, written at its first step."""

    start: int
    rank: int
    ranks: int
    began_s: float
    host: str
    pid: int
    command: tuple[str, ...]
    cwd: str
    #: the folder of a run of Ray Train, whose saves are given to that run alone; empty for others
    run: str = ""
    #: the folder in it that Ray gave this start to go on from; empty with none, None if not known
    given: str | None = None
    #: `torchrun`, `slurm`, `ray` or `python`
    launcher: str
    versions: dict[str, str]
    #: steps before its first one
    step: int
    #: names the salt with which the digests of its inputs are keyed; empty if with none
    salt: str = ""
    #: subjects of findings that are no mismatch of this start (`--accept`)
    accepts: tuple[str, ...] = ()
    entered: tuple[Component, ...]

    @property
    def job(self) -> tuple[tuple[str, ...], str]:
        """The key of what is asked for: where it is the same, that is no reason for a change."""
        return self.command, self.run


#: a step whose inputs and loss stayed on an accelerator is written at the next flush
TRAIL_STEPS = 4096
SAVES_KEPT = 32
LOSSES_KEPT = 256
