"""From a file that the user has to a trace; the format is told by its looks."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

from chaos.errors import UsageError
from chaos.preflight.resemblance import KNOWN, resembled
from chaos.preflight.trace import Trace
from chaos.preflight.trace_formats import TraceError, bamboo_events, count_series, parcae, skypilot
from chaos.scenario_file.yaml_lines import read_text

TRACE_BYTES = 8 << 20  # a count for every minute of five years, and more events than any market has
TABLE_BYTES = 64 << 20  # of all regions and types
SPAN_MAX_S = 5 * 365.25 * 86_400
SPAN_SHORT_S = 300.0
MONTH_H = 730.0
_BUCKETS = ((0.0, 0.05), (0.05, 0.10), (0.10, 0.15), (0.15, 0.20), (0.20, 0.50))


def read_trace(path: Path) -> Trace:
    """Read a trace; raises `UsageError` that says which formats a wrong file resembles."""
    text = read_text(path, "trace", most=TRACE_BYTES, hint=KNOWN)
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        raise TraceError(str(path), 1, "the trace is empty", KNOWN)
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
        raise TraceError(name, 1, problem, resembled(first))
    if len(trace.changes) < 2:  # noqa: PLR2004
        problem = "nothing ever changes in it, so no loss can be learnt"
        raise TraceError(name, len(every), problem, "Give a longer trace, or a --market by name.")
    return _sensible(trace, last=len(every))


def _sensible(trace: Trace, *, last: int) -> Trace:
    """Refuse a span that no trace has, and say of a very short one what that may mean."""
    if trace.span_s > SPAN_MAX_S:
        years = trace.span_s / (365.25 * 86_400)
        problem = f"the trace spans {years:.3g} years"
        hint = "Are its times in the right unit? Events are in milliseconds, gap_seconds in s."
        raise TraceError(trace.name, last, problem, hint)
    if trace.span_s >= SPAN_SHORT_S or trace.format not in ("Bamboo events", "Parcae"):
        return trace
    note = (
        f"the trace spans {trace.span_s:.3g} s only: if its times are seconds, they were read "
        "as milliseconds"
    )
    return replace(trace, repairs=(*trace.repairs, note))


def _json(name: str, text: str) -> Trace:
    try:
        value = json.loads(text)
    except RecursionError:
        raise TraceError(name, 1, "this JSON is nested too deeply", KNOWN) from None
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        raise TraceError(name, line, f"this is not JSON: {error}", resembled("{")) from None
    if "spot_advisor" in value:
        problem = "this is AWS Spot Advisor's table, not a trace"
        hint = "Give it with --advisor FILE:REGION:TYPE."
        raise TraceError(name, 1, problem, hint)
    if "data" not in value:
        raise TraceError(name, 1, "this JSON is no trace that chaos knows", KNOWN)
    return _sensible(skypilot(name, text), last=1)


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
        table = json.loads(read_text(path, "table", most=TABLE_BYTES))["spot_advisor"]
        row = table[region][system][type_]
        low, high = _BUCKETS[int(row["r"])]
        return Advised(region, type_, low, high, float(row["s"]) / 100)
    except (ValueError, TypeError, IndexError, RecursionError) as error:
        raise UsageError(f"not a Spot Advisor table: {error}", place=str(path)) from None
    except KeyError as error:
        problem = f"the table has no {error.args[0]}"
        raise UsageError(
            problem, "Give region and type as they stand in it.", place=str(path)
        ) from None
