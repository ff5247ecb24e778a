"""The values of a question that a piece of code reads."""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from chaos.extensions.preflight.market import LossNotice, Market
from chaos.extensions.preflight.question import Costs, Goal, JobShape
from chaos.extensions.preflight.settings import RaySettings, TorchrunSettings

_RECORDS = {
    RaySettings: "settings",
    TorchrunSettings: "settings",
    JobShape: "job",
    Costs: "costs",
    Market: "market",
    LossNotice: "market.notice",
    Goal: "goal",
}


@contextmanager
def record_reads() -> Iterator[set[str]]:
    """Collect the places of all values that are read meanwhile, such as `job.nodes`."""
    places: set[str] = set()

    def get_value(record: object, name: str) -> object:
        record_type = object.__getattribute__(record, "__class__")
        if name in record_type.model_fields:
            places.add(f"{_RECORDS[record_type]}.{name}")
        return object.__getattribute__(record, name)

    patches = [patch.object(record, "__getattribute__", get_value) for record in _RECORDS]
    for item in patches:
        item.start()
    try:
        yield places
    finally:
        for item in patches:
            item.stop()
