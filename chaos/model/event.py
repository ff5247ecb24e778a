"""The union of all events: each is one line of the history.

Times are monotonic nanoseconds of the host; `JournalOpened` pairs them with the wall clock so that
journals of several hosts can be merged. `epoch` and `step` count as in `model.trigger`.
"""

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, TypeAlias

from chaos.model.events.base import Event
from chaos.model.events.driver import (
    LATER_FIT,
    NO_FIT,
    UNCALLED,
    AgentEnded,
    CommandEnded,
    ExperimentEnded,
    FitCalled,
    FitRaised,
    FitReturned,
    MembershipChanged,
    ScriptRaised,
)
from chaos.model.events.files import (
    FileCopied,
    FileRenamed,
    FilesSeen,
    FileTouched,
    FileWritten,
    SavedPart,
    SeenFile,
)
from chaos.model.events.harness import (
    BystanderSeen,
    DeadlinePassed,
    DependentSeen,
    Disturbed,
    DriverExited,
    FilesUnsynced,
    FolderCompared,
    JobAccounted,
    JournalCut,
    JournalOpened,
    Leftover,
    LeftoversSearched,
    MemoryExhausted,
    RunEnded,
    RunStarted,
    StackTaken,
    StartedAgain,
    ThreadWaits,
    WroteOutside,
)
from chaos.model.events.observer import (
    Committed,
    ControllerState,
    FailureDecided,
    ObserverFailed,
    WorkerGroupStarted,
    WorkerPlace,
)
from chaos.model.events.probe import (
    CheckpointRead,
    ChildTrained,
    EpochEnded,
    GroupJoined,
    LoaderProcesses,
    LossResolved,
    ProbeFailed,
    ReportBegun,
    ReportReturned,
    StepDone,
    UploadBegun,
    UploadEnded,
    WorkerStarted,
)
from chaos.model.events.state import (
    CensusTaken,
    CheckpointDeleted,
    CodeLine,
    Component,
    Declared,
    FileLoaded,
    FileSaveBegun,
    FileSaved,
    GeneratorsSeen,
    Held,
    Inputs,
    LoopBody,
    NamesGiven,
    ParametersNamed,
    PartUploaded,
    ProcessSeen,
    Repositioned,
    ResumeEvidence,
    SetAside,
    ShardedPart,
    Share,
    StateSeen,
    StorageSeen,
    StoredCheckpoint,
    TrainFnEnded,
    ValidationBegun,
    WatchCost,
    describe_resume_evidence,
)
from chaos.model.events.strike import (
    FaultEnded,
    FaultHealed,
    FaultInvoked,
    GateReached,
    GateReleased,
    MetadataAsked,
    NodeReclaimed,
    NoticeGiven,
    Reclaim,
    StorageFaulted,
)


def _iterate_kinds(base: type[Event]) -> Iterator[type[Event]]:
    """Yield the events below a base: those classes that are no base themselves."""
    for kind in base.__subclasses__():
        if kind.__subclasses__():
            yield from _iterate_kinds(kind)
        else:
            yield kind


if TYPE_CHECKING:
    AnyEvent: TypeAlias = Event
else:
    # What msgspec reads a line as. No kind is listed here, so none can be forgotten.
    AnyEvent = reduce(or_, _iterate_kinds(Event))
