"""What faults said to the worker that was held."""

import pytest

from chaos.faults.order import Order


class Release:
    """Remembers the order with which the worker was let go."""

    def __init__(self) -> None:
        self.orders: list[Order] = []

    def __call__(self, deadline_ns: int | None = None, *, order: Order | None = None) -> None:
        if order is not None:
            self.orders.append(order)


@pytest.fixture
def release() -> Release:
    return Release()
