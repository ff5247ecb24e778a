"""Logs of platforms as traces: which nodes were lost, and when.

A log says what happened to nodes, and not how many there were: that is given. Where it does not
say when a lost node was replaced, a time is assumed. A format is known by the content of a record,
never by the name of a file, and records of other kinds are passed over and counted.

Sources of the formats: Amazon EC2's user guide (spot instance interruption notices, rebalance
recommendations, state-change events); Google Cloud's audit logs and `gcloud compute operations
list --format=json`; Azure's Scheduled Events; `kubectl get events -o json` with the reasons of the
node lifecycle controller, Karpenter 1.x and AWS Node Termination Handler; `sacct --parsable2`
(Slurm 22.05); Ray 2.60, `export_events/event_EXPORT_NODE.log` and `events/event_GCS.log`.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, Literal, NamedTuple, TypeAlias

from chaos.errors import UsageError
from chaos.extensions.preflight.trace import Trace, build_trace
from chaos.wording import plural

RETURN_S = 300.0  # where a log has no node that comes
TOGETHER_S = 60.0  # losses of nodes that were taken at once
SAME_S = 600.0  # a node that is named again within it, and did not come back, is lost once
_MILLISECONDS = 1e11  # a time since 1970 above it is in milliseconds

NodeEventKind: TypeAlias = Literal["lost", "came"]
Record: TypeAlias = Mapping[str, Any]


class NodeEvent(NamedTuple):
    """A node that was lost, or that came."""

    at_s: float
    kind: NodeEventKind
    node: str


RecordParser: TypeAlias = Callable[[Record], Iterator[NodeEvent]]


@dataclass(frozen=True)
class EventLog:
    """The losses of a log, in order of their times."""

    name: str
    format: str
    events: tuple[NodeEvent, ...]
    #: records of other kinds, by their names
    ignored: Mapping[str, int]
    #: the nodes that there were, where the log says it
    held_nodes: int | None = None
    #: the time that it is of, where that is more than from its first event to its last
    watched_s: tuple[float, float] | None = None
    #: the next step where no node is lost in it
    hint: str = "Give a log of a longer time."

    @property
    def losses(self) -> int:
        return sum(event.kind == "lost" for event in self.events)

    def convert_to_trace(self, held_nodes: int | None) -> Trace:
        """Return the log as a trace of so many nodes; raises `UsageError` if they are not known."""
        count = held_nodes or self.held_nodes
        if not self.losses:
            ignored = ", ".join(
                f"{plural(n, 'record')} of {kind}" for kind, n in self.ignored.items()
            )
            problem = f"no node is lost in this log of {self.format}" + f": {ignored}" * bool(
                ignored
            )
            raise UsageError(problem, self.hint, location=self.name)
        if count is None:
            (start_s, _), *_, (end_s, _) = self._counts(self.losses)
            span_h = (end_s - start_s) / 3600
            nodes = len({event.node for event in self.events if event.kind == "lost"})
            raise UsageError(
                f"{self.format} has {plural(self.losses, 'loss', 'losses')} of "
                f"{plural(nodes, 'node')} in {span_h:.1f} h, and does not say how many there were",
                "Give the number of nodes that were held: --trace-held N.",
                location=self.name,
            )
        counts = self._counts(count)
        trace = build_trace(self.name, counts, format_=self.format, kind="held")
        return replace(trace, repairs=(*self._notes(count),))

    def _counts(self, held_nodes: int) -> list[tuple[float, int]]:
        """Return (seconds, nodes up), beginning a second before the first event."""
        has_returns = any(event.kind == "came" for event in self.events)
        lost = Counter(event.at_s for event in self.events if event.kind == "lost")
        changes = Counter({at_s: -count for at_s, count in lost.items()})
        for event in self.events:
            if event.kind == "came":  # after what is lost at the same instant: that is a loss
                changes[event.at_s + (event.at_s in lost)] += 1
            elif not has_returns:
                return_s = event.at_s + RETURN_S
                changes[return_s + (return_s in lost)] += 1
        start_s, end_s = min(changes) - 1, max(changes)
        if self.watched_s is not None:
            start_s, end_s = min(start_s, self.watched_s[0]), max(end_s, self.watched_s[1])
        up, counts = held_nodes, [(start_s, held_nodes)]
        for at_s in sorted(changes):
            up = min(held_nodes, up + changes[at_s])
            if up < 0:
                moment = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")
                raise UsageError(
                    f"at {moment} more than {plural(held_nodes, 'node')} are lost",
                    "Give the number of nodes that were held: --trace-held N.",
                    location=self.name,
                )
            counts.append((at_s, up))
        return [*counts, (end_s, up)]

    def _notes(self, held_nodes: int) -> Iterator[str]:
        lost = Counter(event.at_s for event in self.events if event.kind == "lost")
        group_sizes = [count for count in lost.values() if count > 1]
        if group_sizes:
            yield (
                f"{plural(len(group_sizes), 'time')} several nodes are lost within a minute, "
                f"{sum(group_sizes)} "
                "in all: each is read as one loss of so many"
            )
        if self.held_nodes is None:
            yield (
                f"{plural(held_nodes, 'node')} were held, as --trace-held says: it is not in the "
                "log"
            )
        if not any(event.kind == "came" for event in self.events):
            yield (
                "the log does not say when a lost node was replaced: read as after "
                f"{RETURN_S / 60:.0f} min"
            )
        row = "event" if self.watched_s is None else "row"
        yield f"the time before its first {row} and after its last is not counted"
        if self.ignored:
            listing = ", ".join(f"{count} {kind}" for kind, count in self.ignored.items())
            yield f"passed over: {listing}"


def parse_log(name: str, text: str) -> EventLog | None:
    """Return the events of a platform's log; None for a text of any other format.

    Raises `UsageError` with the line for a record of a known kind that cannot be read.
    """
    lines = text.splitlines()
    head = next((line for line in lines if line.strip()), "")
    if "|" in head and {"JobID", "State", "Start", "End"} <= set(head.strip().split("|")):
        return _parse_slurm(name, lines)
    if not head.lstrip().startswith(("{", "[")):
        return None
    records = [(line, record, _find_kind(record)) for line, record in _records(text, lines)]
    formats = dict.fromkeys(kind.name for _, _, kind in records if kind is not None)
    if not formats:
        return None
    events: list[NodeEvent] = []
    ignored = Counter[str]()
    for line, record, kind in records:
        source_location = f"{name}:{line}"
        if isinstance(record, str):
            problem = f"this line is not JSON: {record[:60]}"
            raise UsageError(problem, "Mend it, or take it out.", location=source_location)
        record_events = [] if kind is None else _parse_record(kind, record, source_location)
        events += record_events
        if not record_events:
            ignored["of other kinds" if kind is None else kind.title(record)] += 1
    log = build_event_log(name, " and ".join(formats), events, dict(ignored))
    return replace(log, hint=_NAMESPACE_HINT) if _is_of_namespace(records) else log


def build_event_log(
    name: str,
    format_name: str,
    events: Sequence[NodeEvent],
    ignored: Mapping[str, int] | None = None,
    *,
    watched_s: tuple[float, float] | None = None,
) -> EventLog:
    """Return a log of events in any order, losses of one moment together."""
    merged_events = _merge_losses(_drop_repeated_losses(sorted(events)))
    return EventLog(name, format_name, merged_events, ignored or {}, watched_s=watched_s)


_NAMESPACE_HINT = (
    "These are the events of pods. Those of nodes are in all namespaces' events: "
    "kubectl get events -A -o json."
)


def _is_of_namespace(
    records: Sequence[tuple[int, Record | str, "RecordKind | None"]],
) -> bool:
    """Return whether Kubernetes' events are of pods and the like, and none of a node."""
    kinds = {
        str((record.get("involvedObject") or record.get("regarding") or {}).get("kind"))
        for _, record, kind in records
        if not isinstance(record, str) and kind is not None and kind.name == "Kubernetes' events"
    }
    return bool(kinds) and not kinds & {"Node", "NodeClaim"}


