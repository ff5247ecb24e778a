"""Static rules: settings that do not fit a job, its costs and its market."""

from collections.abc import Collection

from chaos.errors import UsageError
from chaos.preflight.question import Question
from chaos.preflight.rules import losses, restarts, saving, waiting  # noqa: F401 - they add rules
from chaos.preflight.rules.rule import RULES, Predictions, RuleFinding
from chaos.scenario_file.messages import find_nearest

__all__ = ["RULES", "findings", "refuse_unknown"]


def findings(
    question: Question, predictions: Predictions | None = None, *, ignore: Collection[str] = ()
) -> tuple[RuleFinding, ...]:
    """Return the findings of the rules, gravest first; raises `UsageError` for an unknown id."""
    refuse_unknown(ignore)
    order = ("stops", "costs", "advice")
    rule_findings = [
        RuleFinding(rule.id, rule.weight, text, rule.reason, rule.source)
        for rule in RULES
        if rule.id not in ignore and (text := rule.find(question, predictions)) is not None
    ]
    return tuple(sorted(rule_findings, key=lambda finding: order.index(finding.weight)))


def refuse_unknown(ids: Collection[str]) -> None:
    """Raise `UsageError` if an id is no rule's."""
    names = [rule.id for rule in RULES]
    for name in ids:
        if name not in names:
            near = find_nearest(name, [rule_name.replace("-", "_") for rule_name in names])
            hint = (
                f"Did you mean {near}?".replace("_", "-")
                if near
                else "See `chaos preflight --list`."
            )
            raise UsageError(f"there is no rule '{name}'", hint)
