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
from chaos.preflight.trace import Trace, trace_of_counts
from chaos.words import plural

RETURN_S = 300.0  # where a log has no node that comes
TOGETHER_S = 60.0  # losses of nodes that were taken at once
SAME_S = 600.0  # a node that is named again within it, and did not come back, is lost once
_MILLISECONDS = 1e11  # a time since 1970 above it is in milliseconds

What: TypeAlias = Literal["lost", "came"]
Record: TypeAlias = Mapping[str, Any]


class Happened(NamedTuple):
    """A node that was lost, or that came."""

    at_s: float
    what: What
    node: str


Read: TypeAlias = Callable[[Record], Iterator[Happened]]


@dataclass(frozen=True)
class EventLog:
    """The losses of a log, in order of their times."""

    name: str
    format: str
    happened: tuple[Happened, ...]
    #: records of other kinds, by their names
    passed: Mapping[str, int]
    #: the nodes that there were, where the log says it
    held: int | None = None

    @property
    def losses(self) -> int:
        return sum(one.what == "lost" for one in self.happened)

    def trace(self, held: int | None) -> Trace:
        """Return the log as a trace of so many nodes; raises `UsageError` if they are not known."""
        count = held or self.held
        if not self.losses:
            passed = ", ".join(
                f"{plural(n, 'record')} of {kind}" for kind, n in self.passed.items()
            )
            problem = f"no node is lost in this log of {self.format}" + f": {passed}" * bool(passed)
            raise UsageError(problem, "Give a log of a longer time.", place=self.name)
        if count is None:
            span_h = (self.happened[-1].at_s - self.happened[0].at_s) / 3600
            nodes = len({one.node for one in self.happened if one.what == "lost"})
            raise UsageError(
                f"{self.format} has {plural(self.losses, 'loss', 'losses')} of "
                f"{plural(nodes, 'node')} in {span_h:.1f} h, and does not say how many there were",
                "Give the number of nodes that were held: --trace-held N.",
                place=self.name,
            )
        counts = self._counts(count)
        trace = trace_of_counts(self.name, counts, format_=self.format, kind="held")
        return replace(trace, repairs=(*self._notes(count),))

    def _counts(self, held: int) -> list[tuple[float, int]]:
        """Return (seconds, nodes up), beginning a second before the first event."""
        returns = any(one.what == "came" for one in self.happened)
        lost = Counter(one.at_s for one in self.happened if one.what == "lost")
        changes = Counter({at_s: -count for at_s, count in lost.items()})
        for one in self.happened:
            if one.what == "came":  # after what is lost at the same instant: that is a loss
                changes[one.at_s + (one.at_s in lost)] += 1
            elif not returns:
                changes[one.at_s + RETURN_S] += 1
        up, counts = held, [(min(changes) - 1, held)]
        for at_s in sorted(changes):
            up = min(held, up + changes[at_s])
            if up < 0:
                when = datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")
                raise UsageError(
                    f"at {when} more than {plural(held, 'node')} are lost",
                    "Give the number of nodes that were held: --trace-held N.",
                    place=self.name,
                )
            counts.append((at_s, up))
        return counts

    def _notes(self, held: int) -> Iterator[str]:
        lost = Counter(one.at_s for one in self.happened if one.what == "lost")
        many = [count for count in lost.values() if count > 1]
        if many:
            yield (
                f"{plural(len(many), 'time')} several nodes are lost within a minute, {sum(many)} "
                "in all: each is read as one loss of so many"
            )
        if self.held is None:
            yield f"{plural(held, 'node')} were held, as --trace-held says: it is not in the log"
        if not any(one.what == "came" for one in self.happened):
            yield (
                "the log does not say when a lost node was replaced: read as after "
                f"{RETURN_S / 60:.0f} min"
            )
        yield "the time before its first event and after its last is not counted"
        if self.passed:
            named = ", ".join(f"{count} {kind}" for kind, count in self.passed.items())
            yield f"passed over: {named}"


