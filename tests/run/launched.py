"""A chaos controller whose first attempt has begun to train."""

from typing import Any

from chaos.model.plan import Plan
from chaos.run.controller import ChaosController
from chaos.run.journal import Journal


def launched(plan: Plan, world: Any, journal: Journal, **more: Any) -> ChaosController:
    controller = ChaosController(plan, world, journal, **more)
    controller.group_launched(0)
    return controller
