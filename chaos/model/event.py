"""The union of all events: each is one line of the history.

Times are monotonic nanoseconds of the host; `JournalOpened` pairs them with the wall clock so that
journals of several hosts can be merged. `epoch` and `step` count as in `model.trigger`.
"""

from typing import TypeAlias

from chaos.model.events.base import Event
from chaos.model.events.driver import (
    LATER_FIT,
    NO_FIT,
    AgentEnded,
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
    FileWritten,
    SavedPart,
    SeenFile,
)
from chaos.model.events.harness import (
    BystanderSeen,
    DeadlinePassed,
    Disturbed,
    DriverExited,
    JournalCut,
    JournalOpened,
    Leftover,
    LeftoversSearched,
    MemoryExhausted,
    RunEnded,
    RunStarted,
    StackTaken,
    WorkersPrestarted,
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
    EpochEnded,
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
    CheckpointDeleted,
    Component,
    Declared,
    FileLoaded,
    FileSaveBegun,
    FileSaved,
    Inputs,
    ParametersNamed,
    PartUploaded,
    ProcessSeen,
    Repositioned,
    ResumeEvidence,
    ShardedPart,
    Share,
    StateSeen,
    StorageSeen,
    StoredCheckpoint,
    TrainFnEnded,
    ValidationBegun,
    WatchCost,
    resume_grounds,
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

AnyEvent: TypeAlias = (
    JournalOpened
    | RunStarted
    | DriverExited
    | DeadlinePassed
    | Disturbed
    | MemoryExhausted
    | StackTaken
    | WorkersPrestarted
    | LeftoversSearched
    | Leftover
    | BystanderSeen
    | JournalCut
    | WroteOutside
    | RunEnded
    | FitCalled
    | FitReturned
    | ExperimentEnded
    | FitRaised
    | ScriptRaised
    | AgentEnded
    | MembershipChanged
    | ControllerState
    | WorkerGroupStarted
    | Committed
    | FailureDecided
    | ObserverFailed
    | WorkerStarted
    | CheckpointRead
    | LoaderProcesses
    | StepDone
    | LossResolved
    | EpochEnded
    | ReportBegun
    | ReportReturned
    | UploadBegun
    | UploadEnded
    | ProbeFailed
    | GateReached
    | GateReleased
    | FaultInvoked
    | MetadataAsked
    | NodeReclaimed
    | NoticeGiven
    | StorageFaulted
    | FaultEnded
    | FaultHealed
    | CheckpointDeleted
    | Declared
    | FileCopied
    | FileLoaded
    | FileRenamed
    | FileSaveBegun
    | ValidationBegun
    | FileSaved
    | FileWritten
    | FilesSeen
    | PartUploaded
    | ProcessSeen
    | Repositioned
    | ParametersNamed
    | StateSeen
    | StorageSeen
    | TrainFnEnded
    | WatchCost
)