def read_log(name: str, text: str) -> EventLog | None:
    """Return the events of a platform's log; None for a text of any other format.

    Raises `UsageError` with the line for a record of a known kind that cannot be read.
    """
    lines = text.splitlines()
    head = next((line for line in lines if line.strip()), "")
    if "|" in head and {"JobID", "State", "Start", "End"} <= set(head.strip().split("|")):
        return _slurm(name, lines)
    if not head.lstrip().startswith(("{", "[")):
        return None
    records = [(line, record, _kind_of(record)) for line, record in _records(text, lines)]
    formats = dict.fromkeys(kind.name for _, _, kind in records if kind is not None)
    if not formats:
        return None
    happened: list[Happened] = []
    passed = Counter[str]()
    for line, record, kind in records:
        place = f"{name}:{line}"
        if isinstance(record, str):
            problem = f"this line is not JSON: {record[:60]}"
            raise UsageError(problem, "Mend it, or take it out.", place=place)
        found = [] if kind is None else _read(kind, record, place)
        happened += found
        if not found:
            passed["of other kinds" if kind is None else kind.title(record)] += 1
    once = _together(_once(sorted(happened)))
    return EventLog(name, " and ".join(formats), once, dict(passed))


def _read(kind: "Kind", record: Record, place: str) -> list[Happened]:
    try:
        return [*kind.read(record)]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise UsageError(
            f"a record of {kind.name} without what it needs ({type(error).__name__}: {error})",
            f"It needs {kind.needs}. Mend it, or take it out.",
            place=place,
        ) from None


def _once(happened: Sequence[Happened]) -> tuple[Happened, ...]:
    """Return what happened, a loss that several records tell of as one."""
    gone: dict[str, float] = {}
    found = []
    for one in happened:
        if one.what == "came":
            gone.pop(one.node, None)
        elif one.at_s - gone.get(one.node, float("-inf")) <= SAME_S:
            continue
        else:
            gone[one.node] = one.at_s
        found.append(one)
    return tuple(found)


def _together(happened: Sequence[Happened]) -> tuple[Happened, ...]:
    """Return what happened, with losses that follow one within a minute at its time.

    A platform that takes several nodes at once sends an event for each, some seconds apart.
    """
    found, first_s = [], float("-inf")
    for one in happened:
        if one.what != "lost":
            found.append(one)
            continue
        if one.at_s - first_s > TOGETHER_S:
            first_s = one.at_s
        found.append(one._replace(at_s=first_s))
    return tuple(sorted(found))


def _kind_of(record: Record | str) -> "Kind | None":
    fits = (kind for kind in _KINDS if not isinstance(record, str) and kind.fits(record))
    return next(fits, None)


