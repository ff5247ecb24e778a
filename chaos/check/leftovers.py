"""Did the run clean up after itself?"""

from collections import Counter

from chaos.check.result import conclude, plural, unknown
from chaos.check.trial import Trial
from chaos.model.event import Leftover, LeftoversSearched
from chaos.model.verdict import Anomaly, CheckResult

NAME = "leftovers"

_GONE_FOR_GOOD = {
    "process": "a process",
    "placement_group": "a placement group",
    "actor": "an actor",
}


def check(trial: Trial) -> CheckResult:
    """Require that no process, placement group or actor of the run outlives it.

    The promise that nothing leaks. A process is the run's own by descent, or
    by a token in the environment that it inherited, whatever session or
    process group a child made for itself. A port is not looked for: it lives
    with its process, and what still holds one (ray-project/ray#35907: after a
    restart) is found as that. One unregistered checkpoint directory per
    landed fault is Ray's known behaviour (2.60: files are uploaded before
    the report is recorded, and a report that a fault cuts off is forgotten,
    its files are not), and two where a fault came by the clock; more are not.
    A run that we ended ourselves, hung or
    interrupted, had no chance to clean up.
    """
    ended = trial.run.ending
    if ended.deadline is not None or (ended.ended is not None and ended.ended[1].interrupted):
        return unknown(NAME, "the run was ended by us, before it could clean up")
    left = list(trial.history.of(Leftover))
    searched = [search for _, search in trial.history.of(LeftoversSearched)]
    anomalies = [
        Anomaly(message=f"{_GONE_FOR_GOOD[what.kind]} outlived the run: {what.what}", events=(n,))
        for n, what in left
        if what.kind in _GONE_FOR_GOOD
    ]
    directories = [(n, what) for n, what in left if what.kind == "checkpoint_directory"]
    landed = sum(
        max(len(strike.hits), strike.landed or strike.is_in_doubt) for strike in trial.strikes
    )
    # By the clock, one report may wait for the controller's poll while the next is uploaded.
    late = sum(strike.landed and not strike.is_exact for strike in trial.strikes)
    if len(directories) > landed + late:
        anomalies.append(
            Anomaly(
                message=f"{_directories(len(directories))} that no report registered, "
                f"after {plural(landed, 'fault')}: {directories[-1][1].what}",
                events=tuple(n for n, _ in directories),
            )
        )
    counts = Counter(what.kind for _, what in left)
    places = dict.fromkeys(place for search in searched for place in search.places)
    return conclude(
        NAME,
        anomalies=anomalies,
        doubts=() if searched else ("nobody looked for what the run left behind",),
        evidence=len(searched),
        summary=f"nothing of the run was left in {', '.join(places) or 'the places searched'}",
        measures={f"left_{kind}": count for kind, count in sorted(counts.items())},
    )


def _directories(count: int) -> str:
    return plural(count, "checkpoint directory", "checkpoint directories")
