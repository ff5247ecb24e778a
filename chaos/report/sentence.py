"""One plain sentence for every kind of event, for people who read a history line by line."""

from typing import TypeAlias, assert_never

from chaos.model import event as ev
from chaos.report.state_sentence import OfState, state_sentence
from chaos.words import gist

Watched: TypeAlias = (
    ev.JournalOpened
    | ev.RunStarted
    | ev.DriverExited
    | ev.DeadlinePassed
    | ev.Disturbed
    | ev.MemoryExhausted
    | ev.StackTaken
    | ev.WorkersPrestarted
    | ev.LeftoversSearched
    | ev.Leftover
    | ev.BystanderSeen
    | ev.JournalCut
    | ev.WroteOutside
    | ev.RunEnded
)
Ended: TypeAlias = (
    ev.Disturbed
    | ev.LeftoversSearched
    | ev.Leftover
    | ev.BystanderSeen
    | ev.JournalCut
    | ev.WroteOutside
    | ev.RunEnded
)
Driven: TypeAlias = (
    ev.FitCalled | ev.FitReturned | ev.ExperimentEnded | ev.FitRaised | ev.ScriptRaised
)
Observed: TypeAlias = (
    ev.ControllerState
    | ev.WorkerGroupStarted
    | ev.Committed
    | ev.FailureDecided
    | ev.ObserverFailed
)
Trained: TypeAlias = (
    ev.WorkerStarted | ev.CheckpointRead | ev.StepDone | ev.LossResolved | ev.ProbeFailed
)
Reported: TypeAlias = ev.ReportBegun | ev.ReportReturned | ev.UploadBegun | ev.UploadEnded
Struck: TypeAlias = (
    ev.GateReached
    | ev.GateReleased
    | ev.FaultInvoked
    | ev.NoticeGiven
    | ev.StorageFaulted
    | ev.FaultEnded
    | ev.FaultHealed
)


def sentence(event: ev.AnyEvent) -> str:
    """Describe in one line what an event tells."""
    if isinstance(event, Watched):
        text = _of_the_harness(event)
    elif isinstance(event, Driven):
        text = _of_the_driver(event)
    elif isinstance(event, Observed):
        text = _of_the_observer(event)
    elif isinstance(event, Trained):
        text = _of_the_worker(event)
    elif isinstance(event, Reported):
        text = _of_a_report(event)
    elif isinstance(event, Struck):
        text = _of_a_strike(event)
    elif isinstance(event, OfState):
        text = state_sentence(event)
    else:
        assert_never(event)
    return " ".join(text.split())


def _of_the_harness(event: Watched) -> str:
    match event:
        case ev.JournalOpened():
            text = f"journal of the {event.role} opened: pid {event.pid} on {event.host}"
        case ev.RunStarted():
            again = f"; once more, after: {event.again_after}" if event.again_after else ""
            text = (
                f"run {event.scenario} started (seed {event.seed}, backend {event.backend}){again}"
            )
        case ev.DriverExited():
            how = f"signal {-event.code}" if event.code < 0 else f"code {event.code}"
            text = f"driver exited with {how}"
        case ev.DeadlinePassed():
            text = f"run ended by the harness: still going after {event.limit_s:g} s"
        case ev.MemoryExhausted():
            whose = "its largest process" if event.rank is None else f"rank {event.rank}"
            text = f"memory was {event.share:.0%} full: {whose} (pid {event.pid}) was ended"
        case ev.StackTaken():
            whose = "the driver" if event.rank is None else f"rank {event.rank}"
            text = f"stacks of {whose} (pid {event.pid}) are in {event.path}"
        case ev.WorkersPrestarted():
            text = _of_the_pool(event)
        case _:
            text = _of_the_end(event)
    return text


def _of_the_pool(event: ev.WorkersPrestarted) -> str:
    taken = f"workers of attempt {event.attempt} that had been waiting: {event.taken}"
    if event.error is not None:
        return f"{taken}; no more could be asked for: {event.error}"
    return f"{taken}; processes asked for, for the next attempt: {sum(event.asked.values())}"


def _of_the_end(event: Ended) -> str:
    match event:
        case ev.BystanderSeen():
            how = f"raised {event.error}" if event.error else "returned"
            how = how if event.finished or event.error else "did not end"
            text = (
                f"trial {event.trial} beside it: attempts {event.attempts}, failures "
                f"{event.failures}, steps {event.steps}; its fit() {how}"
            )
        case ev.LeftoversSearched():
            text = f"leftovers searched among {', '.join(event.places) or 'nothing'}"
        case ev.Leftover():
            text = f"left behind: {event.kind.replace('_', ' ')} {event.what}"
        case ev.JournalCut():
            text = f"what {event.source} wrote last was lost with node {event.node_id[:8]}"
        case ev.Disturbed():
            text = f"disturbed: {event.why}"
        case ev.WroteOutside():
            then = "; it is removed" if event.removed else ""
            text = f"the job wrote outside the audit's folder: {event.path} ({event.how}){then}"
        case ev.RunEnded():
            text = "run interrupted" if event.interrupted else "run ended"
        case _:
            assert_never(event)
    return text


