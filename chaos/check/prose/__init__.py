"""The English of findings: a function per kind, and a row of the reference for each."""

from chaos.check.prose import (  # noqa: F401 (each registers the sentences of its kinds)
    artifacts,
    batch,
    budgets,
    checkpoints,
    epochs,
    metrics,
    outcome,
    processes,
    progress,
    resume,
    samples,
    saves,
    state,
    trajectory,
)
