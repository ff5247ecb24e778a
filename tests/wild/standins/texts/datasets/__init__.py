"""Stand-in for Hugging Face's datasets: pairs of sentences, alike or not."""

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

WORDS = ("a", "bank", "buys", "drops", "firm", "in", "may", "rises", "sells", "share", "the", "two")
PARTS = {"train": 256, "validation": 128, "test": 128}
LENGTH = 8

Row = dict[str, Any]


class IterableDataset:
    """A kind of data set that no script here asks for: Accelerate imports it."""


class Dataset:
    """A kind of data set that no script here asks for: transformers asks whether one is it."""


class Rows(list[Row]):
    """The rows of one part, with the two changes that scripts make to them."""

    def select(self, indices: Iterable[int]) -> "Rows":
        """Return the rows at these places."""
        return Rows(self[index] for index in indices)

    def map(self, function: Callable[[dict[str, list[Any]]], Any], batched: bool = True) -> "Rows":
        """Return the rows with the columns that a function of all rows' columns makes."""
        assert batched
        return Rows(_mapped(self, function, ()))


class Parts(dict[str, Rows]):
    """The parts of a data set, with the two changes that scripts make to all of them."""

    def map(
        self,
        function: Callable[[dict[str, list[Any]]], Any],
        batched: bool = True,
        remove_columns: Sequence[str] = (),
    ) -> "Parts":
        """Return the rows with the columns that a function of all rows' columns makes."""
        assert batched
        return Parts(
            {part: Rows(_mapped(rows, function, remove_columns)) for part, rows in self.items()}
        )

    def rename_column(self, name: str, new: str) -> "Parts":
        """Return the rows with a column of another name."""
        return Parts(
            {
                part: Rows({new if key == name else key: row[key] for key in row} for row in rows)
                for part, rows in self.items()
            }
        )


def load_dataset(path: str, name: str | None = None) -> Parts:
    """Return the parts of a data set of pairs; `label` is 1 where the two are alike."""
    draw = random.Random(f"{path}/{name}")
    return Parts(
        {part: Rows(_pair(draw, index) for index in range(n)) for part, n in PARTS.items()}
    )


def _mapped(
    rows: list[Row], function: Callable[[dict[str, list[Any]]], Any], removed: Sequence[str]
) -> list[Row]:
    made = function({key: [row[key] for row in rows] for key in rows[0]})
    kept = [key for key in rows[0] if key not in removed]
    return [
        {**{key: row[key] for key in kept}, **{key: made[key][index] for key in made}}
        for index, row in enumerate(rows)
    ]


def _pair(draw: random.Random, index: int) -> Row:
    first = draw.choices(WORDS, k=LENGTH)
    label = draw.randrange(2)
    second = first if label else draw.choices(WORDS, k=LENGTH)
    sentences = {"sentence1": " ".join(first), "sentence2": " ".join(second)}
    return {**sentences, "text": " ".join(first), "label": label, "idx": index}
