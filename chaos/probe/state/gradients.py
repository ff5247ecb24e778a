"""Gradients that are accumulated before a backward pass, and steps that have none.

A step without gradients, at a learning rate of 0, is no step of training: with such a
step `torch.distributed.checkpoint.state_dict` makes an optimizer's state before it
loads or saves it (torch 2.13, `_init_optim_state`).
"""

from collections.abc import Iterable, Iterator
from typing import Any


def find_gradients(optimizers: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the gradients that are not zero, each with its optimizer's and its own number."""
    for index, optimizer in enumerate(optimizers):
        parameters = (member for group in optimizer.param_groups for member in group["params"])
        for number, parameter in enumerate(parameters):
            gradient = getattr(parameter, "grad", None)
            if gradient is not None and _is_nonzero(gradient):
                yield f"{index:04}.{number:06}", gradient


def count_trained(optimizers: Iterable[Any]) -> int:
    """Return the number of the numbers in all parameters that optimizers train."""
    groups = (group for optimizer in optimizers for group in optimizer.param_groups)
    parameters = {id(parameter): parameter for group in groups for parameter in group["params"]}
    return sum(member.numel() for member in parameters.values() if member.requires_grad)


def find_versions(optimizers: Iterable[Any]) -> tuple[int, ...]:
    """Return how often the first parameter of each group was changed, as torch counts it."""
    groups = (group for optimizer in optimizers for group in optimizer.param_groups)
    firsts = (parameter for group in groups for parameter in group["params"][:1])
    return tuple([first._version for first in firsts if not first.is_inference()])  # noqa: SLF001 - torch has no public name


def find_gradient_mark(optimizers: Iterable[Any]) -> tuple[int, ...] | None:
    """Return which gradient is the first, and how often it was changed; reads none.

    It differs once all gradients were cleared, by assignment or in place, and once there are
    optimizers. None: they have no gradient.
    """
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    for group in groups:
        for parameter in group["params"]:
            if (gradient := getattr(parameter, "grad", None)) is not None:
                return id(gradient), gradient._version  # noqa: SLF001 - torch has no public name
    return None if groups else ()


def is_empty_step(optimizer: Any) -> bool:  # see `find_kind`
    """Return whether a step cannot move a parameter: no learning rate, and no gradient."""
    groups = getattr(optimizer, "param_groups", ())
    rates = [group.get("lr") for group in groups]
    return bool(rates) and all(map(_is_zero_rate, rates)) and not any(find_gradients([optimizer]))


def _is_zero_rate(rate: Any) -> bool:
    """Return whether a learning rate is 0; False, without a wait, for one on an accelerator."""
    if rate is None or getattr(getattr(rate, "device", None), "type", "cpu") != "cpu":
        return False
    return float(rate) == 0.0


def _is_nonzero(gradient: Any) -> bool:  # a torch.Tensor
    """Return whether any element is not zero; for a DTensor, any of its local part."""
    to_local = getattr(gradient, "to_local", None)
    local_gradient = gradient if to_local is None else to_local()
    local_gradient = local_gradient.detach()
    return bool(
        (local_gradient.coalesce().values() if local_gradient.is_sparse else local_gradient).any()
    )
