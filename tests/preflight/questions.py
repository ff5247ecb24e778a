"""Questions in one line, in which a second of training is a step."""

from typing import Any

from chaos.preflight.market import Exponential, Market
from chaos.preflight.question import Costs, JobShape, Question, RaySettings, changed


def memoryless(
    *,
    loss_every_s: float,
    save_s: int = 10,
    restart_s: int = 180,
    every: int = 400,
    commits: int = 200,
    nodes: int = 4,
    **values: Any,
) -> Question:
    """Return the job of Daly's equation: memoryless losses, replaced at once, retries for ever."""
    question = Question(
        preflight="a job in a test",
        job=JobShape(nodes=nodes, steps=every * commits, checkpoint_every_steps=every),
        settings=RaySettings(max_failures=-1),
        costs=Costs(step_s=1.0, save_s=save_s, schedule_s=restart_s),
        market=Market(lifetime=Exponential(mtbf_h=loss_every_s * nodes / 3600)),
    )
    places = {name.replace("__", "."): value for name, value in values.items()}
    return changed(question, places)
