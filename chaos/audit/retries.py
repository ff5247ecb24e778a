"""The retries of a job as it is configured, seen after one fault.

The first fault of an audit comes under the script's own settings. Either Ray Train begins again,
or the script calls `fit()` again by itself, or nothing does: then the first lost worker ends the
job, whatever its resumes come to. `--retries` names the number that production has instead. With
`--restart command` the script's command is started once more, and nothing is to be found out.
"""

import shlex
from typing import Literal, Self, TypeAlias

from chaos.check.ending import find_ending
from chaos.model.event import FitCalled, WorkerGroupStarted
from chaos.record import Record
from chaos.report.outcome import FinishedRun
from chaos.wording import plural

Source: TypeAlias = Literal[
    "settings", "script", "nothing", "asked", "assumed", "command", "queue", "unknown"
]
SETTINGS = "settings"  # the name of the finding
# The faults of a run that are tried on a script that calls `fit()` again: no place has more.
TRIED = 3


class Retries(Record):
    """The means by which a job begins again after a failure."""

    #: Ray Train by its `max_failures`, the script by calling `fit()` again, nothing, or what
    #: `--retries` says. `assumed`: torchrun's command line has them, and no script. `command`: the
    #: script's command is started once more. `queue`: a job is put back into its queue, as often as
    #: it takes, and not if it failed. `unknown`: no fault could be injected to see it
    source: Source
    #: the failures after which it begins again; of a script, those that were seen
    count: int = 0
    #: the run names of a script's calls whose retry began anew although there was a checkpoint
    names: tuple[str, ...] = ()
    #: of a command that is started once more, the arguments that it has then, without secrets
    words: tuple[str, ...] = ()
    #: it has them once its first save is there: before that, nothing is there to read
    waits_for_save: bool = False
    #: of such a command, the retries that Ray Train has before, by the script's own setting
    before: int = 0

    @property
    def label(self) -> str:
        """The name of the note."""
        return "restart" if self.source == "command" else "retries"

    @property
    def is_finding(self) -> bool:
        """Whether no lost worker is resumed as the job is configured."""
        return self.source == "nothing" or bool(self.names)

    @property
    def sentence(self) -> str:
        if self.names:
            names = " and ".join(dict.fromkeys(self.names))
            return (
                "`max_failures` is 0, Ray Train's default, and the script's own retry, which calls "
                f"fit() again, began anew: its run names were {names}, and Ray Train finds "
                "checkpoints by the name"
            )
        return "the first lost worker ends this job: `max_failures` is 0, Ray Train's default"

    @property
    def fix(self) -> str:
        """The line to write, and the option that names what production has."""
        line = "RunConfig(failure_config=FailureConfig(max_failures=3))"
        if self.names:
            return f"one run name for all calls of fit(), or {line} in place of them"
        return (
            f"{line}; --retries N names the retries that production has in its place, and "
            "--restart command that it starts the command again"
        )

    @property
    def note(self) -> str | None:
        """A line on retries that are no setting of Ray Train's; None if there is none."""
        if self.source == "script":
            fault_text = plural(self.count, "fault") + (" or more" if self.count >= TRIED else "")
            return (
                f"`max_failures` is 0, and the script calls fit() again by itself (seen after "
                f"{fault_text}): each call is the next attempt"
            )
        count_text = f"{self.count}, by --retries, or as many as the faults of a run take"
        if self.source == "command":
            arguments = f", with `{shlex.join(self.words)}`" if self.words else ""
            arguments += " once its first save is there" if self.waits_for_save else ""
            frequency = count_text if self.count else "as often as the faults take"
            ray_retries = (
                f"; before it, Ray Train's own retries ({self.before})" if self.before else ""
            )
            return f"the same command again{arguments}: {frequency}{ray_retries}"
        if self.source == "asked":
            return count_text
        if self.source == "queue":
            return (
                "Slurm's own: a job that was preempted, requeued or lost its node is started again "
                "as its script allows, one that failed is not; so no worker alone is killed"
            )
        if self.source == "assumed":
            return (
                "as many as the faults take: torchrun's --max-restarts, 0 where it is left out; "
                "--retries N names production's"
            )
        return None

    @classmethod
    def from_run(cls, run: FinishedRun, *, faults: int) -> Self:
        """Return what a run with so many faults under the script's own retries shows."""
        history = run.history
        end, fit_calls = (
            find_ending(history),
            [event for _, event in history.select_events(FitCalled)],
        )
        landed_count = sum(injection.has_effect for injection in run.analysis.injections)
        if not end.has_run_end or end.deadline is not None or not landed_count:
            return cls(source="unknown")
        if len(fit_calls) > 1:
            names = tuple(call.original_settings.get("name", call.run_name) for call in fit_calls)
            count = min(len(fit_calls) - 1, faults)
            return cls(source="script", count=count, names=names if _began_anew(run) else ())
        has_restarted = history.count(WorkerGroupStarted) > 1
        return cls(source="settings" if has_restarted else "nothing")


def _began_anew(run: FinishedRun) -> bool:
    """Return whether no restart went on from a checkpoint, and that is a defect of the run."""
    broken = {result.check for result in run.verdict.broken}
    return run.verdict.restarts.resumed == 0 and "resume-point" in broken
