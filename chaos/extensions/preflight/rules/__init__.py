"""Static rules: settings that do not fit a job, its costs and its market."""

from collections.abc import Collection

from chaos.extensions.preflight.question import Question
from chaos.extensions.preflight.rules import losses, restarts, saving, waiting  # noqa: F401 - they add rules
from chaos.extensions.preflight.rules.rule import RULES, Predictions, RuleFinding

__all__ = ["RULES", "findings"]


def findings(
    question: Question, predictions: Predictions | None = None, *, ignore: Collection[str] = ()
) -> tuple[RuleFinding, ...]:
    """Return the findings of the rules, gravest first."""
    order = ("stops", "costs", "advice")
    rule_findings = [
        RuleFinding(
            rule.id,
            rule.weight,
            text,
            rule.reason,
            rule.source,
            in_figures=predictions is None or rule.in_figures,
        )
        for rule in RULES
        if rule.id not in ignore and (text := rule.find(question, predictions)) is not None
    ]
    return tuple(sorted(rule_findings, key=lambda finding: order.index(finding.weight)))
