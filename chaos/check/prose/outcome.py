"""Sentences of findings about the end of a run."""

from chaos.check.kinds.outcome import (
    EndedEarly,
    ExpectedErrorMissing,
    FailedOutsideTraining,
    NoCheckpointReturned,
    NothingTrained,
    OlderCheckpointReturned,
    TrainingFailed,
    WrongMetricsReturned,
)
from chaos.check.prose.registry import describes
from chaos.model.launcher_facts import LauncherWords
from chaos.wording import extract_last_line


@describes(
    FailedOutsideTraining,
    usual_cause="Code before or after training fails as it runs a second time.",
    remedy="Let the script start again with all that an earlier start has left.",
)
def _describe_failed_outside_training(facts: FailedOutsideTraining, terms: LauncherWords) -> str:
    return (
        f"the script failed outside {terms.call}: {facts.error}: "
        f"{extract_last_line(facts.error_text)}"
    )


@describes(
    TrainingFailed,
    usual_cause="The job raises as it starts again, or its retries are used up.",
    remedy="If the last error is the injected one, allow more retries; else mend what raises it.",
)
def _describe_training_failed(facts: TrainingFailed, terms: LauncherWords) -> str:
    return f"{terms.describe_failure(facts.error)}: {extract_last_line(facts.error_text)}"


@describes(
    EndedEarly,
    usual_cause="The script calls `sys.exit` or `os._exit`, or the system ended it.",
    remedy="Look at the exit code and the log; let the script wait for training to end.",
)
def _describe_ended_early(facts: EndedEarly, terms: LauncherWords) -> str:
    verb = "returned" if facts.expected == "return" else "raised"
    return f"{terms.driver} ended with code {facts.exit_code} before {terms.call} {verb}"


@describes(
    NothingTrained,
    usual_cause="The run resumed one of the same name after its end, or the loop had no data.",
    remedy="Give each new run a name of its own, or remove the old results.",
)
def _describe_nothing_trained(_facts: NothingTrained, terms: LauncherWords) -> str:
    return f"{terms.call} returned, and not one step was trained"


@describes(
    WrongMetricsReturned,
    usual_cause="The result holds what an earlier attempt or checkpoint reported.",
    remedy="Report the final metrics again after a restart that had nothing left to train.",
)
def _describe_wrong_metrics_returned(facts: WrongMetricsReturned, _: LauncherWords) -> str:
    expected_report = (
        "no report was committed"
        if facts.epoch is None
        else f"the last report, of epoch {facts.epoch}"
    )
    return f"fit() returned metrics that are not those of {expected_report}: {facts.metrics}"


@describes(
    NoCheckpointReturned,
    usual_cause="The last attempt reported none, and earlier ones were forgotten.",
    remedy=(
        "Give the run the same name and storage path, and report a checkpoint with the last epoch."
    ),
)
def _describe_no_checkpoint_returned(_facts: NoCheckpointReturned, _: LauncherWords) -> str:
    return "fit() returned no checkpoint, and the baseline's did"


@describes(
    OlderCheckpointReturned,
    usual_cause="The result's checkpoint is chosen by score, or a restart lost the order.",
    remedy="Choose the checkpoint by the epoch that it holds.",
)
def _describe_older_checkpoint_returned(facts: OlderCheckpointReturned, _: LauncherWords) -> str:
    return (
        f"fit() returned {facts.checkpoint}, and the newest checkpoint is {facts.newest}, of epoch "
        f"{facts.epoch}"
    )


@describes(
    ExpectedErrorMissing,
    usual_cause="The script catches the error, or the launcher had retries left.",
    remedy="Let an error that ends training end the script; check the number of retries.",
)
def _describe_expected_error_missing(_facts: ExpectedErrorMissing, terms: LauncherWords) -> str:
    return f"{terms.call} returned, and was expected to raise"