def _parse_record(kind: "RecordKind", record: Record, source_location: str) -> list[NodeEvent]:
    try:
        return [*kind.read(record)]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(
            f"a record of {kind.name} without what it needs ({type(error).__name__}: {error})",
            f"It needs {kind.needs}. Mend it, or take it out.",
            location=source_location,
        ) from None


def _drop_repeated_losses(events: Sequence[NodeEvent]) -> tuple[NodeEvent, ...]:
    """Return what happened, a loss that several records tell of as one."""
    lost_at_s: dict[str, float] = {}
    distinct_events = []
    for event in events:
        if event.kind == "came":
            lost_at_s.pop(event.node, None)
        elif event.at_s - lost_at_s.get(event.node, float("-inf")) <= SAME_S:
            continue
        else:
            lost_at_s[event.node] = event.at_s
        distinct_events.append(event)
    return tuple(distinct_events)


def _merge_losses(events: Sequence[NodeEvent]) -> tuple[NodeEvent, ...]:
    """Return what happened, with losses that follow one within a minute at its time.

    A platform that takes several nodes at once sends an event for each, some seconds apart.
    """
    merged_events, first_s = [], float("-inf")
    for event in events:
        if event.kind != "lost":
            merged_events.append(event)
            continue
        if event.at_s - first_s > TOGETHER_S:
            first_s = event.at_s
        merged_events.append(event._replace(at_s=first_s))
    return tuple(sorted(merged_events))