def _records(text: str, lines: Sequence[str]) -> Iterator[tuple[int, Record | str]]:
    """Yield the records of a JSON text, or of JSON lines, each with its line.

    A line that is no JSON is yielded as it is.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        yield from _of_lines(lines)
        return
    yield from ((1, record) for record in _inside(value))


_LISTS = ("items", "Events", "entries", "Records")


def _inside(value: object) -> Iterator[Record]:
    """Yield the records of a list, of a document with a list of them, or the one that it is."""
    if isinstance(value, dict):
        inner = next((value[key] for key in _LISTS if isinstance(value.get(key), list)), None)
        value = [value] if inner is None else inner
    yield from (one for one in (value if isinstance(value, list) else ()) if isinstance(one, dict))


def _of_lines(lines: Sequence[str]) -> Iterator[tuple[int, Record | str]]:
    for number, line in enumerate(lines, 1):
        try:
            record = json.loads(line) if line.strip() else None
        except (ValueError, RecursionError):
            record = line
        if isinstance(record, str):
            yield number, record
        else:
            yield from ((number, one) for one in _inside(record))


# -- the kinds ---------------------------------------------------------------------------------


class Kind(NamedTuple):
    """A kind of record."""

    name: str
    fits: Callable[[Record], bool]
    read: Read
    #: what a record is called that has nothing of a node
    title: Callable[[Record], str]
    #: the fields that it has to have, in words
    needs: str


def _at_s(value: Any) -> float:  # noqa: ANN401 - what JSON has
    """Return a time in seconds since 1970: ISO 8601, RFC 1123, or a number."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value / 1000 if value > _MILLISECONDS else float(value)
    text = str(value)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = parsedate_to_datetime(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def _eventbridge(record: Record) -> Iterator[Happened]:
    kind, detail = record["detail-type"], record["detail"]
    if kind == "EC2 Spot Instance Interruption Warning":
        yield Happened(_at_s(record["time"]), "lost", detail["instance-id"])
    elif kind == "EC2 Instance State-change Notification":
        states: dict[str, What] = {"running": "came", "shutting-down": "lost", "terminated": "lost"}
        states |= {"stopping": "lost", "stopped": "lost"}
        if detail["state"] in states:
            what = states[detail["state"]]
            yield Happened(_at_s(record["time"]), what, detail["instance-id"])


def _audited(record: Record) -> Iterator[Happened]:
    told = record["protoPayload"]
    method = str(told["methodName"]).rpartition("instances.")[2]
    whats: dict[str, What] = {"preempted": "lost", "insert": "came", "start": "came"}
    # A call is logged as it begins and as it ends.
    ends = record.get("operation", {}).get("last", True)
    if method in whats and ends:
        yield Happened(_at_s(record["timestamp"]), whats[method], str(told["resourceName"]))


def _operated(record: Record) -> Iterator[Happened]:
    kinds: dict[str, What] = {
        "compute.instances.preempted": "lost",
        "insert": "came",
        "start": "came",
    }
    kind = record["operationType"]
    if kind in kinds:
        at = record.get("endTime") or record["insertTime"]
        yield Happened(_at_s(at), kinds[kind], str(record["targetLink"]))


def _scheduled(record: Record) -> Iterator[Happened]:
    if record["EventType"] in ("Preempt", "Terminate") and record.get("EventStatus") != "Started":
        for node in record["Resources"]:
            yield Happened(_at_s(record["NotBefore"]), "lost", str(node))


_LOST = frozenset(
    {
        *("NodeNotReady", "RemovingNode", "DeletingNode"),  # Kubernetes
        *("SpotInterrupted", "InstanceTerminating", "TerminatingOnInterruption"),  # Karpenter
        *("SpotInterruption", "PreemptScheduled"),  # AWS Node Termination Handler; AKS
    }
)
_CAME = frozenset({"NodeReady", "RegisteredNode"})


def _kubernetes(record: Record) -> Iterator[Happened]:
    of, reason = record.get("involvedObject") or record["regarding"], record["reason"]
    if of["kind"] in ("Node", "NodeClaim") and reason in _LOST | _CAME:
        named = (
            record.get(key) for key in ("eventTime", "lastTimestamp", "deprecatedLastTimestamp")
        )
        at = next(filter(None, named), None) or record["metadata"]["creationTimestamp"]
        yield Happened(_at_s(at), "lost" if reason in _LOST else "came", of["name"])


_ON_PURPOSE = frozenset({"EXPECTED_TERMINATION", "AUTOSCALER_DRAIN_IDLE"})


def _of_ray(record: Record) -> Iterator[Happened]:
    node = record["event_data"]
    states: dict[str, What] = {"ALIVE": "came", "DEAD": "lost"}
    if node["state"] in states and not node.get("is_head_node"):
        reason = node.get("death_info", {}).get("reason", "")
        if node["state"] == "ALIVE" or reason not in _ON_PURPOSE:
            yield Happened(_at_s(record["timestamp"]), states[node["state"]], node["node_id"])


def _of_gcs(record: Record) -> Iterator[Happened]:
    labels: dict[str, What] = {"RAY_NODE_ADDED": "came", "RAY_NODE_REMOVED": "lost"}
    if record["label"] in labels:
        node = record["custom_fields"]["node_id"]
        yield Happened(_at_s(record["timestamp"]), labels[record["label"]], node)


_KINDS = (
    Kind(
        "Ray's log of its GCS",
        lambda record: record.get("source_type") == "GCS" and "label" in record,
        _of_gcs,
        lambda record: str(record["label"]),
        "`timestamp`, and `custom_fields` with `node_id`",
    ),
    Kind(
        "EventBridge's events",
        lambda record: "detail-type" in record and "detail" in record,
        _eventbridge,
        lambda record: str(record["detail-type"]),
        "`time`, and `detail` with `instance-id`",
    ),
    Kind(
        "Google Cloud's audit log",
        lambda record: "methodName" in (record.get("protoPayload") or ()),
        _audited,
        lambda record: str(record["protoPayload"]["methodName"]),
        "`timestamp`, and `protoPayload` with `resourceName`",
    ),
    Kind(
        "Compute Engine's operations",
        lambda record: "operationType" in record and "targetLink" in record,
        _operated,
        lambda record: str(record["operationType"]),
        "`operationType`, `targetLink`, and `endTime` or `insertTime`",
    ),
    Kind(
        "Azure's scheduled events",
        lambda record: "EventType" in record and "Resources" in record,
        _scheduled,
        lambda record: str(record["EventType"]),
        "`Resources`, and `NotBefore`",
    ),
    Kind(
        "Kubernetes' events",
        lambda record: "reason" in record and ("involvedObject" in record or "regarding" in record),
        _kubernetes,
        lambda record: str(record["reason"]),
        "`involvedObject` with kind and name, and a time",
    ),
    Kind(
        "Ray's node events",
        lambda record: record.get("source_type") == "EXPORT_NODE",
        _of_ray,
        lambda record: str(record["source_type"]),
        "`timestamp`, and `event_data` with `node_id` and `state`",
    ),
)


# -- Slurm -------------------------------------------------------------------------------------

_SLURM_LOST = ("PREEMPTED", "NODE_FAIL", "REQUEUED")


def _slurm(name: str, lines: Sequence[str]) -> EventLog:
    """Read `sacct -D -P`: each start of a job is a row, and one that was preempted lost its nodes.

    A step has a point in its number, and no row here.
    """
    written = [(number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()]
    columns = written[0][1].split("|")
    happened, passed, held = list[Happened](), Counter[str](), Counter[str]()
    for number, line in written[1:]:
        row = dict(zip(columns, line.split("|"), strict=False))
        try:
            job, state = row["JobID"], row["State"].partition(" ")[0]
            if "." in job:
                continue
            count = int(row.get("NNodes") or row.get("AllocNodes") or 1)
            ends = _at_s(row["End"]) if state in _SLURM_LOST else 0.0
            starts = _at_s(row["Start"]) if row["Start"][:1].isdigit() else None
        except (KeyError, TypeError, ValueError) as error:
            problem = f"a row of sacct that cannot be read ({type(error).__name__}: {error})"
            hint = (
                "It needs JobID, State, Start and End: sacct -D -P -o JobID,State,Start,End,NNodes."
            )
            raise UsageError(problem, hint, place=f"{name}:{number}") from None
        held[job] = max(held[job], count)
        nodes = [f"{job}/{node}" for node in range(count)]
        if starts is not None:
            happened += [Happened(starts, "came", node) for node in nodes]
        if state in _SLURM_LOST:
            happened += [Happened(ends, "lost", node) for node in nodes]
        else:
            passed[state] += 1
    # Before its first start no node was lost: the trace begins with the first job that runs.
    return EventLog(
        name, "sacct", tuple(sorted(happened)), dict(passed), max(held.values(), default=0)
    )
