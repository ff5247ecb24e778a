"""Sentences of findings about retries: charges to the retry budgets, and attempts."""

from chaos.check.kinds.budgets import (
    ChargedTwice,
    ChargeWithoutFault,
    ControllerFailed,
    FaultNotCharged,
    GaveUpEarly,
    RetryLimitExceeded,
    TooFewAttempts,
    TooManyAttempts,
    WrongBudgetCharged,
    WrongChargeCount,
    WrongWorkerCount,
)
from chaos.check.prose.registry import describes
from chaos.model.launcher_facts import LauncherWords
from chaos.wording import plural

# -- retry-budget ----------------------------------------------------------------------------------


@describes(
    RetryLimitExceeded,
    usual_cause="Not known: look at which failures the launcher counts.",
    remedy="Report it to its project; until then, count attempts in the script.",
)
def _describe_retry_limit_exceeded(facts: RetryLimitExceeded, terms: LauncherWords) -> str:
    return (
        f"{_describe_charges(facts)} allows {facts.limit}, and {terms.name} tried again after "
        f"attempt {facts.attempt}"
    )


@describes(
    GaveUpEarly,
    usual_cause="The launcher does not retry such an error, or failed itself.",
    remedy="If a new start mends it, let a scheduler or a loop start the script again.",
)
def _describe_gave_up_early(facts: GaveUpEarly, terms: LauncherWords) -> str:
    limit_text = "is without limit" if facts.limit is None else f"allows {facts.limit}"
    return (
        f"{_describe_charges(facts)} {limit_text}, and {terms.name} gave up after attempt "
        f"{facts.attempt}: {facts.error}"
    )


def _describe_charges(facts: RetryLimitExceeded | GaveUpEarly) -> str:
    """Return, as the beginning of a sentence, what was charged and the setting that limits it."""
    charge_text = plural(facts.charged_count, facts.budget.removesuffix("s"))
    return f"{charge_text} charged, `{facts.setting}`"


@describes(
    ControllerFailed,
    usual_cause="The workers could not be started, or a callback of yours raised.",
    remedy="Look at the error, and at whether the cluster has the resources.",
)
def _describe_controller_failed(facts: ControllerFailed, terms: LauncherWords) -> str:
    return f"{terms.controller} itself failed in attempt {facts.attempt}: {facts.error}"


@describes(
    WrongBudgetCharged,
    usual_cause="A notice comes too late for the launcher, or a crash falls into a notice.",
    remedy=(
        "Let both limits allow for the losses that you expect, and report it to the launcher's"
        " project."
    ),
)
def _describe_wrong_budget_charged(facts: WrongBudgetCharged, terms: LauncherWords) -> str:
    cause_text = "a preemption" if facts.budget == "preemptions" else "a failure"
    return (
        f"attempt {facts.attempt} ended by {cause_text}, and {terms.name} charged it to "
        f"{facts.charged_setting} instead of {facts.setting}: {facts.error}"
    )


@describes(
    ChargeWithoutFault,
    usual_cause="The job does not start again cleanly, or fails now and then by itself.",
    remedy="Mend what raises the error; else it uses up your retries.",
)
def _describe_charge_without_fault(facts: ChargeWithoutFault, _: LauncherWords) -> str:
    return f"{_describe_charge(facts)} though no fault hit it: {facts.error}"


@describes(
    ChargedTwice,
    usual_cause="The launcher counts two workers of one attempt as two failures.",
    remedy="Allow for it in the limit, and report it to the launcher's project.",
)
def _describe_charged_twice(facts: ChargedTwice, _: LauncherWords) -> str:
    return f"{_describe_charge(facts)} a second time: {facts.error}"


def _describe_charge(facts: ChargeWithoutFault | ChargedTwice) -> str:
    if facts.setting is None:
        return f"attempt {facts.attempt} of the command ended"
    return f"attempt {facts.attempt} was charged to {facts.setting}"


@describes(
    FaultNotCharged,
    usual_cause="The script catches the error of the lost worker, or restarts workers by itself.",
    remedy="Let the error reach the launcher, or limit your own retries.",
)
def _describe_fault_not_charged(facts: FaultNotCharged, terms: LauncherWords) -> str:
    return f"a fault ended attempt {facts.attempt}, and {terms.name} charged it to no budget"


@describes(
    WrongChargeCount,
    usual_cause=(
        "The job failed more often than faults were injected, or the expected number is wrong."
    ),
    remedy="Mend the failures that no fault explains, or correct `expect.charges`.",
)
def _describe_wrong_charge_count(facts: WrongChargeCount, _: LauncherWords) -> str:
    return f"{plural(facts.count, 'charge')} to {facts.setting}, {facts.expected_count} expected"


# -- attempts --------------------------------------------------------------------------------------


def describe_attempt_count(count: int, expected_count: int) -> str:
    """Return in words that there were more or fewer attempts than expected."""
    return f"{plural(count, 'attempt')} instead of {expected_count}"


@describes(
    TooManyAttempts,
    usual_cause="An attempt failed by itself, often over a port, a lock or a half-written file.",
    remedy="Look at how the attempt before ended, and mend what raised the error.",
)
def _describe_too_many_attempts(facts: TooManyAttempts, _: LauncherWords) -> str:
    text = describe_attempt_count(facts.count, facts.expected_count)
    if facts.attempt is None:
        return text
    error_text = "" if facts.error is None else f": {facts.error}"
    return (
        f"{text}: nothing was done to attempt {facts.previous_attempt}, and attempt "
        f"{facts.attempt} followed it{error_text}"
    )


@describes(
    TooFewAttempts,
    usual_cause=(
        "Retries are used up or off, or the script ended before workers could start again."
    ),
    remedy=(
        "Set the retries (`max_failures`, `--max-restarts`), and let workers' errors reach the"
        " launcher."
    ),
)
def _describe_too_few_attempts(facts: TooFewAttempts, _: LauncherWords) -> str:
    text = describe_attempt_count(facts.count, facts.expected_count)
    if facts.attempt is None:
        return text
    return f"{text}: a fault ended attempt {facts.attempt}, and none followed it"


@describes(
    WrongWorkerCount,
    usual_cause="The job went on with fewer workers, or counts the nodes when it starts.",
    remedy="Ask for a fixed number, or make the job elastic and adapt the batch size.",
)
def _describe_wrong_worker_count(facts: WrongWorkerCount, _: LauncherWords) -> str:
    expectation = (
        f"from {facts.min_count} to {facts.max_count} were asked for"
        if facts.min_count < facts.max_count
        else f"{facts.max_count} were asked for, and the job does not say that it is elastic"
    )
    return f"attempt {facts.attempt} had {plural(facts.count, 'worker')}; {expectation}"
