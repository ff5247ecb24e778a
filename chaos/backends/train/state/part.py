"""One part of a taken state: a component whose digest may still be on an accelerator."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Self

from chaos.backends.train.state.canonical import Encoding, Unordered, norm_of, structure_of
from chaos.backends.train.state.shares import share_of
from chaos.backends.train.steps import spell
from chaos.model.event import Component, Share


@dataclass(frozen=True)
class Part:
    """A `Component` that is not read yet."""

    name: str
    encoding: Encoding | Unordered
    count: int
    size: Callable[[], float | None]
    pending: bool = False
    structure: str = ""
    share: Callable[[], Share | None] = lambda: None

    @classmethod
    def of(cls, name: str, value: Any, *, with_size: bool) -> Self:  # noqa: ANN401 - any value
        """Take one value: its size is the norm of its tensors, or the value of a single number."""
        encoding = Encoding()
        encoding.add(value)
        count = len(value) if isinstance(value, dict | list | tuple) else 1
        size = _size(encoding) if with_size else _nothing
        return cls(name, encoding, count, size, share=share_of(encoding.originals))

    @classmethod
    def of_entries(cls, name: str, entries: Sequence[tuple[str, Any]], *, with_size: bool) -> Self:
        """Take named values, in their order."""
        encoding = Encoding()
        for own, value in entries:
            encoding.add_entry(own, value)
        size = _size(encoding) if with_size else _nothing
        return cls(name, encoding, len(entries), size, share=share_of(encoding.originals))

    @classmethod
    def of_tensors(cls, name: str, tensors: Iterable[Any], *, with_size: bool) -> Self:
        """Take tensors whose names and order do not matter."""
        encoding = Unordered(tensors)
        return cls(
            name=name,
            encoding=encoding,
            count=len(encoding.tensors),
            size=norm_of(encoding.tensors) if with_size else _nothing,
            structure=structure_of(tensor for _, tensor in encoding.originals),
            share=share_of(encoding.originals),
        )

    @classmethod
    def of_numbers(cls, name: str, values: Sequence[Any]) -> Self:
        """Take a setting with a value per group; its size is the value, if all are equal."""
        encoding = Encoding()
        for value in values:
            encoding.add(value)
        alike = set(encoding.numbers)
        size = alike.pop() if len(alike) == 1 else None
        return cls(name, encoding, len(values), lambda: size)

    def component(self) -> Component:
        """Return the component; waits for the accelerator."""
        size = self.size()
        return Component(
            name=self.name,
            digest=self.encoding.digest() if self.count else "",
            size=None if size is None else spell(float(size)),
            count=self.count,
            pending=self.pending,
            structure=self.structure,
            share=self.share(),
        )


def _nothing() -> None:
    return None


def _size(encoding: Encoding) -> Callable[[], float | None]:
    if encoding.tensors:
        return norm_of(encoding.tensors)
    if len(encoding.numbers) == 1:
        number = float(encoding.numbers[0])
        return lambda: number
    return _nothing
