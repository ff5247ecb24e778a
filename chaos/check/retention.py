"""Were the right checkpoints kept, and only old ones removed?"""

from collections.abc import Iterator, Sequence
from typing import Any

from chaos.check.attempt import Commit
from chaos.check.result import conclude, nothing_due, plural, unknown
from chaos.check.stored import kept_at_the_end, stored
from chaos.check.trial import Trial
from chaos.check.values import flat, number
from chaos.model.event import CheckpointDeleted, Committed, FitCalled
from chaos.model.history import History
from chaos.model.verdict import Anomaly, CheckResult

NAME = "retention"


def check(trial: Trial) -> CheckResult:
    """Require that the newest commit is never removed before a newer one is there.

    The promise of retention. As many are left as `num_to_keep` says (one more
    where a score chooses: Ray 2.60 keeps the latest besides the best), and
    the best by its score is among them. Retention by score and resume by age
    disagreed in ray-project/ray#9036; a resume removed its own source in
    Lightning-AI/pytorch-lightning#11379. Without `num_to_keep` nothing is
    removed.
    """
    commits = [c for c in stored(trial.run).commits if c.checkpoint is not None]
    called = next((event for _, event in trial.history.of(FitCalled)), None)
    gone = list(trial.history.of(CheckpointDeleted))
    kept = kept_at_the_end(trial.run)
    if not commits:
        return nothing_due(NAME, "no checkpoint was committed")
    if kept is None and not gone:
        looked = trial.reference is not None and kept_at_the_end(trial.reference) is not None
        if looked:
            return unknown(NAME, "what was kept at the end was not seen")
        return nothing_due(NAME, "what storage holds was not watched, and nothing was removed")
    settings = {} if called is None else called.settings
    anomalies = list(_removed(trial, commits, gone, settings))
    if kept is not None:
        anomalies += _left(trial, commits, kept, settings)
    left = "" if kept is None else f", {len(kept[1])} left at the end"
    return conclude(
        NAME,
        anomalies=anomalies,
        evidence=len(gone) + (kept is not None),
        summary=f"{plural(len(commits), 'checkpoint')} committed, {len(gone)} removed{left}",
    )


def _removed(
    trial: Trial,
    commits: Sequence[Commit],
    gone: Sequence[tuple[int, CheckpointDeleted]],
    settings: dict[str, Any],
) -> Iterator[Anomaly]:
    for at, deleted in gone:
        there = [c for c in commits if c.number < at]
        followed = _is_followed(trial.history, at, is_over=trial.run.ending.is_over)
        if "num_to_keep" in settings and settings["num_to_keep"] is None:
            yield Anomaly(
                message=f"{deleted.checkpoint} was removed, although all are to be kept",
                events=(at,),
            )
        elif there and there[-1].checkpoint == deleted.checkpoint and not followed:
            yield Anomaly(
                message=f"{deleted.checkpoint} (epoch {there[-1].epoch}) was removed while it was "
                "the newest that was committed",
                events=(there[-1].number, at),
            )


def _is_followed(history: History, at: int, *, is_over: bool) -> bool:
    """Say whether the next that the controller wrote down is a newer commit.

    Ray 2.60 removes what a new checkpoint replaces while it records it. In a
    history that is cut short the commit may be what is missing.
    """
    source = history[at].source
    for entry in history.entries[at + 1 :]:
        if entry.source == source and not isinstance(entry.what, CheckpointDeleted):
            return isinstance(entry.what, Committed) and entry.what.checkpoint is not None
    return not is_over


def _left(
    trial: Trial,
    commits: Sequence[Commit],
    kept: tuple[int, Any],
    settings: dict[str, Any],
) -> Iterator[Anomaly]:
    at, names = kept
    limit, score = settings.get("num_to_keep"), settings.get("checkpoint_score_attribute")
    if limit is not None and len(names) > limit + (score is not None):
        yield Anomaly(
            message=f"{plural(len(names), 'checkpoint')} were left, {limit} were to be kept",
            events=(at,),
        )
    newest = commits[-1]
    if newest.checkpoint not in names:
        yield Anomaly(
            message=f"{newest.checkpoint} (epoch {newest.epoch}), the newest, was not left",
            events=(newest.number, at),
        )
    best = _best(commits, score, _order(trial, settings))
    if best is not None and best.checkpoint not in names:
        yield Anomaly(
            message=f"{best.checkpoint} (epoch {best.epoch}), the best by `{score}`, was not left",
            events=(best.number, at),
        )


def _order(trial: Trial, settings: dict[str, Any]) -> str | None:
    retention = trial.plan.job.checkpoint
    if retention is not None:
        return retention.checkpoint_score_order
    order: str | None = settings.get("checkpoint_score_order")
    return order


def _best(commits: Sequence[Commit], score: str | None, order: str | None) -> Commit | None:
    """Give the only best commit, None where several are or it cannot be told."""
    if score is None or order is None:
        return None
    scored = []
    for commit in commits:
        record = dict(flat(commit.metrics[0])) if commit.metrics else {}
        value = number(record.get(score.replace("/", ".")))
        if value is not None and value == value:  # noqa: PLR0124 (NaN has no rank)
            scored.append((value if order == "max" else -value, commit))
    top = max((value for value, _ in scored), default=None)
    best = [commit for value, commit in scored if value == top]
    return best[0] if len(best) == 1 else None
