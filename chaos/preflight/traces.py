"""From a file that the user has to a trace; the format is told by its looks."""

import json
from dataclasses import dataclass
from pathlib import Path

from chaos.errors import UsageError
from chaos.preflight.trace import Trace
from chaos.preflight.trace_formats import TraceError, bamboo_events, count_series, parcae, skypilot

_SEEN = (
    "Known are Bamboo's events (`milliseconds,add,node1`) and count series "
    '(`2021-12-11, 11:11:30, 55`), Parcae\'s lines (`[0, "add", {"nodes": [...]}]`) and '
    'SkyPilot\'s JSON (`{"metadata": {"gap_seconds": 300}, "data": [4, 4, 3]}`).'
)
MONTH_H = 730.0
_BUCKETS = ((0.0, 0.05), (0.05, 0.10), (0.10, 0.15), (0.15, 0.20), (0.20, 0.50))


def read_trace(path: Path) -> Trace:
    """Read a trace; raises `UsageError` that says which formats a wrong file resembles."""
    text = _text(path)
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise UsageError("the trace is empty", _SEEN, place=str(path))
    name, first = str(path), lines[0].strip()
    if first.startswith("{"):
        return _json(name, text)
    every = text.splitlines()
    if first.startswith("["):
        trace = parcae(name, every)
    elif first[:4].isdigit() and first[4:5] == "-":
        trace = count_series(name, every)
    elif first.partition(",")[0].strip().lstrip("-").replace(".", "", 1).isdigit():
        trace = bamboo_events(name, every)
    else:
        problem = f"no known format of a trace begins with {first[:40]!r}"
        raise TraceError(name, 1, problem, _SEEN)
    if len(trace.changes) < 2:  # noqa: PLR2004
        raise UsageError("nothing ever changes in it, so no loss can be learnt", place=name)
    return trace


def _json(name: str, text: str) -> Trace:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise TraceError(name, getattr(error, "lineno", 1), f"this is not JSON: {error}") from None
    if "spot_advisor" in value:
        problem = "this is AWS Spot Advisor's table, not a trace"
        hint = "Give it with --advisor FILE:REGION:TYPE."
        raise TraceError(name, 1, problem, hint)
    if "data" not in value:
        raise TraceError(name, 1, "this JSON is no trace that chaos knows", _SEEN)
    return skypilot(name, text)


@dataclass(frozen=True)
class Advised:
    """AWS Spot Advisor on one type: interruptions per month, from-to, and the saving."""

    region: str
    type: str
    monthly_low: float
    monthly_high: float
    savings: float

    def mtbf_h(self) -> tuple[float, float]:
        """Give hours per node and interruption, read as a constant monthly hazard: worst, best."""
        worst = MONTH_H / self.monthly_high
        best = MONTH_H / self.monthly_low if self.monthly_low else float("inf")
        return worst, best


def read_advisor(path: Path, region: str, type_: str, *, system: str = "Linux") -> Advised:
    """Read one row of AWS Spot Advisor's JSON, from a file that the user has fetched."""
    try:
        table = json.loads(_text(path))["spot_advisor"]
        row = table[region][system][type_]
        low, high = _BUCKETS[int(row["r"])]
        return Advised(region, type_, low, high, float(row["s"]) / 100)
    except (ValueError, TypeError, IndexError) as error:
        raise UsageError(f"not a Spot Advisor table: {error}", place=str(path)) from None
    except KeyError as error:
        problem = f"the table has no {error.args[0]}"
        raise UsageError(
            problem, "Give region and type as they stand in it.", place=str(path)
        ) from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UsageError("this is not a text file", _SEEN, place=str(path)) from None
    except OSError as error:
        problem = f"the trace cannot be read: {error.strerror}"
        raise UsageError(problem, "Check the path.", place=str(path)) from None