def _find_kind(record: Record | str) -> "RecordKind | None":
    fits = (kind for kind in _KINDS if not isinstance(record, str) and kind.fits(record))
    return next(fits, None)


def _records(text: str, lines: Sequence[str]) -> Iterator[tuple[int, Record | str]]:
    """Yield the records of a JSON text, or of JSON lines, each with its line.

    A line that is no JSON is yielded as it is.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        yield from _parse_lines(lines)
        return
    yield from ((1, record) for record in _list_records(value))


_LISTS = ("items", "Events", "entries", "Records")


def _list_records(value: object) -> Iterator[Record]:
    """Yield the records of a list, of a document with a list of them, or the one that it is."""
    if isinstance(value, dict):
        inner = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
        value = [value] if inner is None else inner
    yield from (
        item for item in (value if isinstance(value, list) else ()) if isinstance(item, dict)
    )


def _parse_lines(lines: Sequence[str]) -> Iterator[tuple[int, Record | str]]:
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            record = line
        if isinstance(record, str):
            yield number, record
        else:
            yield from ((number, line_record) for line_record in _list_records(record))


# -- the kinds ---------------------------------------------------------------------------------


class RecordKind(NamedTuple):
    """A kind of record."""

    name: str
    fits: Callable[[Record], bool]
    read: RecordParser
    #: what a record is called that has nothing of a node
    title: Callable[[Record], str]
    #: the fields that it has to have, in words
    needs: str


def _parse_time_s(value: Any) -> float:  # noqa: ANN401 - what JSON has
    """Return a time in seconds since 1970: ISO 8601, RFC 1123, or a number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / 1000 if value > _MILLISECONDS else float(value)
    text = str(value)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = parsedate_to_datetime(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _parse_eventbridge(record: Record) -> Iterator[NodeEvent]:
    kind, detail = record["detail-type"], record["detail"]
    if kind == "EC2 Spot Instance Interruption Warning":
        yield NodeEvent(_parse_time_s(record["time"]), "lost", detail["instance-id"])
    elif kind == "EC2 Instance State-change Notification":
        states: dict[str, NodeEventKind] = {
            "running": "came",
            "shutting-down": "lost",
            "terminated": "lost",
        }
        states |= {"stopping": "lost", "stopped": "lost"}
        if detail["state"] in states:
            event_kind = states[detail["state"]]
            yield NodeEvent(_parse_time_s(record["time"]), event_kind, detail["instance-id"])


def _parse_audit_entry(record: Record) -> Iterator[NodeEvent]:
    payload = record["protoPayload"]
    method = str(payload["methodName"]).rpartition("instances.")[2]
    event_kinds: dict[str, NodeEventKind] = {"preempted": "lost", "insert": "came", "start": "came"}
    # A call is logged as it begins and as it ends.
    ends = record.get("operation", {}).get("last", True)
    if method in event_kinds and ends:
        yield NodeEvent(
            _parse_time_s(record["timestamp"]), event_kinds[method], str(payload["resourceName"])
        )


def _parse_operation(record: Record) -> Iterator[NodeEvent]:
    kinds: dict[str, NodeEventKind] = {
        "compute.instances.preempted": "lost",
        "insert": "came",
        "start": "came",
    }
    kind = record["operationType"]
    if kind in kinds:
        time = record.get("endTime") or record["insertTime"]
        yield NodeEvent(_parse_time_s(time), kinds[kind], str(record["targetLink"]))


def _parse_scheduled_event(record: Record) -> Iterator[NodeEvent]:
    if record["EventType"] in ("Preempt", "Terminate") and record.get("EventStatus") != "Started":
        for node in record["Resources"]:
            yield NodeEvent(_parse_time_s(record["NotBefore"]), "lost", str(node))


_LOST = frozenset(
    {
        *("NodeNotReady", "RemovingNode", "DeletingNode"),  # Kubernetes
        *("SpotInterrupted", "InstanceTerminating", "TerminatingOnInterruption"),  # Karpenter
        *("SpotInterruption", "PreemptScheduled"),  # AWS Node Termination Handler; AKS
    }
)
_CAME = frozenset({"NodeReady", "RegisteredNode"})


def _find_object(record: Record) -> Record:
    """Return what an event of Kubernetes is about."""
    involved_object: Record = record.get("involvedObject") or record["regarding"]
    return involved_object


def _parse_kubernetes_event(record: Record) -> Iterator[NodeEvent]:
    involved_object, reason = _find_object(record), record["reason"]
    if involved_object["kind"] in ("Node", "NodeClaim") and reason in _LOST | _CAME:
        times = (
            record.get(key) for key in ("eventTime", "lastTimestamp", "deprecatedLastTimestamp")
        )
        time = next(filter(None, times), None) or record["metadata"]["creationTimestamp"]
        yield NodeEvent(
            _parse_time_s(time), "lost" if reason in _LOST else "came", involved_object["name"]
        )


_ON_PURPOSE = frozenset({"EXPECTED_TERMINATION", "AUTOSCALER_DRAIN_IDLE"})


def _parse_ray_event(record: Record) -> Iterator[NodeEvent]:
    node = record["event_data"]
    states: dict[str, NodeEventKind] = {"ALIVE": "came", "DEAD": "lost"}
    if node["state"] in states and not node.get("is_head_node"):
        reason = node.get("death_info", {}).get("reason", "")
        if node["state"] == "ALIVE" or reason not in _ON_PURPOSE:
            yield NodeEvent(
                _parse_time_s(record["timestamp"]), states[node["state"]], node["node_id"]
            )


def _parse_gcs_event(record: Record) -> Iterator[NodeEvent]:
    labels: dict[str, NodeEventKind] = {"RAY_NODE_ADDED": "came", "RAY_NODE_REMOVED": "lost"}
    if record["label"] in labels:
        node = record["custom_fields"]["node_id"]
        yield NodeEvent(_parse_time_s(record["timestamp"]), labels[record["label"]], node)


_KINDS = (
    RecordKind(
        "Ray's log of its GCS",
        lambda record: record.get("source_type") == "GCS" and "label" in record,
        _parse_gcs_event,
        lambda record: str(record["label"]),
        "`timestamp`, and `custom_fields` with `node_id`",
    ),
    RecordKind(
        "EventBridge's events",
        lambda record: "detail-type" in record and "detail" in record,
        _parse_eventbridge,
        lambda record: str(record["detail-type"]),
        "`time`, and `detail` with `instance-id`",
    ),
    RecordKind(
        "Google Cloud's audit log",
        lambda record: "methodName" in (record.get("protoPayload") or ()),
        _parse_audit_entry,
        lambda record: str(record["protoPayload"]["methodName"]),
        "`timestamp`, and `protoPayload` with `resourceName`",
    ),
    RecordKind(
        "Compute Engine's operations",
        lambda record: "operationType" in record and "targetLink" in record,
        _parse_operation,
        lambda record: str(record["operationType"]),
        "`operationType`, `targetLink`, and `endTime` or `insertTime`",
    ),
    RecordKind(
        "Azure's scheduled events",
        lambda record: "EventType" in record and "Resources" in record,
        _parse_scheduled_event,
        lambda record: str(record["EventType"]),
        "`Resources`, and `NotBefore`",
    ),
    RecordKind(
        "Kubernetes' events",
        lambda record: "reason" in record and ("involvedObject" in record or "regarding" in record),
        _parse_kubernetes_event,
        lambda record: f"{record['reason']} of a {_find_object(record).get('kind')}",
        "`involvedObject` with kind and name, and a time",
    ),
    RecordKind(
        "Ray's node events",
        lambda record: record.get("source_type") == "EXPORT_NODE",
        _parse_ray_event,
        lambda record: str(record["source_type"]),
        "`timestamp`, and `event_data` with `node_id` and `state`",
    ),
)


# -- Slurm -------------------------------------------------------------------------------------

_SLURM_LOST = ("PREEMPTED", "NODE_FAIL", "REQUEUED")


def _parse_slurm(name: str, lines: Sequence[str]) -> EventLog:
    """Read `sacct -D -P`: each start of a job is a row, and one that was preempted lost its nodes.

    A step has a point in its number, and no row here.
    """
    rows = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    columns = rows[0][1].split("|")
    events, ignored, job_nodes = list[NodeEvent](), Counter[str](), Counter[str]()
    for number, line in rows[1:]:
        row = dict(zip(columns, line.split("|"), strict=False))
        try:
            job, state = row["JobID"], row["State"].partition(" ")[0]
            if "." in job:
                continue
            count = int(row.get("NNodes") or row.get("AllocNodes") or 1)
            ends = _parse_time_s(row["End"]) if state in _SLURM_LOST else 0.0
            starts = _parse_time_s(row["Start"]) if row["Start"][:1].isdigit() else None
        except (KeyError, TypeError, ValueError) as error:
            problem = f"a row of sacct that cannot be read ({type(error).__name__}: {error})"
            hint = (
                "It needs JobID, State, Start and End: sacct -D -P -o JobID,State,Start,End,NNodes."
            )
            raise UsageError(problem, hint, location=f"{name}:{number}") from None
        job_nodes[job] = max(job_nodes[job], count)
        nodes = [f"{job}/{node}" for node in range(count)]
        if starts is not None:
            events += [NodeEvent(starts, "came", node) for node in nodes]
        if state in _SLURM_LOST:
            events += [NodeEvent(ends, "lost", node) for node in nodes]
        else:
            ignored[state] += 1
    # Before its first start no node was lost: the trace begins with the first job that runs.
    return EventLog(
        name, "sacct", tuple(sorted(events)), dict(ignored), max(job_nodes.values(), default=0)
    )
