"""Do the files of a run belong together, and is each of them whole?

By hand one file is soon put in the place of another, and a line is soon lost.
What is judged by such files is unknown, whatever they show. Files of a chaos
that wrote no tokens are taken as they are, but for what they say themselves.
"""

from collections.abc import Iterator

from chaos.check.trial import Trial
from chaos.model.event import FaultInvoked, RunEnded, RunStarted, StorageFaulted
from chaos.model.history import HISTORY, Baseline, History, repeat_name
from chaos.model.plan import Plan


def mixed_up(trial: Trial) -> Iterator[str]:
    """Name the files that are not this run's, or lack something."""
    plan = trial.plan
    yield from _of_another_run(plan, trial.history)
    yield from _holes(HISTORY, trial.history)
    clean = _clean(trial.baseline)
    for number, run in enumerate(clean, start=1):
        name = repeat_name(number)
        yield from _no_baseline_of(plan, number, run)
        yield from _holes(name, run)
    for number in range(len(clean) + 1, len(plan.baselines) + 1):
        yield f"{repeat_name(number)} is missing, by which this run was judged"


def _clean(baseline: History | None) -> tuple[History, ...]:
    if isinstance(baseline, Baseline):
        return baseline.runs
    return () if baseline is None else (baseline,)


def _of_another_run(plan: Plan, history: History) -> Iterator[str]:
    if plan.token is not None and history.tokens:
        others = [s for token, s in history.tokens.items() if token != plan.token]
        for source in sorted(set().union(*others)):
            yield f"{HISTORY}: its journal {source} is of another run than plan.json"
        for _, started in history.of(RunStarted):
            if not others and plan.digest and started.plan not in {None, plan.digest}:
                yield "plan.json was changed after the run had begun"
        return
    for _, started in history.of(RunStarted):
        if (started.scenario, started.seed) != (plan.scenario, plan.seed):
            told = f"{started.scenario}, seed {started.seed}"
            yield f"{HISTORY} is of another run than plan.json: of {told}"


def _no_baseline_of(plan: Plan, number: int, run: History) -> Iterator[str]:
    name = repeat_name(number)
    due = plan.baselines[number - 1] if number <= len(plan.baselines) else ""
    if due and run.tokens and set(run.tokens) != {due}:
        yield f"{name} is another run than the one that this run was judged by"
    if run.numbers_of(FaultInvoked, StorageFaulted):
        yield f"{name} is no baseline: faults struck in it"
    ended = next((event for _, event in run.of(RunEnded)), None)
    if ended is None or ended.interrupted:
        yield f"{name} has no end: that run was broken off"


def _holes(name: str, history: History) -> Iterator[str]:
    for source, line in sorted(history.missing.items()):
        yield f"{name}: line {line + 1} of the journal {source} is missing, or there twice"
