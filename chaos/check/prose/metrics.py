"""Sentences of findings about reported values: counters, and what chooses a model or stops."""

from chaos.check.kinds.metrics import ChoiceStateLost, OtherCheckpointsKept, WrongCounter
from chaos.check.prose.registry import describes
from chaos.model.launcher_facts import LauncherWords


@describes(
    WrongCounter,
    usual_cause="The logger or the loop keeps the counter, which begins anew.",
    remedy="Save the counter with the model, and set it after the load.",
)
def _describe_wrong_counter(facts: WrongCounter, _: LauncherWords) -> str:
    return (
        f"counter `{facts.counter}` {_describe_change(facts)} at the report of epoch "
        f"{facts.epoch}: {facts.value} instead of {facts.expected_value}"
    )


def _describe_change(facts: WrongCounter) -> str:
    if facts.previous_value is None or facts.value > facts.previous_value:
        return "jumps"
    return "stands still" if facts.value == facts.previous_value else "goes back"


@describes(
    ChoiceStateLost,
    usual_cause="The best value or the patience is in no checkpoint.",
    remedy="Save what the choice is made by with the model, and set it after the load.",
)
def _describe_choice_state_lost(facts: ChoiceStateLost, _: LauncherWords) -> str:
    return (
        f"`{facts.metric}` is {facts.value} at the report of epoch {facts.epoch}, "
        f"{facts.expected_value} in the baseline, while what it is chosen by is the same: its "
        "state did not come back"
    )


@describes(
    OtherCheckpointsKept,
    usual_cause="The list of the best checkpoints begins anew with the process.",
    remedy="Save the scores of the kept checkpoints, and read them at the start.",
)
def _describe_other_checkpoints_kept(facts: OtherCheckpointsKept, _: LauncherWords) -> str:
    return (
        f"the checkpoints of epochs {list(facts.epochs)} were kept, in the baseline those of "
        f"{list(facts.expected_epochs)}"
    )