def _of_the_driver(event: Driven) -> str:
    match event:
        case ev.FitCalled():
            text = f"{event.trainer}.fit() called with {event.workers} workers"
        case ev.FitReturned():
            text = f"fit() returned; its checkpoint: {event.checkpoint or 'none'}"
        case ev.ExperimentEnded():
            text = f"Ray Tune's experiment ended; trials that it made: {event.trials}"
        case ev.FitRaised():
            text = f"fit() raised {event.error}: {gist(event.message)}"
        case ev.ScriptRaised(error=ev.LATER_FIT):
            text = event.message
        case ev.ScriptRaised():
            text = f"the script failed outside fit(): {event.error}: {gist(event.message)}"
        case _:
            assert_never(event)
    return text


def _of_the_observer(event: Observed) -> str:
    match event:
        case ev.ControllerState():
            text = f"Ray's controller: {event.previous} → {event.state}"
        case ev.WorkerGroupStarted():
            pids = ", ".join(f"rank {w.rank} is pid {w.pid}" for w in event.workers)
            text = f"attempt {event.attempt} started: {pids or 'no workers'}"
        case ev.Committed():
            what = f"checkpoint {event.checkpoint}" if event.checkpoint else "no checkpoint"
            text = f"epoch {event.epoch} committed by attempt {event.attempt}, with {what}"
        case ev.FailureDecided():
            text = (
                f"failure of attempt {event.attempt}: {event.decision}, "
                f"charged to {event.charged}: {event.error}"
            )
        case ev.ObserverFailed():
            text = f"the observer failed in {event.where}: {event.error}"
        case _:
            assert_never(event)
    return text


def _of_the_worker(event: Trained) -> str:
    who = f"rank {event.rank}, attempt {event.attempt}"
    match event:
        case ev.WorkerStarted():
            start = f"checkpoint {event.checkpoint}" if event.checkpoint else "no checkpoint"
            text = f"{who}: started at epoch {event.epoch} with {start}"
        case ev.CheckpointRead():
            text = f"{who}: asked for its checkpoint, got {event.checkpoint or 'none'}"
        case ev.StepDone():
            losses = "not yet known" if event.losses is None else _numbers(event.losses)
            text = f"{who}: epoch {event.epoch}, step {event.step} done, loss {losses}"
        case ev.LossResolved():
            losses = _numbers(event.losses)
            text = f"{who}: epoch {event.epoch}, step {event.step} had loss {losses}"
        case ev.ProbeFailed():
            text = f"{who}: the probe failed in {event.where}: {event.error}"
        case _:
            assert_never(event)
    return text


def _of_a_report(event: Reported) -> str:
    who = f"rank {event.rank}, attempt {event.attempt}"
    match event:
        case ev.ReportBegun():
            text = f"{who}: report of epoch {event.epoch} begun"
        case ev.ReportReturned():
            how = f"raised {event.error}" if event.error else "returned (not yet a commit)"
            text = f"{who}: report of epoch {event.epoch} {how}"
        case ev.UploadBegun():
            text = f"{who}: upload of epoch {event.epoch} begun"
        case ev.UploadEnded():
            how = f"failed: {event.error}" if event.error else "is in storage"
            text = f"{who}: upload of epoch {event.epoch} {how}"
        case _:
            assert_never(event)
    return text


def _of_a_strike(event: Struck) -> str:
    match event:
        case ev.GateReached():
            text = f"op {event.op}: rank {event.rank} (pid {event.pid}) is held at its place"
        case ev.GateReleased():
            text = f"op {event.op}: rank {event.rank} may go on"
        case ev.FaultInvoked():
            where = f"rank {event.rank} (pid {event.pid}, node {event.node_id[:8]})"
            text = f"op {event.op}: {event.fault} strikes {where}"
        case ev.NoticeGiven():
            text = f"op {event.op}: loss of node {event.node_id[:8]} announced"
        case ev.StorageFaulted():
            text = f"op {event.op}: storage: {event.detail}"
        case ev.FaultEnded():
            text = f"op {event.op}: {event.status}: {event.detail}"
        case ev.FaultHealed():
            text = f"op {event.op}: healed: {event.detail}"
        case _:
            assert_never(event)
    return text


def _numbers(losses: tuple[float | str, ...]) -> str:
    return ", ".join(str(loss) for loss in losses) or "none"
