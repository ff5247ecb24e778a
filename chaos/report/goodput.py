"""Goodput as rows: the run beside its baseline, and by attempt."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from chaos.check.analysis import RunAnalysis
from chaos.check.goodput import PHASES, Phase, TimeLedger, build_ledger, describe_phase, get_ledger
from chaos.model.launcher_facts import LauncherWords
from chaos.report.page import SHORT_NS

ATTEMPTS_SHOWN = 12

COLORS: Mapping[Phase, str] = {
    "productive": "var(--productive)",
    "checkpoint": "var(--checkpoint)",
    "replay": "var(--lost)",
    "detect": "var(--detect)",
    "teardown": "var(--teardown)",
    "schedule": "var(--schedule)",
    "start": "var(--start)",
    "restore": "var(--restore)",
    "other": "var(--other)",
}


@dataclass(frozen=True)
class PhaseRow:
    """One phase: its name, and its time in all, in each attempt and in the baseline."""

    phase: Phase
    color: str
    meaning: str
    seconds: str
    share: str
    baseline: str
    by_attempt: tuple[str, ...]


@dataclass(frozen=True)
class Goodput:
    """The ledger for a page."""

    sentence: str
    wall: str
    baseline_wall: str
    #: those with a column of their own
    attempts: tuple[int, ...]
    #: the number of the others
    hidden: int
    rows: tuple[PhaseRow, ...]
    is_short: bool = False


def build_goodput(analysis: RunAnalysis) -> Goodput | None:
    """Return the time of a run by phase; None if no time was recorded."""
    run_ledger = get_ledger(analysis)
    if not run_ledger.wall_ns:
        return None
    baseline_ledger = build_ledger(analysis.reference) if analysis.reference else None
    shown_attempts = run_ledger.attempts[:ATTEMPTS_SHOWN]
    return Goodput(
        sentence=describe_goodput(run_ledger, baseline_ledger),
        wall=_format_seconds(run_ledger.wall_ns / 1e9),
        baseline_wall=""
        if baseline_ledger is None
        else _format_seconds(baseline_ledger.wall_ns / 1e9),
        attempts=shown_attempts,
        hidden=len(run_ledger.attempts) - len(shown_attempts),
        rows=build_goodput_rows(
            run_ledger, baseline_ledger, shown_attempts, analysis.launcher_words
        ),
        is_short=run_ledger.wall_ns < SHORT_NS,
    )


def describe_goodput(run_ledger: TimeLedger, baseline_ledger: TimeLedger | None) -> str:
    """Return in words the goodput, the baseline's, and the phases with most of the rest."""
    assert run_ledger.goodput is not None
    baseline_goodput = baseline_ledger.goodput if baseline_ledger else None
    baseline_text = "" if baseline_goodput is None else f" (the baseline: {baseline_goodput:.0%})"
    unproductive_s = {
        phase: s for phase, s in run_ledger.sum_seconds().items() if phase != "productive" and s > 0
    }
    longest_phases = sorted(unproductive_s, key=lambda phase: -unproductive_s[phase])[:3]
    phases_text = ", ".join(
        f"{phase} {_format_seconds(unproductive_s[phase])}" for phase in longest_phases
    )
    tail = f"; most of the rest: {phases_text}" if phases_text else ""
    return (
        f"{run_ledger.goodput:.0%} of {_format_seconds(run_ledger.wall_ns / 1e9)} was "
        f"productive{baseline_text}{tail}."
    )


def build_goodput_rows(
    run_ledger: TimeLedger,
    baseline_ledger: TimeLedger | None,
    attempts: Sequence[int],
    terms: LauncherWords,
) -> tuple[PhaseRow, ...]:
    """Return a row per phase that took any time, here or in the baseline."""
    seconds = run_ledger.sum_seconds()
    baseline_seconds = baseline_ledger.sum_seconds() if baseline_ledger else {}
    by_attempt = [run_ledger.sum_seconds(attempt=attempt) for attempt in attempts]
    return tuple(
        PhaseRow(
            phase=phase,
            color=COLORS[phase],
            meaning=describe_phase(phase, terms),
            seconds=_format_seconds(seconds[phase]),
            share=f"{seconds[phase] * 1e9 / run_ledger.wall_ns:.1%}",
            baseline=_format_seconds(baseline_seconds[phase]) if baseline_seconds else "",
            by_attempt=tuple(
                _format_seconds(attempt_seconds[phase]) for attempt_seconds in by_attempt
            ),
        )
        for phase in PHASES
        if seconds[phase] or baseline_seconds.get(phase)
    )


def _format_seconds(value: float) -> str:
    return f"{value:.2f} s"
