"""Silent corruption: one number of a tensor is another one, as a broken unit makes it."""

from collections.abc import Iterator
from typing import Any

from chaos.faults.order import Corrupt

_INTS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


def corrupt(optimizer: Any, order: Corrupt) -> bool:  # see `find_kind`
    """Change a number of the first tensor that an order names; return whether one is another now.

    A number that stays what it was, as the sign of zero does, is looked for in the next tensor.
    """
    return any(_change_largest(tensor, order) for tensor in _find_tensors(optimizer, order.tensor))


def _change_largest(tensor: Any, order: Corrupt) -> bool:
    """Change a tensor's largest number; return whether it is another one then."""
    import torch

    with torch.no_grad():
        local_tensor = getattr(tensor, "to_local", lambda: tensor)()  # a DTensor's own shard
        largest_index = torch.unravel_index(
            local_tensor.abs().nan_to_num().argmax(), local_tensor.shape
        )
        old_value = local_tensor[largest_index].clone()
        local_tensor[largest_index] = _change_number(old_value.clone(), order)
        new_value = local_tensor[largest_index]
        return not bool(torch.isclose(old_value, new_value, rtol=0, atol=0, equal_nan=True))


def _find_tensors(optimizer: Any, kind: str) -> Iterator[Any]:
    """Yield an optimizer's tensors of floating-point numbers, in its own order."""
    for group in getattr(optimizer, "param_groups", ()):
        for weight in group["params"]:
            state = optimizer.state.get(weight, {})
            candidates = {
                "weight": [weight],
                "gradient": [weight.grad],
                "optimizer": [value for value in state.values() if getattr(value, "ndim", 0)],
            }[kind]
            for tensor in candidates:
                if (
                    tensor is not None
                    and tensor.is_floating_point()
                    and _count_local_numbers(tensor)
                ):
                    yield tensor


def _count_local_numbers(tensor: Any) -> int:
    """Return how many numbers this rank has of a tensor."""
    count: int = getattr(tensor, "to_local", lambda: tensor)().numel()
    return count


def _change_number(number: Any, order: Corrupt) -> Any:  # tensors of one number
    if order.how == "nan":
        return number.fill_(float("nan"))
    if order.how == "sign":
        return -number
    import torch

    size = number.element_size()
    bits = number.view(getattr(torch, _INTS[size]))
    bit = _find_mantissa_bit(number) if order.bit is None else min(order.bit, 8 * size - 1)
    # Shifted as a tensor: the highest bit of a signed type is a negative number.
    return (bits ^ (torch.ones_like(bits) << bit)).view(number.dtype)


def _find_mantissa_bit(number: Any) -> int:
    import torch

    return {torch.float64: 51, torch.float32: 22, torch.float16: 9, torch.bfloat16: 6}.get(
        number.dtype, 1
    )
